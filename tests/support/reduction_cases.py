"""Calls of reductions."""

from __future__ import annotations

import pytest
import reduction_oracle as oracle

from numbacc.elementwise import reductions

FUNCTIONS = tuple(oracle.DTYPES)


each_function = pytest.mark.parametrize("function", FUNCTIONS)


def call(function, x, **options):
    return getattr(reductions, function)(x, **options)

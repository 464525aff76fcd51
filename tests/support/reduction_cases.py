"""Calls of reductions, and blocks of few threads for them."""

from __future__ import annotations

import pytest
import reduction_oracle as oracle
import simulated_blocks

from numbacc.base.dispatch import simulated
from numbacc.elementwise import calling, reductions

FUNCTIONS = tuple(oracle.DTYPES)


each_function = pytest.mark.parametrize("function", FUNCTIONS)


@pytest.fixture(scope="module")
def small_blocks():
    """In the simulator threads run one by one: blocks of few, and results that several of them share."""
    with pytest.MonkeyPatch.context() as patch:
        if simulated():
            simulated_blocks.reductions(patch.setattr)
        calling.plans.clear()
        yield
        calling.plans.clear()


def call(function, x, **options):
    return getattr(reductions, function)(x, **options)

"""Arrays of other libraries, as far as numbacc sees them."""

from __future__ import annotations

import numpy as np
import pytest

from numbacc.base import dtypes


class OnlyDlpack:
    """What has nothing but DLPack."""

    def __init__(self, owner):
        self._owner = owner

    def __dlpack__(self, **options):
        return self._owner.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._owner.__dlpack_device__()


DTYPES = [row.numpy for row in dtypes.TABLE.values()]


EVERY_DTYPE = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def values(dtype):
    """A few values that every dtype holds, in two dimensions."""
    return np.array([[0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 0]]).astype(dtype)

"""cuFFT's binding on a machine that may have no GPU: it loads, and its statuses have names."""

from __future__ import annotations

import ctypes

import pytest

from numbacc.backend import has_gpu, simulated
from numbacc_bindings import _library
from numbacc_bindings.cufft import FUNCTIONS, OLDEST, SINCE, CufftError, Result, Type, cufft


def test_it_is_found_and_not_too_old():
    assert cufft.version() >= OLDEST
    for name in FUNCTIONS:
        assert cufft.address(name)
    assert {letter for letters in FUNCTIONS.values() for letter in letters} <= set(_library.TYPES)
    assert all(cufft.knows(member) for member in Type)
    assert all(version > OLDEST for versions in SINCE.values() for version in versions.values())


@pytest.mark.parametrize(
    ("status", "name", "text"),
    [
        (2, "ALLOC_FAILED", ": not enough GPU memory for the plan's tables"),
        (9, "UNALIGNED_DATA", ""),
        (19, "NVJITLINK_FAILURE", ""),
        (10, "unknown status", ""),
        (2**31 - 1, "unknown status", ""),
        (-5, "unknown status", ""),
    ],
)
def test_status_becomes_an_error(status, name, text):
    with pytest.raises(CufftError) as caught:
        cufft.check("cufftCreate", status)
    assert str(caught.value) == f"cufftCreate failed with status {status} ({name}){text}"
    assert (caught.value.function, caught.value.status, caught.value.status_name) == ("cufftCreate", status, name)
    cufft.check("cufftCreate", Result.SUCCESS)


@pytest.mark.skipif(has_gpu() and not simulated(), reason="is about machines without a GPU")
def test_without_a_gpu_there_are_no_plans():
    handle = ctypes.c_int()
    with pytest.raises(CufftError, match=r"cufftCreate failed with status 5 \(INTERNAL_ERROR\)"):
        cufft.cufftCreate(ctypes.addressof(handle))

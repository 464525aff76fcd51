"""Which of cuBLASLt's proposals are taken unmeasured: what it proposed on an H200, and what was the fastest there."""

from __future__ import annotations

import pytest

from numbacc.libraries import cublaslt_rules
from numbacc.libraries.choices import Algorithm
from numbacc.libraries.cublaslt_rules import Told
from numbacc.libraries.products import Matrix, Product

HOPPER, SMS = (9, 0), 132


def product(m, n, k, dtype="float32", epilogue="DEFAULT", batch=1, turned=True):
    """A row-major (m, k) times (n, k).T, or (k, n) where it is not `turned`, as cuBLASLt sees it."""
    a, b, d = (
        Matrix(dtype, k, n, k) if turned else Matrix(dtype, n, k, n),
        Matrix(dtype, k, m, k),
        Matrix(dtype, n, m, n),
    )
    compute = "float64" if dtype == "float64" else "float32"
    return Product(a, b, d, d, turned, False, 1, batch, compute, epilogue)


def plain(m, n, k, **options):
    """A row-major (m, k) times (k, n)."""
    return product(m, n, k, turned=False, **options)


def proposals(*rows):
    """Algorithms of (algorithm, tile, parts, waves) and, where it matters, option and whether it is deterministic."""
    made = []
    for number, (algorithm, tile, parts, waves, *more) in enumerate(rows):
        option, deterministic = (*more, *(0, True)[len(more) :])
        told = Told(waves, parts, 0, option)
        made.append(Algorithm(bytes([number]), 0, "", (algorithm, tile), deterministic, told))
    return made


#: product, what is proposed, what without scratch memory, and which is the right one: a number of the former, or -1 for
#: the first of the latter.
CASES = {
    "clusters that leave multiprocessors idle": (
        product(4096, 4096, 4096, "bfloat16", "DGELU"),
        [(39, 20, 1, 0.91), (39, 20, 1, 0.91), (39, 24, 1, 1.0), (39, 20, 1, 1.0), (39, 20, 1, 2.0)], [], 3,
    ),
    "no twin": (product(4096, 11008, 4096, "bfloat16", "DGELU"), [(39, 20, 1, 0.91), (39, 24, 1, 1.0)], [], 0),
    # The first took 0.18 ms, the sixth 0.41.
    "64x4096x14336": (product(64, 4096, 14336), [(55, 21, 16, 0.32), (55, 21, 132, 2.67)], [], 0),
    "a sum in place on a quarter of the GPU": (
        product(8, 4096, 14336),
        [(10, 10, 8, 0.24, 0, False), (10, 10, 16, 0.48, 0, False), (55, 16, 33, 0.62), (20, 16, 113, 7.0)], [], 2,
    ),
    "a sum in place, and no ordered one": (
        product(2, 4096, 14336),
        [(10, 10, 10, 0.3, 0, False), (10, 10, 16, 0.48, 0, False), (10, 10, 31, 0.94, 0, False)], [], 1,
    ),
    "a sum in place on enough of the GPU": (
        product(8, 14336, 4096), [(10, 10, 4, 0.57, 0, False), (10, 10, 9, 1.27, 0, False), (20, 16, 16, 0.9)], [], 0,
    ),
    "few columns, short sums": (product(12, 2048, 2048), [(55, 11, 3, 0.04)], [(11, 0, 1, 0.78)], -1),
    "few columns, long sums": (product(16, 333, 4099), [(55, 11, 33, 0.08)], [(11, 0, 1, 0.13)], 0),
    "many columns": (product(64, 1024, 1024), [(55, 11, 3, 0.04)], [(11, 0, 1, 0.78)], 0),
    "few columns, more than one wave": (product(12, 6144, 2048), [(55, 16, 8, 0.22)], [(11, 0, 1, 2.33)], 0),
    "parts of two products": (product(128, 256, 64), [(20, 18, 33, 0.02)], [(55, 12, 1, 0.01)], -1),
    "parts of 64 products": (product(64, 128, 256), [(55, 12, 4, 0.01)], [(55, 13, 1, 0.0)], 0),
    "one column in blocks of many rows": (
        product(1, 4096, 4096), [(13, 0, 1, 0.55, 11), (13, 0, 1, 0.97, 101), (13, 0, 1, 1.29, 73)], [], 2,
    ),
    "one column of a very large matrix": (
        product(1, 50257, 768), [(13, 0, 1, 6.8, 11), (13, 0, 1, 15.86, 73)], [], 0,
    ),
    "one column of 16 bits": (
        product(1, 4096, 4096, "bfloat16"), [(13, 0, 1, 0.55, 11), (13, 0, 1, 1.29, 73)], [], 0,
    ),
    "an idle GPU": (product(2, 1000, 777), [(11, 0, 1, 0.01), (11, 0, 1, 0.03, 1), (20, 16, 17, 0.17)], [], 2),
    "few columns, blocks of two sizes": (
        product(2, 32064, 3072), [(11, 0, 1, 0.42), (20, 16, 1, 0.9), (11, 0, 1, 0.95, 1)], [], 2,
    ),
    "few columns of 16 bits": (product(2, 50257, 768, "bfloat16"), [(11, 0, 1, 0.66), (11, 0, 1, 1.49, 1)], [], 0),
    "a wide matrix in parts": (product(256, 4096, 14336, "bfloat16"), [(66, 20, 2, 0.48)], [(66, 18, 1, 0.97)], 0),
    "an idle GPU and little to do": (product(2, 30, 32), [(11, 0, 1, 0.01), (20, 16, 17, 0.17)], [], 0),
    "a long matrix in parts": (
        product(64, 4096, 14336, "bfloat16", "BIAS"), [(66, 27, 3, 0.33)], [(66, 92, 1, 0.65)], -1,
    ),
    "a short matrix in parts": (product(24, 2048, 8192, "bfloat16"), [(66, 313, 3, 0.24)], [(66, 10, 1, 0.73)], 0),
    "a long matrix in one part": (product(64, 14336, 4096, "bfloat16"), [(66, 27, 1, 0.85)], [(66, 92, 1, 0.65)], 0),
    "few columns, long sums, an idle GPU": (
        product(16, 2560, 10240), [(55, 16, 8, 0.09), (55, 11, 3, 0.06)], [(55, 11, 16, 0.29), (55, 11, 9, 0.16)], -1,
    ),
    "few columns, long sums, enough of the GPU": (
        product(16, 4096, 4096), [(55, 16, 8, 0.15)], [(55, 11, 16, 0.47)], 0,
    ),
    "tiles that fill the GPU, once": (plain(512, 4096, 4096), [(55, 23, 6, 0.97)], [(55, 20, 1, 0.16)], -1),
    "tiles that fill the GPU, often": (plain(4096, 11008, 4096), [(55, 23, 1, 3.47)], [(55, 20, 1, 3.47)], -1),
    "tiles instead of small ones": (plain(1024, 50257, 768), [(20, 24, 1, 11.94)], [(55, 20, 1, 3.97)], -1),
    "tiles of a turned matrix": (product(384, 50257, 768), [(55, 17, 1, 1.49)], [(55, 20, 1, 1.49)], 0),
    "tiles of a turned matrix, nearly all the time": (
        product(256, 50257, 768), [(55, 24, 1, 0.99)], [(55, 20, 1, 0.99)], -1,
    ),
    "tiles of a turned matrix, once": (product(512, 4096, 4096), [(55, 20, 2, 0.32)], [(55, 20, 1, 0.16)], 0),
    # Two of three rounds in pairs: 2.06 ms became 2.60.
    "tiles that leave the GPU in the end": (plain(768, 8192, 8192), [(20, 24, 4, 5.82)], [(55, 20, 1, 0.48)], 0),
    "tiles that fill half the GPU": (plain(1024, 1024, 8192), [(55, 23, 4, 0.32)], [(55, 20, 1, 0.08)], 0),
    "tiles of a batch": (plain(512, 4096, 4096, batch=2), [(55, 23, 6, 0.97)], [(55, 20, 1, 0.16)], 0),
    "another kernel in one part": (product(64, 4096, 14336, "bfloat16"), [(66, 27, 3, 0.33)], [(41, 21, 1, 0.12)], 0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_the_fastest_is_taken(case):
    what, first, second, right = case
    given, again = proposals(*first), proposals(*second)
    expected = again[0] if right < 0 else given[right]
    asked = []
    assert cublaslt_rules.best(what, given, lambda limit: asked.append(limit) or again, HOPPER, SMS) is expected
    # Small tiles are proposed only where scratch memory is short.
    assert set(asked) <= {0, 2**20} and (right >= 0 or asked[-1] == (2**20 if expected.kind == (55, 11) else 0))
    # Nothing is known of other GPUs.
    assert cublaslt_rules.best(what, given, lambda limit: again, (10, 0), SMS) is given[0]


def test_nothing_is_taken_of_nothing():
    assert cublaslt_rules.best(product(8, 8, 8), [], lambda limit: [], HOPPER, SMS) is None


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_deterministic_first_is_never_replaced_by_another(case):
    what, first, second, _ = case
    rows = [(*row[:4], row[4] if len(row) > 4 else 0, number == 0) for number, row in enumerate(first)]
    again = proposals(*((*row, 0, False) for row in second))
    assert cublaslt_rules.best(what, proposals(*rows), lambda limit: again, HOPPER, SMS).deterministic


def test_small_products_of_float64_with_long_sums():
    what = product(80, 1001, 2001, "float64", "BIAS")
    assert cublaslt_rules.is_stand_in(what, proposals((22, 11, 1, 0.15))[0], HOPPER)
    assert not cublaslt_rules.is_stand_in(what, proposals((22, 11, 8, 0.15))[0], HOPPER)
    assert not cublaslt_rules.is_stand_in(what, proposals((22, 11, 1, 0.39))[0], HOPPER)


@pytest.mark.parametrize("dtype, epilogue, shape, number, expected", [
    ("bfloat16", "GELU_BIAS", (2048, 50257, 768), 16, True), ("bfloat16", "GELU_BIAS", (2048, 50264, 768), 66, False),
    ("float16", "GELU_BIAS", (3000, 30522, 768), 41, True), ("float16", "GELU_BIAS", (2048, 50257, 768), 56, True),
    ("bfloat16", "BIAS", (64, 50257, 768), 24, False),
    ("bfloat16", "GELU_BIAS", (3, 8, 4), 16, False),
    ("float64", "BIAS", (512, 5120, 5120), 22, True), ("float64", "BIAS", (256, 1000, 777), 22, False),
    ("float64", "BIAS", (8, 5120, 5120), 22, True), ("float64", "BIAS", (8, 50257, 768), 11, True),
    ("float64", "DEFAULT", (512, 5120, 5120), 35, False), ("float32", "BIAS", (512, 5120, 5120), 11, False),
])  # fmt: skip
def test_kernels_that_stand_in_are_known(dtype, epilogue, shape, number, expected):
    what = product(*shape, dtype, epilogue)
    algorithm = Algorithm(b"", 0, "", (number, 0))
    assert cublaslt_rules.is_stand_in(what, algorithm, HOPPER) is expected
    assert not cublaslt_rules.is_stand_in(what, algorithm, (8, 0))

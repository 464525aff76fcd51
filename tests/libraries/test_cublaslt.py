"""Runners of cuBLASLt's products, without a GPU: its own descriptors, and C functions made here for the rest."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest
from skips import skip

from numbacc import info
from numbacc.base.codes import ALIGNED, ARRAYS, CAPTURING, MATMUL_ARRAYS, MAY_OVERLAP
from numbacc.base.dispatch import simulated
from numbacc.base.layout import CPU

if simulated():
    skip("not simulated", allow_module_level=True)

from numbacc.libraries import choices, cublaslt
from numbacc.libraries.choices import Algorithm
from numbacc.libraries.products import Matrix, Product
from numbacc.runtime import device
from numbacc_bindings.cublasLt import AlgoConfig, HeuristicResult, MatmulAttribute, ReductionScheme, cublasLt

CONTEXT, STREAM, SCRATCH = 0x7F12_3456_7890, 0x7F12_0000_0040, 0x10_0000
word = ctypes.c_uint64
#: a, b, c, out, bias.
PLACES = [ALIGNED * k for k in (100, 200, 300, 300, 400)]
MATRIX = Matrix("float32", 8, 8, 8)
PRODUCT = Product(MATRIX, MATRIX, MATRIX, MATRIX, False, False, 1, 1, "float32", "BIAS", "float32")


def addresses(bias=PLACES[4], out=PLACES[3]):
    found = [*PLACES[:2], out, out, bias]
    return [*found, *[0] * (MATMUL_ARRAYS - len(found))]


class FakeGpu:
    """The driver and the product as C functions.

    Attributes:
        capturing: whether the stream is.
        biases: the bias in the descriptor of each product that was queued.
        during: called by the product.
    """

    def __init__(self):
        self.capturing, self.biases, self.during = False, [], None
        self._functions = {
            "cuCtxGetCurrent": self._c(1, lambda place: self._write(place, CONTEXT)),
            "cuStreamIsCapturing": self._c(2, lambda stream, place: self._write(place, int(self.capturing))),
            "cublasLtMatmul": self._c(16, self._product),
        }

    @staticmethod
    def _c(count, function):
        return ctypes.CFUNCTYPE(ctypes.c_int, *[word] * count)(function)

    @staticmethod
    def _write(place, value):
        word.from_address(place).value = value
        return 0

    def _product(self, handle, descriptor, *rest):
        bias, written = word(), ctypes.c_size_t()
        cublasLt.cublasLtMatmulDescGetAttribute(
            descriptor, MatmulAttribute.BIAS_POINTER, ctypes.addressof(bias), 8, ctypes.addressof(written)
        )
        self.biases.append(bias.value)
        if self.during is not None:
            during, self.during = self.during, None
            during()
        return 0

    def address(self, name):
        return ctypes.cast(self._functions[name], ctypes.c_void_p).value


@pytest.fixture
def gpu(monkeypatch):
    if info.attempt(info.find, "cublasLt")[1]:
        skip("library")
    fake, real = FakeGpu(), cublasLt.address
    found = SimpleNamespace(get_current=fake.address("cuCtxGetCurrent"), context=CONTEXT)
    monkeypatch.setattr(device, "gpu", lambda device: found)
    monkeypatch.setattr(cublaslt, "driver", SimpleNamespace(address=fake.address))
    monkeypatch.setattr(
        cublasLt, "address", lambda name: fake.address(name) if name == "cublasLtMatmul" else real(name)
    )
    monkeypatch.setattr(cublaslt, "_handles", SimpleNamespace(get=lambda device: SimpleNamespace(value=1)))
    return fake


@pytest.fixture
def runner(gpu):
    # out must share nothing with bias.
    pairs = [(4, 0, 32, 3, 0, 256, 0)]
    return cublaslt.Runner(PRODUCT, Algorithm(bytes(64), 8, ""), (ALIGNED,) * ARRAYS, CPU, pairs)


def test_what_is_queued_in_between_is_looked_at(gpu, runner):
    """A finalizer may run between any two steps of a call: it neither skips the checks nor changes the addresses."""
    found = []

    def in_between():
        gpu.capturing = True
        found.append(runner.launch(STREAM, SCRATCH, 1, 0, *addresses()))
        gpu.capturing = False
        found.append(runner.launch(STREAM, SCRATCH, 1, 0, *addresses(bias=PLACES[3])))
        found.append(runner.launch(STREAM, SCRATCH, 1, 0, *addresses(bias=512)))

    gpu.during = in_between
    assert runner.launch_unchecked(STREAM, SCRATCH, 1, 0, *addresses(bias=6)) == 0
    assert found == [CAPTURING, MAY_OVERLAP, 0]
    assert runner.launch_unchecked(STREAM, SCRATCH, 1, 0, *addresses(bias=6)) == 0
    assert runner.launch(STREAM, SCRATCH, 1, 0, *addresses(bias=512)) == 0
    assert gpu.biases == [6, 512, 6, 512]


def test_arrays_that_have_been_looked_at_are_queued(gpu, runner):
    """Of any alignment, sharing memory as they like, into a graph."""
    gpu.capturing = True
    assert runner.launch_unchecked(STREAM, SCRATCH, 1, 0, *addresses(bias=PLACES[3] + 4)) == 0
    assert gpu.biases == [PLACES[3] + 4]


# ---------------------------------------------------------------- what is told of algorithms


def algorithm(monkeypatch, parts, scheme):
    """What is made of a proposal of the heuristics."""
    values = {AlgoConfig.SPLITK_NUM: parts, AlgoConfig.REDUCTION_SCHEME: scheme}

    def get(algo, attribute, place, size, written):
        ctypes.memmove(place, (values.get(attribute, 7) % 2 ** (8 * size)).to_bytes(size, "little"), size)

    monkeypatch.setattr(cublasLt, "cublasLtMatmulAlgoConfigGetAttribute", get)
    return cublaslt._algorithm(HeuristicResult(workspaceSize=40))


def test_kernels_for_one_column_sum_no_gradients():
    """cuBLASLt's sums over k are wrong there: see `test_gemm_gpu.test_all_that_the_heuristics_propose_is_right`."""
    column, other = Algorithm(b"", 0, "", (13, 0)), Algorithm(b"", 0, "", (66, 0))
    for epilogue, wrong in {"BGRADA": True, "BGRADB": True, "BIAS": False, "DEFAULT": False}.items():
        product = PRODUCT._replace(epilogue=epilogue)
        found = cublaslt.algorithms.right([column, other], product, 130100)
        assert found == ([other] if wrong else [column, other])


@pytest.mark.parametrize("capability, expected", [((9, 0), True), ((8, 0), False)])
def test_slow_kernels_are_known_where_they_were_measured(monkeypatch, capability, expected):
    monkeypatch.setattr(device, "capability", lambda device: capability)
    wide = Matrix("bfloat16", 8192, 8192, 8192)
    product = PRODUCT._replace(a=wide, b=wide, d=wide, epilogue="GELU_BIAS")
    assert cublaslt.is_stand_in(product, Algorithm(b"", 0, "", (16, 0)), 0) is expected


@pytest.mark.parametrize("parts, scheme, deterministic", [
    (1, ReductionScheme.NONE, True), (4, ReductionScheme.COMPUTE_TYPE, True), (4, ReductionScheme.OUTPUT_TYPE, True),
    (4, ReductionScheme.INPLACE, False), (1, ReductionScheme.INPLACE, True),
    # The kernel decides how many.
    (0, ReductionScheme.INPLACE, False), (-1, ReductionScheme.INPLACE, False), (-1, ReductionScheme.COMPUTE_TYPE, True),
])  # fmt: skip
def test_sums_in_place_are_not_called_deterministic(monkeypatch, tmp_path, parts, scheme, deterministic):
    """Nor when a tuned algorithm comes from disk."""
    found = algorithm(monkeypatch, parts, scheme)
    assert found.deterministic is deterministic
    assert (found.workspace_bytes, f"split-k {parts}, reduction {int(scheme)}" in found.text) == (40, True)
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    choices.save("0" * 64, found)
    loaded = choices.load("0" * 64)
    assert loaded[:5] == found[:5] and loaded.deterministic is deterministic

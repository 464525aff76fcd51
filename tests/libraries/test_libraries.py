"""Libraries of NVIDIA's: their versions, their errors, and the descriptors that they make without a GPU."""

from __future__ import annotations

import ctypes
import importlib.metadata
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest
from skips import skip

from numbacc import info
from numbacc.runtime import contexts, installed
from numbacc_bindings import _library, cudnn, cufft, curand
from numbacc_bindings import cublasLt as binding
from numbacc_bindings.cublasLt import (
    OLDEST,
    CublasLtError,
    CudaDataType,
    LayoutAttribute,
    MatmulAttribute,
    MatrixScale,
    PreferenceAttribute,
    Status,
)

PATH = "/here/lib.so.12"


class Row(NamedTuple):
    """A library.

    Attributes:
        name: cuda-pathfinder's, and its binding's.
        module: the binding.
        statuses: the enum of its statuses.
        create: the function that makes a handle.
        young: a member of an enum that the oldest version supported does not know, or None.
    """

    name: str
    module: ModuleType
    statuses: type[IntEnum]
    create: str
    young: IntEnum | None = None

    @property
    def library(self):
        return getattr(self.module, self.name)

    @property
    def part(self):
        return next(part for part in info.LIBRARIES if part.name == self.name)


CUBLASLT = Row("cublasLt", binding, Status, "cublasLtCreate", MatmulAttribute.A_SCALE_MODE)
CUDNN = Row("cudnn", cudnn, cudnn.Status, "cudnnCreate", cudnn.AttributeName.DEVICEPROP_HANDLE)
ROWS = (
    CUBLASLT,
    Row("cufft", cufft, cufft.Result, "cufftCreate", cufft.Result.NVRTC_FAILURE),
    Row("curand", curand, curand.Status, "curandCreateGenerator"),
    CUDNN,
)
each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def find_nothing(name):
    import cuda.pathfinder

    raise cuda.pathfinder.DynamicLibNotFoundError(f"searched here and there for {name}")


@pytest.fixture
def pretend(monkeypatch):
    """A function that makes a binding anew, over a library that is made up of Python functions."""
    import cuda.pathfinder

    def make(row, version=None):
        def tell(*places):
            for place in places:
                ctypes.c_int.from_address(place).value = version
            return version

        functions = {} if version is None else {row.part.function: tell}
        found = SimpleNamespace(abs_path=PATH)
        monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", lambda name: found)
        monkeypatch.setattr(ctypes, "CDLL", lambda path: SimpleNamespace(**functions))
        return new_library(row)

    return make


def new_library(row):
    """As the row's, with nothing loaded yet."""
    names = ("name", "error", "functions", "describe", "remedy", "version", "oldest", "since")
    return _library.Library(**{name: getattr(row.library, f"_{name}") for name in names})


@pytest.fixture
def real(request):
    """The library of the test's row, by default cuBLASLt, where it is installed."""
    row = request.node.callspec.params.get("row", CUBLASLT) if hasattr(request.node, "callspec") else CUBLASLT
    if info.attempt(info.find, row.name)[1]:
        skip("library")
    return row.library


# ---------------------------------------------------------------- versions


@each
def test_version_is_the_wheels(real, row):
    wheels = [info.attempt(importlib.metadata.version, name)[0] for name in (row.part.cu12, row.part.cu13)]
    versions = [info.numbers(version)[:3] for version in wheels if version]
    units = installed.UNITS[row.part.results]
    if not versions:
        skip("library")
    assert real.version() in [units[0] * major + units[1] * minor + patch for major, minor, patch in versions]


@each
def test_every_function_is_there(real, row):
    for name in row.module.FUNCTIONS:
        assert real.address(name)


@pytest.mark.parametrize(
    ("member", "first"),
    [
        (MatmulAttribute.TRANSA, OLDEST),
        # Equal to members of other enums that are younger, or older.
        (MatmulAttribute.COMPUTE_TYPE, OLDEST),
        (MatrixScale.SCALAR_32F, 120800),
        (MatmulAttribute.A_SCALE_MODE, 120800),
        (MatrixScale.OUTER_VEC_32F, 120900),
    ],
)
@pytest.mark.parametrize("version", [OLDEST, 120799, 120800, 120805, 120900, 131000])
def test_members_need_a_version(pretend, member, first, version):
    library = pretend(CUBLASLT, version)
    assert library.version() == version
    assert library.knows(member) is (version >= first)
    if version >= first:
        library.require(member)
    else:
        with pytest.raises(CublasLtError) as caught:
            library.require(member)
        assert str(caught.value) == (
            f"{type(member).__name__}.{member.name} needs cublasLt {first} or newer; {version} is loaded"
        )
        assert caught.value.status is None


@each
def test_first_versions_are_of_members(row):
    for enum, members in row.library._since.items():
        assert {type(member) for member in members} == {enum}
        assert min(members.values()) > row.module.OLDEST


@pytest.mark.parametrize(
    ("good", "bad", "link"),
    [
        (
            "12.6.4 12.9.2 13.1.1",
            "13.0.0 13.1.0",
            "docs.nvidia.com/cuda/cublas-patch-release-notes/",
        ),
        ("13.5.1 13.6.1", "13.6.0", "github.com/NVIDIA/raft/issues/3097"),
    ],
)
def test_known_to_be_bad(good, bad, link):
    """How they are shown, tests/house/test_info.py tells."""
    assert [info.known_bad("cublasLt", version) for version in good.split()] == [[]] * len(good.split())
    for version in bad.split():
        (problem,) = info.known_bad("cublasLt", version)
        assert problem.endswith(f" https://{link}")


USES = {
    "version": lambda library, row: library.version(),
    "load": lambda library, row: library.load(),
    "knows": lambda library, row: library.knows(row.young),
    "address": lambda library, row: library.address(row.create),
    "call": lambda library, row: getattr(library, row.create)(*[0] * len(row.module.FUNCTIONS[row.create])),
    # These have functions that describe a status.
    "check": lambda library, row: library.check(row.create, 1),
}
uses = pytest.mark.parametrize(
    ("row", "use"),
    [
        pytest.param(row, use, id=f"{row.name}-{name}")
        for row in ROWS
        for name, use in USES.items()
        if (name != "knows" or row.young is not None) and (name != "check" or row in (CUBLASLT, CUDNN))
    ],
)


@uses
def test_too_old(pretend, row, use):
    oldest = row.module.OLDEST
    library = pretend(row, oldest - 1)
    for _ in range(2):
        with pytest.raises(row.library._error) as caught:
            use(library, row)
        message = str(caught.value)
        assert message.startswith(f"numbacc needs {row.name} {oldest} or newer, but {PATH} is {oldest - 1}: ")
        assert 'pip install "numbacc[cu12]"' in message
    assert library._loaded is None


@each
def test_too_old_to_tell_its_version(pretend, row):
    library = pretend(row)
    for _ in range(2):
        with pytest.raises(row.library._error, match=f"lacks the function {row.part.function}: it is older"):
            library.load()


# ---------------------------------------------------------------- errors


@uses
def test_missing(monkeypatch, row, use):
    import cuda.pathfinder

    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", find_nothing)
    with pytest.raises(row.library._error) as caught:
        use(new_library(row), row)
    message = str(caught.value)
    assert message.startswith(f"{row.name} was not found: ")
    assert f'pip install "numbacc[cu12]" installs it ({row.part.cu12})' in message
    assert 'with a CUDA 13 driver, pip install "numbacc[cu13]"' in message
    assert message.endswith(f"The search failed with:\nsearched here and there for {row.name}")


@each
def test_every_status_is_named(real, row):
    for status in set(row.statuses) - {row.statuses.SUCCESS}:
        with pytest.raises(row.library._error) as caught:
            real.check(row.create, status)
        error = caught.value
        assert (error.function, error.status, error.status_name) == (row.create, status, status.name)
        assert str(error).startswith(f"{row.create} failed with status {status.value} ({status.name})")
        # Of cuFFT's a few have no more to say than their name, and cuDNN tells what has happened, if anything has.
        assert f"({status.name}): " in str(error) or row.module in (cudnn, cufft)
    real.check(row.create, row.statuses.SUCCESS)


@pytest.mark.parametrize("status", [10, 12345, 2**31 - 1, -1])
@each
def test_unknown_status(real, row, status):
    with pytest.raises(row.library._error) as caught:
        real.check(row.create, status)
    assert str(caught.value) == f"{row.create} failed with status {status} (unknown status)"
    assert caught.value.status == status


def test_status_that_only_the_library_knows():
    younger = SimpleNamespace(
        cublasLtGetStatusName=lambda status: b"CUBLAS_STATUS_ENTIRELY_NEW",
        cublasLtGetStatusString=lambda status: b"something new went wrong",
    )
    assert binding._describe(younger, 99) == ("ENTIRELY_NEW", "something new went wrong")


@pytest.mark.parametrize(
    ("row", "arguments", "status", "text"),
    [
        (ROWS[0], (), Status.NOT_INITIALIZED, "python -m numbacc info"),
        (CUDNN, (), cudnn.Status.NOT_INITIALIZED, "cuDNN found no usable GPU: python -m numbacc info"),
        (ROWS[1], (), cufft.Result.INTERNAL_ERROR, "no GPU was found"),
        (ROWS[2], (curand.RngType.PSEUDO_XORWOW,), curand.Status.INITIALIZATION_FAILED, "CUDA could not be"),
    ],
)
def test_no_gpu(real, row, arguments, status, text):
    if contexts.device_count():
        skip("no gpu")
    handle = ctypes.c_void_p()
    with pytest.raises(row.library._error, match=text) as caught:
        getattr(real, row.create)(ctypes.addressof(handle), *arguments)
    assert caught.value.status == status


# ---------------------------------------------------------------- descriptors

#: Attribute -> its bytes, as cublasLt.h says, where they are not 4.
BYTES = {
    **dict.fromkeys((a for a in MatmulAttribute if a.name.endswith(("_POINTER", "_LD", "_STRIDE"))), 8),
    MatmulAttribute.FAST_ACCUM: 1,
}
LAYOUT_BYTES = dict.fromkeys(
    (LayoutAttribute.ROWS, LayoutAttribute.COLS, LayoutAttribute.LD, LayoutAttribute.STRIDED_BATCH_OFFSET), 8
)
#: Kind of descriptor, how it is made, its attributes, and the bytes of those.
DESCRIPTORS = (
    ("MatmulDesc", (binding.ComputeType.COMPUTE_32F, CudaDataType.R_32F), MatmulAttribute, BYTES),
    ("MatrixLayout", (CudaDataType.R_16F, 8, 4, 8), LayoutAttribute, LAYOUT_BYTES),
    ("MatmulPreference", (), PreferenceAttribute, {PreferenceAttribute.MAX_WORKSPACE_BYTES: 8}),
)


@pytest.fixture
def descriptor(request, real):
    """The functions of a kind of descriptor, and one that was made."""
    kind, arguments = request.param
    create, destroy, put, get = (
        getattr(real, f"cublasLt{kind}{verb}") for verb in ("Create", "Destroy", "SetAttribute", "GetAttribute")
    )
    made = ctypes.c_void_p()
    create(ctypes.addressof(made), *arguments)
    assert made.value
    yield put, get, made.value
    destroy(made.value)


def read(get, made, attribute, size):
    value, written = ctypes.c_uint64(), ctypes.c_size_t()
    get(made, attribute, ctypes.addressof(value), size, ctypes.addressof(written))
    return value.value, written.value


@pytest.mark.parametrize(
    ("descriptor", "attribute", "size"),
    [
        pytest.param((kind, arguments), attribute, sizes.get(attribute, 4), id=f"{kind}-{attribute.name}")
        for kind, arguments, attributes, sizes in DESCRIPTORS
        for attribute in attributes
    ],
    indirect=["descriptor"],
)
def test_attributes_come_back(real, descriptor, attribute, size):
    put, get, made = descriptor
    if not real.knows(attribute):
        skip("younger library")
    value = ctypes.c_uint64(2**40 + 1 if size == 8 else 1)
    put(made, attribute, ctypes.addressof(value), size)
    assert read(get, made, attribute, size) == (value.value, size)
    for wrong in {1, 2, 4, 8} - {size}:
        with pytest.raises(CublasLtError) as caught:
            put(made, attribute, ctypes.addressof(value), wrong)
        assert caught.value.status == Status.INVALID_VALUE


@pytest.mark.parametrize("descriptor", [DESCRIPTORS[1][:2]], indirect=True)
def test_layout_is_what_it_was_made_of(descriptor):
    _, get, made = descriptor
    expected = {"TYPE": CudaDataType.R_16F, "ROWS": 8, "COLS": 4, "LD": 8, "BATCH_COUNT": 1, "STRIDED_BATCH_OFFSET": 0}
    attributes = {name: LayoutAttribute[name] for name in expected}
    assert {name: read(get, made, a, LAYOUT_BYTES.get(a, 4))[0] for name, a in attributes.items()} == expected

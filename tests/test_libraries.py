"""Libraries of NVIDIA's: their versions, their errors, and the descriptors that they make without a GPU."""

from __future__ import annotations

import ctypes
import importlib.metadata
from types import SimpleNamespace

import pytest

from numbacc import contexts, info
from numbacc_bindings import _library
from numbacc_bindings import cublasLt as binding
from numbacc_bindings.cublasLt import (
    OLDEST,
    CublasLtError,
    DataType,
    LayoutAttribute,
    MatmulAttribute,
    MatrixScale,
    PreferenceAttribute,
    Status,
    cublasLt,
)

SKIPS = {
    "cublasLt": 'needs cuBLASLt: pip install "numbacc[cu12]"',
    "younger": "is about a younger cuBLASLt",
    "no gpu": "is about machines without a GPU",
}
PATH = "/here/libcublasLt.so.12"


def find_nothing(name):
    import cuda.pathfinder

    raise cuda.pathfinder.DynamicLibNotFoundError(f"searched here and there for {name}")


@pytest.fixture
def pretend(monkeypatch):
    """A function that makes cuBLASLt's binding anew, over a library that is made up of Python functions."""
    import cuda.pathfinder

    def make(version=None):
        functions = {} if version is None else {"cublasLtGetVersion": lambda: version}
        found = SimpleNamespace(abs_path=PATH)
        monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", lambda name: found)
        monkeypatch.setattr(ctypes, "CDLL", lambda path: SimpleNamespace(**functions))
        return new_library()

    return make


def new_library():
    """As `cublasLt`, with nothing loaded yet."""
    names = ("name", "error", "functions", "describe", "remedy", "version", "oldest", "since")
    return _library.Library(**{name: getattr(cublasLt, f"_{name}") for name in names})


@pytest.fixture
def real():
    """cuBLASLt, where it is installed."""
    if info.attempt(info.find, "cublasLt")[1]:
        pytest.skip(SKIPS["cublasLt"])
    return cublasLt


# ---------------------------------------------------------------- versions


def test_version_is_the_wheels(real):
    wheels = [part for part in info.LIBRARIES if part.name == "cublasLt"]
    found = [info.attempt(importlib.metadata.version, name)[0] for part in wheels for name in (part.cu12, part.cu13)]
    versions = [info.numbers(version)[:3] for version in found if version]
    if versions:
        assert real.version() in [10000 * major + 100 * minor + patch for major, minor, patch in versions]


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
    library = pretend(version)
    assert library.version() == version
    assert library.knows(member) is (version >= first)
    if version >= first:
        library.require(member)
        return
    with pytest.raises(CublasLtError) as caught:
        library.require(member)
    assert str(caught.value) == (
        f"{type(member).__name__}.{member.name} needs cublasLt {first} or newer; {version} is loaded"
    )
    assert caught.value.status is None


def test_first_versions_are_of_members():
    for enum, members in binding.SINCE.items():
        assert {type(member) for member in members} == {enum}
        assert min(members.values()) > OLDEST


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
    """How they are shown, tests/test_info.py tells."""
    assert [info.known_bad("cublasLt", version) for version in good.split()] == [[]] * len(good.split())
    for version in bad.split():
        (problem,) = info.known_bad("cublasLt", version)
        assert problem.endswith(f" https://{link}")


USES = [
    lambda library: library.version(),
    lambda library: library.load(),
    lambda library: library.knows(MatmulAttribute.A_SCALE_MODE),
    lambda library: library.address("cublasLtMatmul"),
    lambda library: library.cublasLtCreate(0),
    lambda library: library.check("cublasLtCreate", 1),
]


@pytest.mark.parametrize("use", USES)
def test_too_old(pretend, use):
    library = pretend(OLDEST - 1)
    for _ in range(2):
        with pytest.raises(CublasLtError) as caught:
            use(library)
        message = str(caught.value)
        assert message.startswith(f"numbacc needs cublasLt {OLDEST} or newer, and {PATH} is {OLDEST - 1}: ")
        assert 'pip install "numbacc[cu12]"' in message
    assert library._loaded is None


def test_too_old_to_tell_its_version(pretend):
    library = pretend()
    for _ in range(2):
        with pytest.raises(CublasLtError, match="no function cublasLtGetVersion: it is older"):
            library.load()


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("use", USES)
def test_missing(monkeypatch, use):
    import cuda.pathfinder

    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", find_nothing)
    with pytest.raises(CublasLtError) as caught:
        use(new_library())
    message = str(caught.value)
    assert message.startswith("cublasLt was not found: ")
    assert f'pip install "numbacc[cu12]" brings it ({info.LIBRARIES[0].cu12})' in message
    assert 'for a CUDA 13 driver pip install "numbacc[cu13]"' in message
    assert message.endswith("These places were searched:\nsearched here and there for cublasLt")


def test_every_status_is_named(real):
    for status in set(Status) - {Status.SUCCESS}:
        with pytest.raises(CublasLtError) as caught:
            real.check("cublasLtMatmul", status)
        assert caught.value.status_name == status.name
        assert f"cublasLtMatmul failed with status {status.value} ({status.name}): " in str(caught.value)


@pytest.mark.parametrize("status", [2, 12345, 2**31 - 1, -1])
def test_unknown_status(real, status):
    with pytest.raises(CublasLtError) as caught:
        real.check("cublasLtMatmul", status)
    assert str(caught.value) == f"cublasLtMatmul failed with status {status} (unknown status)"
    assert caught.value.status == status


def test_status_that_only_the_library_knows():
    younger = SimpleNamespace(
        cublasLtGetStatusName=lambda status: b"CUBLAS_STATUS_ENTIRELY_NEW",
        cublasLtGetStatusString=lambda status: b"something new went wrong",
    )
    assert binding._describe(younger, 99) == ("ENTIRELY_NEW", "something new went wrong")


def test_no_gpu_says_what_to_do(real):
    if contexts.device_count():
        pytest.skip(SKIPS["no gpu"])
    handle = ctypes.c_void_p()
    with pytest.raises(CublasLtError, match="python -m numbacc info") as caught:
        real.cublasLtCreate(ctypes.addressof(handle))
    assert caught.value.status == Status.NOT_INITIALIZED


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
    ("MatmulDesc", (binding.ComputeType.COMPUTE_32F, DataType.R_32F), MatmulAttribute, BYTES),
    ("MatrixLayout", (DataType.R_16F, 8, 4, 8), LayoutAttribute, LAYOUT_BYTES),
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
        pytest.skip(SKIPS["younger"])
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
    expected = {"TYPE": DataType.R_16F, "ROWS": 8, "COLS": 4, "LD": 8, "BATCH_COUNT": 1, "STRIDED_BATCH_OFFSET": 0}
    attributes = {name: LayoutAttribute[name] for name in expected}
    assert {name: read(get, made, a, LAYOUT_BYTES.get(a, 4))[0] for name, a in attributes.items()} == expected

"""Every declaration of the bindings agrees with NVIDIA's headers, those of whichever wheels are installed.

To add a library, add a row to `ROWS`.
"""

from __future__ import annotations

import ctypes
import functools
import pkgutil
from collections.abc import Mapping
from enum import IntEnum
from types import ModuleType
from typing import NamedTuple

import cuda.pathfinder
import pytest
from skips import needed, skip

import numbacc_bindings
from numbacc_bindings import _library, cublasLt, cudnn, cufft, curand, driver

needed("clang.cindex", "parser")

from headers import Header  # noqa: E402


class Row(NamedTuple):
    """A library.

    Attributes:
        module: its binding.
        headers: what a C program includes.
        folders: cuda-pathfinder's names of the libraries whose headers these are, and of those that they include.
        version: the macro of the headers' version.
        status: the C type of a status.
        enums: our enum -> (the C enum, the prefix of its members).
        structs: our struct -> the C struct.
        constants: name of our constant -> C expression.
    """

    module: ModuleType
    headers: tuple[str, ...]
    folders: tuple[str, ...]
    version: str
    status: str
    enums: Mapping[type[IntEnum], tuple[str, str]]
    structs: Mapping[type[ctypes.Structure], str] = {}
    constants: Mapping[str, str] = {}


ROWS = (
    Row(
        driver,
        ("cuda.h",),
        ("cudart",),
        "CUDA_VERSION",
        "CUresult",
        {
            driver.Status: ("CUresult", "CUDA_"),
            driver.DeviceAttribute: ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_"),
            driver.FunctionAttribute: ("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_"),
            driver.LaunchAttributeId: ("CUlaunchAttributeID", "CU_LAUNCH_ATTRIBUTE_"),
            driver.PointerAttribute: ("CUpointer_attribute", "CU_POINTER_ATTRIBUTE_"),
            driver.MemoryType: ("CUmemorytype", "CU_MEMORYTYPE_"),
            driver.MemoryPoolAttribute: ("CUmemPool_attribute", "CU_MEMPOOL_ATTR_"),
            driver.StreamFlag: ("CUstream_flags", "CU_STREAM_"),
            driver.EventFlag: ("CUevent_flags", "CU_EVENT_"),
            driver.CaptureMode: ("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_"),
            driver.CaptureStatus: ("CUstreamCaptureStatus", "CU_STREAM_CAPTURE_STATUS_"),
        },
        {
            driver.MemoryLocation: "CUmemLocation",
            driver.MemoryPoolProperties: "CUmemPoolProps",
            driver.LaunchConfig: "CUlaunchConfig",
            driver.LaunchAttribute: "CUlaunchAttribute",
        },
        {
            "ALLOCATION_TYPE_PINNED": "CU_MEM_ALLOCATION_TYPE_PINNED",
            "LOCATION_TYPE_DEVICE": "CU_MEM_LOCATION_TYPE_DEVICE",
            "MEMHOSTREGISTER_PORTABLE": "CU_MEMHOSTREGISTER_PORTABLE",
            "MEMHOSTREGISTER_DEVICEMAP": "CU_MEMHOSTREGISTER_DEVICEMAP",
            "USER_OBJECT_NO_DESTRUCTOR_SYNC": "CU_USER_OBJECT_NO_DESTRUCTOR_SYNC",
            "GRAPH_USER_OBJECT_MOVE": "CU_GRAPH_USER_OBJECT_MOVE",
            "STREAM_SET_CAPTURE_DEPENDENCIES": "CU_STREAM_SET_CAPTURE_DEPENDENCIES",
        },
    ),
    Row(
        cublasLt,
        ("cublasLt.h",),
        ("cublas", "cudart"),
        "CUBLAS_VERSION",
        "cublasStatus_t",
        {
            cublasLt.Status: ("cublasStatus_t", "CUBLAS_STATUS_"),
            cublasLt.CublasOperation: ("cublasOperation_t", "CUBLAS_OP_"),
            cublasLt.ComputeType: ("cublasComputeType_t", "CUBLAS_"),
            cublasLt.CudaDataType: ("cudaDataType_t", "CUDA_"),
            cublasLt.LtEpilogue: ("cublasLtEpilogue_t", "CUBLASLT_EPILOGUE_"),
            cublasLt.MatrixScale: ("cublasLtMatmulMatrixScale_t", "CUBLASLT_MATMUL_MATRIX_SCALE_"),
            cublasLt.LayoutAttribute: ("cublasLtMatrixLayoutAttribute_t", "CUBLASLT_MATRIX_LAYOUT_"),
            cublasLt.MatmulAttribute: ("cublasLtMatmulDescAttributes_t", "CUBLASLT_MATMUL_DESC_"),
            cublasLt.PreferenceAttribute: ("cublasLtMatmulPreferenceAttributes_t", "CUBLASLT_MATMUL_PREF_"),
            cublasLt.ReductionScheme: ("cublasLtReductionScheme_t", "CUBLASLT_REDUCTION_SCHEME_"),
            cublasLt.AlgoConfig: ("cublasLtMatmulAlgoConfigAttributes_t", "CUBLASLT_ALGO_CONFIG_"),
        },
        {
            cublasLt.Algo: "cublasLtMatmulAlgo_t",
            cublasLt.HeuristicResult: "cublasLtMatmulHeuristicResult_t",
        },
    ),
    Row(
        cufft,
        ("cufft.h",),
        ("cufft", "cudart"),
        "CUFFT_VERSION",
        "cufftResult",
        {
            cufft.Result: ("cufftResult", "CUFFT_"),
            cufft.Type: ("cufftType", "CUFFT_"),
        },
        constants={"FORWARD": "CUFFT_FORWARD", "INVERSE": "CUFFT_INVERSE"},
    ),
    Row(
        cudnn,
        ("cudnn_graph.h",),
        ("cudnn", "cudart"),
        "CUDNN_VERSION",
        "cudnnStatus_t",
        {
            cudnn.Status: ("cudnnStatus_t", "CUDNN_STATUS_"),
            cudnn.Severity: ("cudnnSeverity_t", "CUDNN_SEV_"),
            cudnn.DataType: ("cudnnDataType_t", "CUDNN_DATA_"),
            cudnn.AttributeName: ("cudnnBackendAttributeName_t", "CUDNN_ATTR_"),
            cudnn.AttributeType: ("cudnnBackendAttributeType_t", "CUDNN_TYPE_"),
            cudnn.DescriptorType: ("cudnnBackendDescriptorType_t", "CUDNN_BACKEND_"),
            cudnn.HeurMode: ("cudnnBackendHeurMode_t", "CUDNN_HEUR_MODE_"),
            cudnn.NumericalNote: ("cudnnBackendNumericalNote_t", "CUDNN_NUMERICAL_NOTE_"),
            cudnn.BehaviorNote: ("cudnnBackendBehaviorNote_t", "CUDNN_BEHAVIOR_NOTE_"),
            cudnn.PointwiseMode: ("cudnnPointwiseMode_t", "CUDNN_POINTWISE_"),
            cudnn.ReduceTensorOp: ("cudnnReduceTensorOp_t", "CUDNN_REDUCE_TENSOR_"),
            cudnn.RngDistribution: ("cudnnRngDistribution_t", "CUDNN_RNG_DISTRIBUTION_"),
            cudnn.ConvolutionMode: ("cudnnConvolutionMode_t", "CUDNN_"),
            cudnn.TensorReordering: ("cudnnBackendTensorReordering_t", "CUDNN_TENSOR_REORDERING_"),
            cudnn.CudaGraphRetention: ("cudnnCudaGraphRetention_t", "CUDNN_CUDA_GRAPH_RETENTION_"),
            cudnn.KnobType: ("cudnnBackendKnobType_t", "CUDNN_KNOB_TYPE_"),
        },
    ),
    Row(
        curand,
        ("curand.h",),
        ("curand", "cudart"),
        "CURAND_VERSION",
        "curandStatus_t",
        {
            curand.Status: ("curandStatus_t", "CURAND_STATUS_"),
            curand.RngType: ("curandRngType_t", "CURAND_RNG_"),
            curand.Ordering: ("curandOrdering_t", "CURAND_ORDERING_"),
        },
    ),
)


def title(value):
    """How a parameter is called in a test's name."""
    return value.module.__name__.partition(".")[2] if isinstance(value, Row) else getattr(value, "__name__", value)


def each(items):
    """A test for every row and every one of its items."""
    return pytest.mark.parametrize(("row", "item"), [(row, item) for row in ROWS for item in items(row)], ids=title)


@functools.cache
def folder(name):
    return cuda.pathfinder.find_nvidia_header_directory(name)


@functools.cache
def read(module):
    row = next(row for row in ROWS if row.module is module)
    return Header(row.headers, [folder(name) for name in row.folders], [row.version, *row.constants.values()])


def header(row):
    missing = [name for name in row.folders if folder(name) is None]
    if missing:
        skip("headers")
    return read(row.module)


# ---------------------------------------------------------------- the checks


def members(row, ours):
    """Member -> (value, the first version of the headers that has it)."""
    since = getattr(row.module, "SINCE", {}).get(ours, {})
    return {name: (member.value, since.get(member, 0)) for name, member in ours.__members__.items()}


def check_enum(theirs, prefix, ours, version):
    expected = {name: value for name, (value, first) in ours.items() if first <= version}
    assert {name: theirs[prefix + name] for name in ours if prefix + name in theirs} == expected


def check_struct(theirs, ours):
    places = {name: (getattr(ours, name).offset, getattr(ours, name).size) for name, *_ in ours._fields_}
    fields = {name: place for name, place in theirs.items() if name}
    shared = set(places) & set(fields) - {"reserved"}
    assert {name: places[name] for name in shared} == {name: fields[name] for name in shared}
    assert ctypes.sizeof(ours) == theirs[""][1]
    assert max(map(sum, places.values())) == max(map(sum, fields.values()))
    # Younger headers may have a field where older ones keep room, or beside another in a union.
    for name in set(fields) - {*shared, "reserved"}:
        assert any(within(fields[name], place) for place in places.values()), name
    for name in set(places) - {*shared, "reserved"}:
        assert within(places[name], fields.get("reserved", (0, 0))), name


def within(place, room):
    return room[0] <= place[0] and sum(place) <= sum(room)


def check_function(found, letters, status):
    theirs, result, result_type = found
    parameters, arrow, declared = letters.partition(">")
    assert theirs == parameters
    assert (result == declared) if arrow else (result_type == status)


# ---------------------------------------------------------------- every declaration


def test_every_binding_has_a_row():
    """NVTX is left out: numbacc does not install its header."""
    modules = {module.name for module in pkgutil.iter_modules(numbacc_bindings.__path__)}
    assert {title(row) for row in ROWS} == {name for name in modules if not name.startswith("_")} - {"errors", "nvtx"}


@pytest.mark.parametrize("row", ROWS, ids=title)
def test_rows_are_complete(row):
    ours = {name: value for name, value in vars(row.module).items() if not name.startswith("_")}
    # Those that it imports are its own where they come from a module beside it: _cudnn_numbers is a part of cudnn.
    package, _, name = row.module.__name__.rpartition(".")
    homes = (f"{package}.{name}", f"{package}._{name}_")
    classes = [c for c in ours.values() if isinstance(c, type) and c.__module__.startswith(homes)]
    assert {c for c in classes if issubclass(c, IntEnum)} == set(row.enums)
    assert {c for c in classes if issubclass(c, ctypes.Structure)} == set(row.structs)
    assert {name for name, value in ours.items() if isinstance(value, int)} - {"OLDEST"} == set(row.constants)
    assert {letter for letters in row.module.FUNCTIONS.values() for letter in letters} <= {*_library.TYPES, ">"}


@each(lambda row: row.enums)
def test_enum(row, item):
    enum, prefix = row.enums[item]
    found = header(row)
    check_enum(found.enum(enum), prefix, members(row, item), found.constants[row.version])


@each(lambda row: row.structs)
def test_struct(row, item):
    check_struct(header(row).struct(row.structs[item]), item)


@pytest.mark.parametrize("row", ROWS, ids=title)
def test_constants(row):
    found = header(row).constants
    assert {name: getattr(row.module, name) for name in row.constants} == {
        name: found[expression] for name, expression in row.constants.items()
    }


@each(lambda row: row.module.FUNCTIONS)
def test_function(row, item):
    check_function(header(row).functions[item], row.module.FUNCTIONS[item], row.status)


# ---------------------------------------------------------------- the checks can fail


def assert_objects(check, *arguments):
    with pytest.raises(AssertionError):
        check(*arguments)


@each(lambda row: row.enums)
def test_wrong_enum_is_noticed(row, item):
    enum, prefix = row.enums[item]
    found = header(row)
    theirs, ours, version = found.enum(enum), members(row, item), found.constants[row.version]
    known = {name: value for name, (value, first) in ours.items() if first <= version}
    for name, value in known.items():
        assert_objects(check_enum, theirs, prefix, {**ours, name: (value + 1, 0)}, version)
        # The table says that the headers are too old for a member, and they have it.
        assert_objects(check_enum, theirs, prefix, {**ours, name: (value, version + 1)}, version)
    assert_objects(check_enum, theirs, prefix, {**ours, "MADE_UP": (0, 0)}, version)
    # A member that the headers lack, as they may: they are too old.
    check_enum(theirs, prefix, {**ours, "MADE_UP": (0, version + 1)}, version)
    if known:
        assert_objects(check_enum, {}, prefix, ours, version)


def changed(struct, fields):
    return type(struct.__name__, (ctypes.Structure,), {"_fields_": tuple(fields)})


@each(lambda row: row.structs)
def test_wrong_struct_is_noticed(row, item):
    theirs, fields = header(row).struct(row.structs[item]), list(item._fields_)
    check_struct(theirs, changed(item, fields))
    wider = ctypes.c_uint64 * 20
    for n, (name, *_) in enumerate(fields):
        assert_objects(check_struct, theirs, changed(item, [*fields[:n], (name, wider), *fields[n + 1 :]]))
        assert_objects(check_struct, theirs, changed(item, fields[:n] + fields[n + 1 :]))
    assert_objects(check_struct, theirs, changed(item, [*fields, ("more", wider)]))
    if len(fields) > 1:
        assert_objects(check_struct, theirs, changed(item, [("renamed", fields[0][1]), *fields[1:]]))


@each(lambda row: row.module.FUNCTIONS)
def test_wrong_function_is_noticed(row, item):
    found, letters = header(row).functions[item], row.module.FUNCTIONS[item]
    for n, letter in enumerate(letters):
        if letter != ">":
            others = set(_library.TYPES) - {letter}
            wrong = [letters[:n] + other + letters[n + 1 :] for other in [*others, "", 2 * letter]]
            for declaration in wrong:
                assert_objects(check_function, found, declaration, row.status)
    assert_objects(check_function, found, letters.partition(">")[0] + ">d", row.status)
    assert_objects(check_function, found, letters.partition(">")[0], "another_t")

"""Graphs and plans of cuDNN's, made without a GPU: for a device that is described to it."""

from __future__ import annotations

import ctypes
import json
from contextlib import contextmanager

import pytest

from numbacc_bindings.cudnn import (
    AttributeName,
    AttributeType,
    ConvolutionMode,
    CudnnError,
    DataType,
    DescriptorType,
    HeurMode,
    Status,
    create,
    cudnn,
    finalize,
    get_count,
    get_descriptors,
    set_descriptors,
    set_float,
    set_int64s,
    set_number,
    set_pointers,
    set_text,
)

#: Of the convolution's tensors, whose numbers are 1, 2 and 3.
LENGTHS = {"X": (8, 64, 16, 16), "W": (64, 64, 3, 3), "Y": (8, 64, 16, 16)}
#: As cuDNN describes an H200.
H200 = {
    "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536,
    "multiProcessorCount": 132,
    "smCountOrigin": 0,
    "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448,
    "oversizedSharedMemoryPerBlock": 232448,
    "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048,
    "pciDeviceId": 6,
    "isTccDriver": 0,
    "supportCoopLaunch": 1,
    "totalGlobalMem": 150109880320,
    "smClockRateKHz": 1980000,
    "memClockRateKHz": 3201000,
    "memoryBusWidth": 6144,
    "l2CacheSize": 62914560,
    "cudaDeviceId": 0,
    "deviceVer": 900,
    "driverVer": 13000,
    "deviceName": "NVIDIA H200",
}


class Made:
    """Descriptors that are destroyed together."""

    def __init__(self):
        self._all = []

    def __call__(self, kind):
        self.keep(create(kind))
        return self._all[-1]

    def keep(self, *descriptors):
        self._all.extend(descriptors)
        return descriptors

    def destroy(self):
        while self._all:
            cudnn.cudnnBackendDestroyDescriptor(self._all.pop())

    def device(self, **changes):
        found = self(DescriptorType.DEVICEPROP_DESCRIPTOR)
        set_text(found, AttributeName.DEVICEPROP_JSON_REPRESENTATION, json.dumps({**H200, **changes}).encode())
        finalize(found)
        return found

    def pack(self, uids, addresses, workspace):
        """A variant pack: where tensors lie, and scratch memory."""
        found = self(DescriptorType.VARIANT_PACK_DESCRIPTOR)
        set_int64s(found, AttributeName.VARIANT_PACK_UNIQUE_IDS, uids)
        set_pointers(found, AttributeName.VARIANT_PACK_DATA_POINTERS, addresses)
        set_pointers(found, AttributeName.VARIANT_PACK_WORKSPACE, [workspace])
        finalize(found)
        return found

    def tensor(self, uid, lengths, dtype=DataType.HALF):
        """Channels last in memory."""
        found = self(DescriptorType.TENSOR_DESCRIPTOR)
        n, c, h, w = lengths
        set_int64s(found, AttributeName.TENSOR_UNIQUE_ID, [uid])
        set_number(found, AttributeName.TENSOR_DATA_TYPE, AttributeType.DATA_TYPE, dtype)
        set_int64s(found, AttributeName.TENSOR_BYTE_ALIGNMENT, [16])
        set_int64s(found, AttributeName.TENSOR_DIMENSIONS, [n, c, h, w])
        set_int64s(found, AttributeName.TENSOR_STRIDES, [h * w * c, 1, w * c, c])
        finalize(found)
        return found

    def graph(self, x=DataType.HALF, y=None):
        """The graph of a convolution with padding, so that its result is as large as x."""
        y = x if y is None else y
        convolution = self(DescriptorType.CONVOLUTION_DESCRIPTOR)
        set_number(convolution, AttributeName.CONVOLUTION_COMP_TYPE, AttributeType.DATA_TYPE, DataType.FLOAT)
        mode = ConvolutionMode.CROSS_CORRELATION
        set_number(convolution, AttributeName.CONVOLUTION_CONV_MODE, AttributeType.CONVOLUTION_MODE, mode)
        set_int64s(convolution, AttributeName.CONVOLUTION_SPATIAL_DIMS, [2])
        for end in ("DILATIONS", "FILTER_STRIDES", "PRE_PADDINGS", "POST_PADDINGS"):
            set_int64s(convolution, AttributeName[f"CONVOLUTION_{end}"], [1, 1])
        finalize(convolution)
        operation = self(DescriptorType.OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        parts = {
            "CONV_DESC": convolution,
            "X": self.tensor(1, LENGTHS["X"], x),
            "W": self.tensor(2, LENGTHS["W"], x),
            "Y": self.tensor(3, LENGTHS["Y"], y),
        }
        for name, part in parts.items():
            set_descriptors(operation, AttributeName[f"OPERATION_CONVOLUTION_FORWARD_{name}"], [part])
        set_float(operation, AttributeName.OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0)
        set_float(operation, AttributeName.OPERATION_CONVOLUTION_FORWARD_BETA, 0.0)
        finalize(operation)
        graph = self(DescriptorType.OPERATIONGRAPH_DESCRIPTOR)
        set_descriptors(graph, AttributeName.OPERATIONGRAPH_OPS, [operation])
        finalize(graph)
        return graph

    def heuristics(self, graph, device, mode=HeurMode.A):
        found = self(DescriptorType.ENGINEHEUR_DESCRIPTOR)
        set_number(found, AttributeName.ENGINEHEUR_MODE, AttributeType.HEUR_MODE, mode)
        set_descriptors(found, AttributeName.ENGINEHEUR_OPERATION_GRAPH, [graph])
        set_descriptors(found, AttributeName.ENGINEHEUR_DEVICEPROP, [device])
        finalize(found)
        return found

    def configurations(self, graph, device, mode=HeurMode.A):
        found, name = self.heuristics(graph, device, mode), AttributeName.ENGINEHEUR_RESULTS
        count = get_count(found, name, AttributeType.BACKEND_DESCRIPTOR)
        return self.keep(*get_descriptors(found, name, DescriptorType.ENGINECFG_DESCRIPTOR, count))

    def engine_of(self, configuration):
        name = AttributeName.ENGINECFG_ENGINE
        (found,) = self.keep(*get_descriptors(configuration, name, DescriptorType.ENGINE_DESCRIPTOR))
        return found

    def engine(self, graph, device, index):
        found = self(DescriptorType.ENGINE_DESCRIPTOR)
        set_descriptors(found, AttributeName.ENGINE_OPERATION_GRAPH, [graph])
        set_int64s(found, AttributeName.ENGINE_GLOBAL_INDEX, [index])
        set_descriptors(found, AttributeName.ENGINE_DEVICEPROP, [device])
        finalize(found)
        return found

    def plan(self, configuration, device):
        found = self(DescriptorType.EXECUTION_PLAN_DESCRIPTOR)
        set_descriptors(found, AttributeName.EXECUTION_PLAN_ENGINE_CONFIG, [configuration])
        set_descriptors(found, AttributeName.EXECUTION_PLAN_DEVICEPROP, [device])
        finalize(found)
        return found

    def restored(self, text, device):
        found = self(DescriptorType.EXECUTION_PLAN_DESCRIPTOR)
        set_descriptors(found, AttributeName.EXECUTION_PLAN_DEVICEPROP, [device])
        set_text(found, AttributeName.EXECUTION_PLAN_JSON_REPRESENTATION, text)
        finalize(found)
        return found


@contextmanager
def failing(name, *words, function="cudnnBackendFinalize"):
    with pytest.raises(CudnnError) as caught:
        yield caught
    error = caught.value
    assert (error.function, error.status, error.status_name) == (function, Status[name], name)
    assert str(error).startswith(f"{function} failed with status {Status[name].value} ({name})")
    for word in words:
        assert word in str(error)


def unread_failure():
    """A call that fails, as others make them: nobody asks why."""
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(cudnn.address("cudnnBackendCreateDescriptor"))
    assert call(9999, ctypes.addressof(ctypes.c_void_p()))


def rejected(made, device, graph):
    with failing("NOT_SUPPORTED_ARCH_MISMATCH"):
        made.engine(graph, device, 1)

"""Run by test_cudnn.py with a stub for the driver: cuDNN's own descriptors, engines and plans, made without a GPU."""

from __future__ import annotations

import ctypes
import json

import pytest
import stubbed
from cudnn_graphs import Made, failing, unread_failure
from threads import run_threads

from numbacc_bindings.cudnn import (
    AttributeName,
    AttributeType,
    BehaviorNote,
    DataType,
    DescriptorType,
    HeurMode,
    NumericalNote,
    create,
    cudnn,
    finalize,
    get_count,
    get_descriptors,
    get_int64,
    get_int64s,
    get_numbers,
    get_text,
    reasons,
    set_bool,
    set_float,
    set_handle,
    set_int64s,
    set_number,
    set_pointers,
)

stubbed.needed()

#: Lengths, and so strides, that no tensor has.
NEGATIVE = [1, 2, -3, 4]
DESCRIPTOR, INT64 = AttributeType.BACKEND_DESCRIPTOR, AttributeType.INT64


# ---------------------------------------------------------------- attributes


def test_attributes_are_read_back(made):
    tensor = made.tensor(7, [2, 3, 4, 5], DataType.BFLOAT16)
    assert get_int64(tensor, AttributeName.TENSOR_UNIQUE_ID) == 7
    assert get_count(tensor, AttributeName.TENSOR_DIMENSIONS, INT64) == 4
    for limit in (4, 8):
        assert get_int64s(tensor, AttributeName.TENSOR_DIMENSIONS, limit) == [2, 3, 4, 5]
    assert get_int64s(tensor, AttributeName.TENSOR_STRIDES, 8) == [60, 1, 15, 3]
    assert get_numbers(tensor, AttributeName.TENSOR_DATA_TYPE, AttributeType.DATA_TYPE) == [DataType.BFLOAT16]


@pytest.mark.parametrize("value", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_int64_keeps_its_bits(made, value):
    tensor = made(DescriptorType.TENSOR_DESCRIPTOR)
    set_int64s(tensor, AttributeName.TENSOR_UNIQUE_ID, [value])
    set_number(tensor, AttributeName.TENSOR_DATA_TYPE, AttributeType.DATA_TYPE, DataType.INT8)
    for name in (AttributeName.TENSOR_DIMENSIONS, AttributeName.TENSOR_STRIDES):
        set_int64s(tensor, name, [1, 1, 1])
    finalize(tensor)
    assert get_int64(tensor, AttributeName.TENSOR_UNIQUE_ID) == value


@pytest.mark.parametrize("virtual", [True, False])
def test_bool(made, virtual):
    tensor = made(DescriptorType.TENSOR_DESCRIPTOR)
    set_int64s(tensor, AttributeName.TENSOR_UNIQUE_ID, [1])
    set_number(tensor, AttributeName.TENSOR_DATA_TYPE, AttributeType.DATA_TYPE, DataType.INT8)
    set_bool(tensor, AttributeName.TENSOR_IS_VIRTUAL, virtual)
    for name in (AttributeName.TENSOR_DIMENSIONS, AttributeName.TENSOR_STRIDES):
        set_int64s(tensor, name, [1, 1, 1])
    finalize(tensor)
    cell, count = ctypes.c_uint8(0xFF), ctypes.c_int64()
    cudnn.cudnnBackendGetAttribute(
        tensor, AttributeName.TENSOR_IS_VIRTUAL, AttributeType.BOOLEAN, 1, ctypes.byref(count), ctypes.byref(cell)
    )
    assert (cell.value, count.value) == (virtual, 1)


def test_attributes_after_the_end(made):
    tensor = made.tensor(1, [1, 1, 1, 1])
    with failing("BAD_PARAM", function="cudnnBackendSetAttribute"):
        set_int64s(tensor, AttributeName.TENSOR_UNIQUE_ID, [2])


def test_attributes_before_the_end(made):
    tensor = made(DescriptorType.TENSOR_DESCRIPTOR)
    with failing("NOT_INITIALIZED", "a descriptor was not finalized", function="cudnnBackendGetAttribute"):
        get_int64(tensor, AttributeName.TENSOR_UNIQUE_ID)


def test_attributes_of_another_descriptor(made):
    tensor = made(DescriptorType.TENSOR_DESCRIPTOR)
    for write in (
        lambda: set_pointers(tensor, AttributeName.VARIANT_PACK_DATA_POINTERS, [16]),
        lambda: set_handle(tensor, AttributeName.EXECUTION_PLAN_HANDLE, 0),
        lambda: set_int64s(tensor, 99999, [1]),
    ):
        with failing("BAD_PARAM", function="cudnnBackendSetAttribute"):
            write()
    with failing("BAD_PARAM_ATTRIBUTE_TYPE", function="cudnnBackendSetAttribute"):
        set_float(tensor, AttributeName.TENSOR_DIMENSIONS, 1.0)


# ---------------------------------------------------------------- errors


def test_a_shape_is_refused_with_a_reason(made):
    with failing("BAD_PARAM", "_strA[d] < 0"):
        made.tensor(1, NEGATIVE)


def test_a_text_that_nobody_has_read_is_not_the_next_errors(made):
    device, graph = made.device(deviceVer=750), made.graph(DataType.BFLOAT16)
    unread_failure()
    with failing("NOT_SUPPORTED_ARCH_MISMATCH") as caught:
        made.engine(graph, device, 1)
    assert str(caught.value).endswith("(NOT_SUPPORTED_ARCH_MISMATCH)")


def test_texts_are_each_threads_own():
    def work(k):
        for _ in range(50):
            made = Made()
            with failing("BAD_PARAM" if k % 2 else "BAD_PARAM_ATTRIBUTE_TYPE", function=functions[k % 2]) as caught:
                if k % 2:
                    made.tensor(1, NEGATIVE)
                else:
                    set_float(made(DescriptorType.TENSOR_DESCRIPTOR), AttributeName.TENSOR_DIMENSIONS, 1.0)
            made.destroy()
            assert ("_strA" in str(caught.value)) is bool(k % 2)

    functions = ("cudnnBackendSetAttribute", "cudnnBackendFinalize")
    run_threads(work)


def test_unknown_descriptor():
    with failing("INTERNAL_ERROR_HOST_ALLOCATION_FAILED", function="cudnnBackendCreateDescriptor") as caught:
        create(9999)
    # It is no sign that the GPU's memory is short.
    assert not caught.value.out_of_memory


# ---------------------------------------------------------------- plans


def test_a_plan_is_made_saved_and_restored(made):
    device, graph = made.device(), made.graph()
    configurations = made.configurations(graph, device)
    assert len(configurations) > 5
    for configuration in configurations[:5]:
        engine = made.engine_of(configuration)
        assert 0 <= get_int64(engine, AttributeName.ENGINE_GLOBAL_INDEX) < 1000
        notes = get_numbers(engine, AttributeName.ENGINE_NUMERICAL_NOTE, AttributeType.NUMERICAL_NOTE, 32)
        assert NumericalNote.TENSOR_CORE in notes
        notes = get_numbers(engine, AttributeName.ENGINE_BEHAVIOR_NOTE, AttributeType.BEHAVIOR_NOTE, 32)
        assert set(notes) <= set(BehaviorNote)
        plan = made.plan(configuration, device)
        workspace = get_int64(plan, AttributeName.EXECUTION_PLAN_WORKSPACE_SIZE)
        assert 0 <= workspace < 2**32
        text = get_text(plan, AttributeName.EXECUTION_PLAN_JSON_REPRESENTATION)
        assert json.loads(text)["cudnnVersion"] == cudnn.version()
        again = made.restored(text, device)
        assert get_int64(again, AttributeName.EXECUTION_PLAN_WORKSPACE_SIZE) == workspace
        assert get_text(again, AttributeName.EXECUTION_PLAN_JSON_REPRESENTATION) == text


def test_knobs_of_a_configuration(made):
    (first, *_) = made.configurations(made.graph(), made.device())
    name, kind = AttributeName.ENGINECFG_KNOB_CHOICES, DescriptorType.KNOB_CHOICE_DESCRIPTOR
    assert get_count(first, name, DESCRIPTOR) == 0  # so a number of our own must do
    choices = made.keep(*get_descriptors(first, name, kind, 64))
    assert 0 < len(choices) < 64
    for choice in choices:
        (knob,) = get_numbers(choice, AttributeName.KNOB_CHOICE_KNOB_TYPE, AttributeType.KNOB_TYPE)
        assert 0 <= knob < 1000
        get_int64(choice, AttributeName.KNOB_CHOICE_KNOB_VALUE)


def test_a_plan_of_an_engine_that_compiles(made):
    """Its kernel is in the text: what is restored is not compiled again."""
    device = made.device()
    graph = made.graph(DataType.HALF, DataType.FLOAT)
    (configuration,) = made.configurations(graph, device, HeurMode.FALLBACK)
    engine = made.engine_of(configuration)
    notes = get_numbers(engine, AttributeName.ENGINE_BEHAVIOR_NOTE, AttributeType.BEHAVIOR_NOTE, 32)
    assert BehaviorNote.RUNTIME_COMPILATION in notes
    text = get_text(made.plan(configuration, device), AttributeName.EXECUTION_PLAN_JSON_REPRESENTATION)
    assert len(text) > 20_000
    assert get_text(made.restored(text, device), AttributeName.EXECUTION_PLAN_JSON_REPRESENTATION) == text


def test_a_plan_of_another_gpu_or_version_is_refused(made):
    device = made.device()
    (first, *_) = made.configurations(made.graph(), device)
    text = get_text(made.plan(first, device), AttributeName.EXECUTION_PLAN_JSON_REPRESENTATION)
    with failing("NOT_SUPPORTED_ARCH_MISMATCH"):
        made.restored(text, made.device(deviceVer=800))
    version = b'"cudnnVersion":%d' % cudnn.version()
    assert version in text
    with failing("SUBLIBRARY_VERSION_MISMATCH"):
        made.restored(text.replace(version, b'"cudnnVersion":90800'), device)


def test_threads_make_plans():
    def work(k):
        made = Made()
        device, graph = made.device(), made.graph()
        configurations = made.configurations(graph, device, (HeurMode.A, HeurMode.B, HeurMode.FALLBACK)[k % 3])
        for configuration in configurations[:3]:
            with reasons():
                found[k].append(get_int64(made.engine_of(configuration), AttributeName.ENGINE_GLOBAL_INDEX))
                made.plan(configuration, device)
        made.destroy()

    found = [[] for _ in range(9)]
    run_threads(work, 9)
    assert all(found)
    assert all(found[k] == found[k % 3] for k in range(9))

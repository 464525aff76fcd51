"""cuDNN's bindings: what needs no descriptor is tested here, the rest in processes that have a driver, or a stub."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import stubbed
from skips import skip, skip_if

from numbacc import info
from numbacc.base.dispatch import simulated
from numbacc_bindings import cudnn as binding
from numbacc_bindings.cudnn import AttributeName, AttributeType, DescriptorType, Status, cudnn

pytestmark = skip_if(simulated(), "not simulated")


@pytest.fixture(autouse=True)
def real():
    if info.attempt(info.find, "cudnn")[1]:
        skip("library")


@skip_if(not stubbed.POSSIBLE, "compiler")
def test_with_a_stub_of_the_driver():
    """In one process, which takes seconds to start."""
    stubbed.run(*sorted(Path(__file__).parent.glob("stubbed_*.py")))


@pytest.mark.parametrize(
    ("member", "first"),
    [
        (Status.BAD_PARAM, 0),
        (DescriptorType.TENSOR_DESCRIPTOR, 0),
        (DescriptorType.DEVICEPROP_DESCRIPTOR, 90800),
        # As a number it is another attribute's, which is younger.
        (AttributeName.POINTWISE_MATH_PREC, 0),
        (AttributeName.EXECUTION_PLAN_CUDA_GRAPH_RETENTION, 92800),
    ],
)
def test_members_need_a_version(member, first, monkeypatch):
    for version in (90000, 90799, 90800, 92800):
        monkeypatch.setattr(cudnn, "_version", lambda library, version=version: version)
        assert cudnn.knows(member) is (version >= first)


@pytest.fixture
def written(monkeypatch):
    """What is written to attributes: name, type, number of elements and their bytes."""
    found = []

    def write(descriptor, name, kind, count, elements):
        assert descriptor == 0x1234
        # ctypes.byref(cell), an array or bytes.
        found.append((name, kind, count, bytes(getattr(elements, "_obj", elements))))

    monkeypatch.setattr(cudnn, "cudnnBackendSetAttribute", write)
    return found


@pytest.mark.parametrize(
    ("write", "value", "kind", "expected"),
    [
        (binding.set_int64s, [-1, 2**62], AttributeType.INT64, struct.pack("qq", -1, 2**62)),
        (binding.set_bool, True, AttributeType.BOOLEAN, b"\1"),
        (binding.set_bool, False, AttributeType.BOOLEAN, b"\0"),
        (binding.set_float, 0.1, AttributeType.FLOAT, struct.pack("f", 0.1)),
        (binding.set_double, 0.1, AttributeType.DOUBLE, struct.pack("d", 0.1)),
        (
            binding.set_descriptors,
            [16, 2**64 - 16],
            AttributeType.BACKEND_DESCRIPTOR,
            struct.pack("QQ", 16, 2**64 - 16),
        ),
        (binding.set_pointers, [0, 2**63], AttributeType.VOID_PTR, struct.pack("QQ", 0, 2**63)),
        (binding.set_handle, 48, AttributeType.HANDLE, struct.pack("Q", 48)),
        (binding.set_text, b"{}\0", AttributeType.CHAR, b"{}\0"),
    ],
)
def test_attributes_as_they_are_written(written, write, value, kind, expected):
    write(0x1234, 77, value)
    ((name, found, count, elements),) = written
    assert (name, found, elements) == (77, kind, expected)
    assert count == (len(value) if isinstance(value, (list, bytes)) else 1)


def test_numbers_as_they_are_written(written):
    binding.set_number(0x1234, 77, AttributeType.DATA_TYPE, binding.DataType.BFLOAT16)
    assert written == [(77, AttributeType.DATA_TYPE, 1, struct.pack("i", 9))]

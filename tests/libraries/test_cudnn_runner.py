"""A plan of cuDNN's as an executable, with C functions made here standing in for cuDNN and the driver."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from conftest import refused
from skips import skip

from numbacc import attention
from numbacc.base.dispatch import simulated

if simulated():
    skip("not simulated", allow_module_level=True)

from cudnn_cases import convolution
from fake_cudnn import CONTEXT, HANDLE, PLAN, SCRATCH, STREAM, Fake

from numbacc.attention.fused_calls import drawing
from numbacc.base.codes import MANY_ARRAYS, WRONG_ALIGNMENT
from numbacc.errors import ShapeError
from numbacc.libraries import choices
from numbacc.libraries import cudnn as library
from numbacc.libraries.choices import Algorithm, Choices, GpuModel
from numbacc.libraries.cudnn_descriptors import uid_of
from numbacc.libraries.cudnn_graph import Drawing, Wants
from numbacc_bindings.cudnn import AttributeName

C_NAMES = {
    "cudnnBackendCreateDescriptor": "create",
    "cudnnBackendSetAttribute": "set_attribute",
    "cudnnBackendFinalize": "finalize",
    "cudnnBackendDestroyDescriptor": "destroy",
    "cudnnSetStream": "set_stream",
    "cudnnBackendExecute": "execute",
}


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    gpu = SimpleNamespace(get_current=made.address("cuCtxGetCurrent"), context=CONTEXT)
    stand_in = SimpleNamespace(
        version=lambda: 92800,
        address=lambda name: made.address(C_NAMES[name]),
        cudnnBackendDestroyDescriptor=made.destroy,
    )
    plan = SimpleNamespace(descriptor=SimpleNamespace(value=PLAN))
    monkeypatch.setattr(library, "cudnn", stand_in)
    monkeypatch.setattr(library, "driver", SimpleNamespace(address=made.address))
    monkeypatch.setattr(library, "_handles", SimpleNamespace(get=lambda _: SimpleNamespace(device=0, value=HANDLE)))
    monkeypatch.setattr(library, "_words", library._Words())
    monkeypatch.setattr(library, "relaxed", nullcontext)
    monkeypatch.setattr(library, "with_room", lambda work, device: plan)
    monkeypatch.setattr(library, "Site", lambda handle: None)
    monkeypatch.setattr(library.runtime, "on_device", lambda device: nullcontext())
    monkeypatch.setattr(library.runtime, "gpu", lambda device: gpu)
    return made


ALGORITHM = Algorithm(b"", 0, "engine 1", (1, 1), True)


def test_numbers_are_behind_the_arrays(fake):
    """Their addresses are the host's, and what lies there is the graph's."""
    problem = attention.forward.request(
        (2, 4, 64, 32), (2, 4, 96, 32), mask=attention.CausalSlidingWindow(8, bottom_right=True), scale=0.5
    ).problem
    drawn = drawing(problem)
    runner = library.Runner(drawn.graph, ALGORITHM, 0, values=drawn.values)
    addresses = [0x7F00_0000_0000 + 0x1_0000 * k for k in range(len(drawn.graph.memory))]
    for launch in (runner.launch, runner.launch_unchecked):
        assert launch(STREAM, SCRATCH, addresses, ()) == 0
    (pack,) = [call[1] for call in fake.calls if call[0] == "execute"][:1]
    found = fake.packs[pack]
    places = (*drawn.graph.memory, *drawn.graph.numbers)
    assert found[AttributeName.VARIANT_PACK_UNIQUE_IDS] == tuple(map(uid_of, places))
    pointers = found[AttributeName.VARIANT_PACK_DATA_POINTERS]
    assert list(pointers[: len(addresses)]) == addresses
    kinds = {"float32": ctypes.c_float, "int32": ctypes.c_int32}
    values = [
        kinds[drawn.graph.tensors[place].dtype].from_address(address).value
        for place, address in zip(drawn.graph.numbers, pointers[len(addresses) :], strict=True)
    ]
    assert values == pytest.approx(drawn.values) and 0.5 in values and {96, 64} <= {int(v) for v in values if v > 1}
    # The pack is kept from call to call.
    assert [call[0] for call in fake.calls].count("create") == 1


def test_arrays_off_16_bytes_are_not_launched(fake):
    drawn = drawing(attention.forward.request((1, 1, 8, 8), (1, 1, 8, 8)).problem)
    runner = library.Runner(drawn.graph, ALGORITHM, 0, values=drawn.values)
    count = len(drawn.graph.memory)
    for number in range(count):
        addresses = [0x7F00_0000_0000 + 0x1_0000 * k + 2 * (k == number) for k in range(count)]
        assert runner.launch(STREAM, SCRATCH, addresses, ()) == WRONG_ALIGNMENT
    assert not [call for call in fake.calls if call[0] == "execute"]


def test_more_tensors_than_a_call_takes(fake):
    draw = Drawing("float32")
    places = [draw.tensor("float32", (1, 1, 1, 1)) for _ in range(MANY_ARRAYS)]
    draw.pointwise("ADD", places[0], draw.number(1.0), out=places[1])
    refused(ShapeError, "at most", run=lambda: library.Runner(draw.graph(), ALGORITHM, 0, values=draw.values))


def test_a_plan_from_disk_is_looked_at_without_numbers(fake):
    """Whether it can be restored: what it computes with comes later."""
    drawn = drawing(attention.forward.request((1, 1, 8, 8), (1, 1, 8, 8), mask="causal").problem)
    assert drawn.graph.numbers and library._usable((drawn.graph,), 0)(ALGORITHM)


def test_a_plan_from_disk_is_restored_once(fake, monkeypatch):
    """To see whether it can be, and to run."""
    made, restored = library.with_room(None, 0), []
    monkeypatch.setattr(library, "with_room", lambda work, device: restored.append(device) or made)
    draw = Drawing("float32")
    places = [draw.tensor("float32", (1, 1, 1, 1)) for _ in range(2)]
    draw.pointwise("EXP", places[0], out=places[1])
    graph, other = draw.graph(), ALGORITHM._replace(data=b"another")
    usable = library._usable((graph,), 0)
    assert usable(ALGORITHM)
    library.Runner(graph, ALGORITHM, 0)
    assert len(restored) == 1
    library.Runner(graph, ALGORITHM, 0)  # each executable has its own
    assert len(restored) == 2
    assert usable(ALGORITHM)
    library.Runner(graph, other, 0)
    assert len(restored) == 4


def test_what_is_measured_beside_plans_is_taken_where_it_was_measured_alone(fake, monkeypatch, tmp_path):
    """Arrays that start elsewhere may have the same graphs, of copies, and nothing beside them."""
    draw = Drawing("float32")
    places = [draw.tensor("float32", (1, 1, 1, 1)) for _ in range(2)]
    draw.pointwise("EXP", places[0], out=places[1])
    graphs, own = [draw.graph()], Algorithm(b"ours", 0, "ours")
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(library, "algorithms", Choices("cudnn"))
    monkeypatch.setattr(library, "gpu_model", lambda device: GpuModel("a GPU", (9, 0), 132))
    monkeypatch.setattr(library, "refuse", lambda graph, capability: None)
    monkeypatch.setattr(library, "_find", lambda *of, many: [ALGORITHM])
    monkeypatch.setattr(choices.measuring, "fastest", lambda works, first, device, stream: [*works][-1])

    def tuned(*others):
        return library.tune(graphs, [Wants()], 0, STREAM, lambda algorithm: None, others)

    for _ in range(2):
        assert tuned(own) == own and tuned() == ALGORITHM
        library.algorithms.clear()  # those on disk come next


def test_plans_tell_of_nan_that_their_engine_is_known_to_lose(fake):
    for epilogue, engine, lost in (
        (("bias", "RELU_FWD"), 11, "; its ReLU gives 0 for NaN"),
        (("bias", "RELU_FWD"), 41, ""),
        (("bias",), 11, ""),
    ):
        algorithm = Algorithm(b"", 0, f"engine {engine}", (engine, 0), True)
        runner = library.Runner(convolution("float32", epilogue=epilogue), algorithm, 0)
        assert runner.algorithm == f"engine {engine}{lost}"

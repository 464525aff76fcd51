"""Run by test_cudnn_graphs.py in a process that has what cuDNN takes for a driver: plans, and what they are made of."""

from __future__ import annotations

import gc
import time
from itertools import product

import pytest
from conv_oracle import ACTIVATIONS
from cudnn_cases import CASES, convolution
from fake_cudnn import Call, Fake
from requested import requested

from numbacc import attention, conv
from numbacc.libraries import cudnn_order, stand_in
from numbacc.libraries.choices import load, save
from numbacc.libraries.cudnn_descriptors import Site, describe
from numbacc.libraries.cudnn_devices import GPUS
from numbacc.libraries.cudnn_graph import Wants
from numbacc.libraries.cudnn_order import ahead
from numbacc.libraries.cudnn_plans import all_engines, build, candidates, keep, proposals, restore
from numbacc.libraries.cudnn_search import algorithms, kept_to, search
from numbacc.runtime import native_graphs
from numbacc_bindings import cudnn as api
from numbacc_bindings.cudnn import CudnnError, HeurMode, KnobType, NumericalNote, Status, cudnn

# Looking for plans takes long.
pytestmark = pytest.mark.each_alone

stand_in.load()
DIRECTIONS = ("forward", "backward_data", "backward_filter")
#: All but float16: what `Wants.inputs` tells apart.
FLOAT32 = [f"{direction}-float32" for direction in DIRECTIONS] + ["bias-float32", "bias+RELU_FWD-float32"]


@pytest.fixture
def living(monkeypatch):
    """The addresses of descriptors that were created and are not yet destroyed."""
    found = set()
    create, destroy = api.create, cudnn.cudnnBackendDestroyDescriptor

    def created(kind):
        made = create(kind)
        assert made and made not in found
        found.add(made)
        return made

    def destroyed(descriptor):
        found.remove(descriptor)
        destroy(descriptor)

    monkeypatch.setattr(api, "create", created)
    monkeypatch.setattr(cudnn, "cudnnBackendDestroyDescriptor", destroyed)
    return found


def site(device="H200"):
    return Site(None, GPUS[device])


def found(name, wants, device="H200", rejected=None, modes=(HeurMode.A, HeurMode.FALLBACK, HeurMode.B)):
    """The first plan, and where it was made."""
    where = site(device)
    described = describe(CASES[name], where)
    return next(candidates(described, where, wants, frozenset(), [] if rejected is None else rejected, *modes))


@pytest.mark.parametrize("device", ["T4", "A100", "H200", "B200"])
@pytest.mark.parametrize("name", FLOAT32)
def test_exact_float32_is_not_shortened(name, device):
    rejected = []
    configuration, _ = found(name, Wants(inputs="exact"), device, rejected)
    spoilt = {NumericalNote.TENSOR_CORE, NumericalNote.DOWN_CONVERT_INPUTS, NumericalNote.WINOGRAD, NumericalNote.FFT}
    assert not configuration.notes & {*spoilt, NumericalNote.REDUCED_PRECISION_REDUCTION}
    if device in ("A100", "H200") and name.startswith("forward"):
        assert any(each.reason == "rounds float32 for tensor cores" for each in rejected)


def test_every_plan_of_exact_float32_keeps_to_it():
    where = site("A100")
    described = describe(CASES["forward-float32"], where)
    plans = list(candidates(described, where, Wants(inputs="exact"), frozenset(), [], HeurMode.A, HeurMode.FALLBACK))
    assert plans and not any(NumericalNote.TENSOR_CORE in each.notes for each, _ in plans)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_engine_of_exact_float32_follows_what_is_proposed(direction):
    where, wants = site(), Wants(inputs="exact")
    described = describe(CASES[f"{direction}-float32"], where)
    few = [str(each) for each, _ in candidates(described, where, wants, frozenset(), [], HeurMode.FALLBACK)]
    every = [each for each, _ in candidates(described, where, wants, frozenset(), [], HeurMode.FALLBACK, every=True)]
    assert [str(each) for each in every][: len(few)] == few
    assert len({str(each) for each in every}) == len(every) and not any(
        each.compiled_late for each in every[len(few) :]
    )
    assert not any(NumericalNote.TENSOR_CORE in each.notes for each in every)
    assert {each.engine for each in every} >= {0, 1}


@pytest.mark.parametrize(
    "note, refused",
    [
        (NumericalNote.FFT, {"exact", "tf32", "whole"}),
        (NumericalNote.WINOGRAD, {"exact", "fft", "tf32", "whole"}),
        (NumericalNote.TENSOR_CORE, {"exact", "fft"}),
        (NumericalNote.DOWN_CONVERT_INPUTS, {"exact", "fft", "tf32", "whole"}),
        (NumericalNote.REDUCED_PRECISION_REDUCTION, {"exact", "fft", "tf32", "whole", "any"}),
    ],
)
def test_notes_that_spoil_inputs(note, refused):
    """cuDNN has the transforms' engines on GPUs alone, not on descriptions of them."""
    configuration, _ = found("forward-float32", Wants())
    configuration.notes = frozenset([note])
    kinds = ("exact", "fft", "tf32", "whole", "any")
    assert {kind for kind in kinds if configuration.unwanted(Wants(inputs=kind))} == refused


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_tf32_shortens_for_tensor_cores_alone(direction):
    where = site("A100")
    described = describe(CASES[f"{direction}-float32"], where)
    plans = [each for each, _ in candidates(described, where, Wants(inputs="tf32"), frozenset(), [], HeurMode.A)]
    assert any(NumericalNote.TENSOR_CORE in each.notes for each in plans)
    assert not any(NumericalNote.DOWN_CONVERT_INPUTS in each.notes for each in plans)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "version, kept", [(91001, True), (91002, False), (91500, False), (91501, False), (91600, True), (91900, True)]
)
@pytest.mark.sampled(2)
def test_volumes_are_not_shortened_where_a_kernel_is_wrong(monkeypatch, direction, version, kept):
    """Lines and images are, and what may not be shortened anyway finds what it found."""
    monkeypatch.setattr(cudnn, "_version", lambda library: version)
    where, tf32 = site("A100"), Wants(inputs="tf32")
    graphs = [convolution("float32", direction, pixels=(14,) * n) for n in (3, 2)]
    for graph, is_kept in zip(graphs, (kept, True), strict=True):
        notes = [each.notes for each, _ in search(graph, where, kept_to(graph, tf32), [])]
        assert notes and any(NumericalNote.TENSOR_CORE in each for each in notes) is is_kept
    exact = [str(each) for each, _ in search(graphs[0], where, Wants(inputs="exact"), [])]
    assert kept or exact == [str(each) for each, _ in search(graphs[0], where, kept_to(graphs[0], tf32), [])]


def wide(direction, dtype="float32", **more):
    """The layer of which the order of engines was measured: enough is known of it to plan without its memory."""
    given = {"pixels": (56, 56), "channels": 256, "filters": 256, "batch": 64, **more}
    return convolution(dtype, direction, **given, math="float64" if dtype == "float64" else "float32")


def engines_ahead(graph, wants, device="H200"):
    where = site(device)
    return [(each.engine, dict(each.knobs)) for each in ahead(graph, describe(graph, where), where, wants)]


@pytest.mark.parametrize("device", ["A100", "H200"])
def test_the_fastest_direct_engines_are_looked_at_first(device):
    exact = Wants(inputs="exact")
    *tiled, second, _ = engines_ahead(wide("forward"), exact, device)
    assert second == (1, {})
    # On other GPUs it is not proposed.
    assert [(engine, knobs[KnobType.TILE_SIZE]) for engine, knobs in tiled] == [(70, 4)] * (device == "H200")
    assert engines_ahead(wide("backward_data"), exact, device)[0] == (1, {})
    assert engines_ahead(wide("backward_data", "float64"), Wants(), device)[0] == (1, {})
    # Nothing comes before the heuristics' own order where that is good, or nothing is known of it.
    for graph, wants in (
        (wide("forward"), Wants(inputs="tf32")),
        (wide("forward", "float16"), Wants()),
        (wide("forward", "float64"), Wants()),
        (wide("forward", batch=1), exact),
        (wide("forward", stride=2), exact),
        (wide("forward", dilation=2, before=2, after=2), exact),
        (wide("forward", groups=4), exact),
        (wide("forward", epilogue=("bias",), pixels=(56, 56)), exact),
    ):
        assert engines_ahead(graph, wants, device) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "filters, channels, engines",
    [(64, 64, [65]), (64, 16, [49]), (3, 24, [49]), (256, 64, []), (64, 192, [])],
    ids=["many", "narrow", "few", "too many", "too wide"],
)
def test_engines_of_gradients_of_columns(dtype, filters, channels, engines):
    """They are those of windows as channels, of which the heuristics' first takes up to six times as long."""

    def found(direction="backward_filter", device="H200", **more):
        shapes = {"pixels": (115, 112), "channels": channels, "filters": filters, "batch": 4, "kernel": (4, 1)}
        return engines_ahead(convolution(dtype, direction, before=0, after=0, **(shapes | more)), Wants(), device)

    assert list(dict.fromkeys(engine for engine, _ in found())) == engines
    assert all(knobs[KnobType.TILE_SIZE] == 5 and knobs[KnobType.TILE_CGA_N] == 5 for e, knobs in found() if e == 65)
    assert all(knobs[KnobType.SPLIT_K] > 1 for engine, knobs in found() if engine == 49)
    for device in ("T4", "L4", "A100", "B200"):
        assert found(device=device) == []
    for more in ({"kernel": (4, 2)}, {"kernel": (1, 1)}, {"batch": 1, "pixels": (64, 64)}, {"last": False}):
        assert found(**more) == []
    assert found("forward") == found("backward_data") == []


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_is_looked_at_first_is_taken_if_it_may_be(direction):
    graph, where, wants = wide(direction), site(), Wants(inputs="exact")
    described = describe(graph, where)
    some = list(ahead(graph, described, where, wants))

    def first(wrong=frozenset(), wants=wants):
        return next(candidates(described, where, wants, wrong, [], HeurMode.A, HeurMode.FALLBACK, ahead=some))[0]

    assert some and str(first()) == str(some[0])
    assert first(frozenset({some[0].engine})).engine != some[0].engine
    few = first(wants=wants._replace(workspace_limit=0))
    assert build(few, where).workspace_bytes == 0
    assert not any(each.engine == 0 for each in some)  # 50 times as slow


def test_transforms_are_looked_at_first_where_they_pay(monkeypatch):
    """cuDNN has their engines on GPUs alone: two others stand for them."""

    def engines(described, where):
        found = {each.engine: each for each in all_engines(described, where)}
        for number in (1, 28):
            found[number].notes = frozenset([NumericalNote.FFT])
        return iter(found.values())

    monkeypatch.setattr(cudnn_order, "all_engines", engines)
    found = [engine for engine, _ in engines_ahead(wide("forward"), Wants(inputs="fft"))]
    assert found[:2] == [28, 1] and found[2] == 70
    assert engines_ahead(wide("forward"), Wants(inputs="exact"))[0][0] == 70
    for more in ({"kernel": 1, "before": 0, "after": 0}, {"pixels": (14, 14)}, {"channels": 32}):
        assert [engine for engine, _ in engines_ahead(wide("forward", **more), Wants(inputs="fft"))][:1] != [28]


def precompiled(some):
    return [each for each in some if not each.compiled_late]


@pytest.mark.parametrize("more", [{"dtype": "float16"}, {"dtype": "bfloat16"}, {"compute": "tf32"}, {}], ids=str)
@pytest.mark.parametrize("device", ["T4", "A100", "H200", "B200"])
@pytest.mark.sampled(2)
def test_no_activation_has_the_generic_engine_alone(device, more):
    """What is asked for first has a better precompiled one, or none, so that another is compiled."""
    if device == "T4" and more.get("dtype") == "bfloat16":
        return
    where, shown = site(device), set()
    for layout, *shapes in (
        ("NHWC", (64, 56, 56, 256), (256, 3, 3, 256)),
        ("NCHW", (64, 256, 56, 56), (256, 256, 3, 3)),
        ("NHWC", (64, 56, 56, 64), (256, 1, 1, 64)),
    ):
        for biased, activation in product((False, True), ACTIVATIONS):
            options = {"padding": shapes[1][2] // 2, "bias": biased, "activation": activation, **more}
            asked = conv.forward.request(*shapes, layout=layout, **options)
            first = asked.graphs()[0]
            wrong, wants = frozenset(algorithms.wrong(first, cudnn.version())), kept_to(first, asked.wants)
            modes = (HeurMode.A, HeurMode.FALLBACK, HeurMode.B)
            # None of those that are compiled are to be: that takes seconds.
            plans = candidates(describe(first, where), where, wants, wrong, [], *modes, order=precompiled)
            engines = [each.engine for each, _ in plans]
            assert engines[:1] != [0], (layout, biased, activation, engines)
            shown |= {"precompiled" if engines else "compiled"}
    assert shown == {"precompiled", "compiled"}


def test_what_is_wrong_is_not_taken():
    where = site()
    described = describe(CASES["forward-float64"], where)
    first, _ = next(candidates(described, where, Wants(), frozenset(), [], HeurMode.FALLBACK))
    rejected = []
    second, _ = next(candidates(described, where, Wants(), frozenset([first.engine]), rejected, HeurMode.FALLBACK))
    assert second.engine != first.engine
    assert (first.engine, "known to be wrong here") in rejected


@pytest.mark.parametrize("name", ["forward-float16", "backward_filter-float64", "bias+RELU_FWD-float32"])
def test_plans_are_kept_and_restored(name, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    configuration, built = found(name, Wants())
    algorithm = keep(configuration, built)
    assert algorithm.data and algorithm.text == str(configuration)
    assert algorithm.kind == (configuration.engine, int(configuration.compiled_late))
    assert restore(algorithm.data, site()).workspace_bytes == built.workspace_bytes
    save("ab" * 32, algorithm)
    kept = load("ab" * 32)
    assert kept == algorithm
    assert restore(kept.data, site()).workspace_bytes == built.workspace_bytes


def test_plans_are_of_one_model_of_gpu():
    algorithm = keep(*found("forward-float16", Wants()))
    here = GPUS["H200"]
    restore(algorithm.data, Site(None, here._replace(name="another", l2=1, memory=1, clock=1, memory_clock=1)))
    for other in ({"capability": (8, 0)}, {"multiprocessors": 114}, {"bus": 5120}):
        with pytest.raises(CudnnError):
            restore(algorithm.data, Site(None, here._replace(**other)))
    with pytest.raises(CudnnError):
        restore(algorithm.data[: len(algorithm.data) // 2], site())


def test_descriptors_are_destroyed_with_their_owners(living):
    where = site()
    described = describe(CASES["add+bias+RELU_FWD-float16"], where)
    plans = candidates(described, where, Wants(), frozenset(), [], HeurMode.A)
    configuration, built = next(plans)
    plans.close()
    algorithm = keep(configuration, built)
    few = len(living)
    restored = restore(algorithm.data, where)
    # The plan and no more: it holds the properties of the GPU that are there already.
    assert len(living) == few + 1
    del where, described, plans, configuration
    assert len(living) > 2  # a plan holds what it was made of
    del built
    gc.collect()
    assert len(living) == 2
    assert restored.descriptor.value in living
    del restored
    assert not living


def test_descriptors_are_destroyed_where_something_fails(living):
    with pytest.raises(CudnnError):
        describe(convolution(alignment=1), site())
    with pytest.raises(CudnnError):
        restore(b"{}", site())
    where = site("T4")
    assert proposals(describe(CASES["forward-bfloat16"], where), where, HeurMode.A) == []
    del where
    gc.collect()
    assert not living


def test_every_engine_has_a_number_of_its_own(living):
    where = site()
    described = describe(CASES["forward-float64"], where)
    engines = [each.engine for each in all_engines(described, where)]
    assert len(engines) == len({*engines}) and {0, 1} <= {*engines}
    some = next(each for each in all_engines(described, where) if each.engine == 1)
    assert build(some, where).workspace_bytes >= 0
    del where, described, some
    gc.collect()
    assert not living


# ---------------------------------------------------------------- variant packs


@pytest.fixture
def call():
    """A compiled call that makes cuDNN's own packs."""
    names = {"create": "CreateDescriptor", "set_attribute": "SetAttribute", "finalize": "Finalize"}
    names |= {"destroy": "DestroyDescriptor"}
    fake = Fake()
    made = Call(fake, functions={name: cudnn.address(f"cudnnBackend{end}") for name, end in names.items()})
    made.executed = []
    fake.execute = lambda handle, plan, pack: made.executed.append(pack) or 0
    yield made
    if made.pack:
        cudnn.cudnnBackendDestroyDescriptor(made.pack)


def test_compiled_calls_make_variant_packs(call):
    assert call(4096, 8192, 0) == call(4096, 8192, 0) == call(4096, 8192, 1024) == 0
    first, second, third = call.executed
    assert first == second and third == call.pack
    # Finalized: nothing can be changed any more.
    with pytest.raises(CudnnError, match="BAD_PARAM"):
        api.finalize(call.pack)


def test_compiled_calls_hand_on_what_cudnn_refuses(call):
    assert call(4096, 8192, 0) == 0
    kept, call.words[native_graphs.COUNT] = call.pack, -1
    assert call(4096, 8192, 0, scratch=0) == Status.BAD_PARAM
    assert call.pack == kept and call.executed == [kept]


@pytest.mark.parametrize("device", ["A100", "H200", "B200"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.sampled(2)
def test_plans_of_attention_are_restored(direction, device):
    """With the kernel that was compiled for them, in a fraction of the time."""
    asked = requested(attention, (2, 8, 120, 64), (2, 2, 200, 64), mask="causal", dropout=0.1, direction=direction)
    (graph,), where = asked.graphs(), site(device)
    described = describe(graph, where)
    configuration, built = next(candidates(described, where, asked.wants, frozenset(), [], HeurMode.A))
    kept = keep(configuration, built)
    assert configuration.compiled_late and kept.workspace_bytes == built.workspace_bytes
    seconds = []
    for _ in range(3):
        start = time.process_time()  # the machine may be busy
        assert restore(kept.data, where).workspace_bytes == built.workspace_bytes
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.5

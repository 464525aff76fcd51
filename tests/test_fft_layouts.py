"""What cuFFT is asked to do, for any layout: run by an emulator of its manual on host memory, it gives NumPy's result.

Arrays here are memory of the host with the layouts of a GPU's; `numbacc.fft.program` and `numbacc.libraries.cufft` do
not know the difference.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from cufft_emulator import CONTEXT, FakeCufft
from hypothesis import event, given
from hypothesis import strategies as st
from skips import skip

from numbacc.base.backend import simulated

if simulated():
    skip("not simulated", allow_module_level=True)

from numbacc.base.codes import WRONG_CONTEXT
from numbacc.base.layout import layout
from numbacc.fft import arguments, plans
from numbacc.fft.program import Arrange, Execute, build
from numbacc.libraries import advanced_layout, cufft

pytestmark = pytest.mark.usefixtures("emulated")

FAKE = FakeCufft()
REAL = [np.dtype(c) for c in "fdeib?"]
COMPLEX = [np.dtype(c) for c in "FD"]
SENTINEL = 0xC3


class FakeArrange:
    """A rearrangement, in NumPy, on the memory behind the addresses."""

    def __init__(self, step, count):
        self.step, self.count = step, count

    def launch(self, stream, addresses):
        source, target = (
            view_at(address, area.layout)
            for address, area in zip(addresses, (self.step.source, self.step.target), strict=True)
        )
        wide = np.complex128 if target.dtype.itemsize > 4 else np.complex64
        found = np.zeros(target.shape, wide)
        found[tuple(slice(n) for n in source.shape)] = source
        factor = {"": 1, "reciprocal": 1 / self.count, "reciprocal root": self.count**-0.5}[self.step.scale]
        found = (found.conj() if self.step.conjugate else found) * factor
        target[...] = found if target.dtype.kind == "c" else found.real


@pytest.fixture(scope="module")
def emulated():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cufft, "cufft", FAKE)
        patch.setattr(cufft.runtime, "gpu", FAKE.gpu)
        patch.setattr(cufft.runtime, "on_device", lambda device: nullcontext())
        patch.setattr(cufft, "driver", FAKE)
        patch.setattr(cufft, "relaxed", nullcontext)
        patch.setattr("numbacc.libraries.handles.relaxed", nullcontext)
        patch.setattr("numbacc.libraries.handles.on_device", lambda device: nullcontext())
        patch.setattr(plans, "backend", lambda: SimpleNamespace(on_device=lambda device: nullcontext()))
        patch.setattr(plans.arrange, "executable", FakeArrange)
        yield


def view_at(address, made):
    """The array that a layout describes, in the memory known to the emulator."""
    for memory in FAKE.memory:
        before = address - memory.ctypes.data
        if 0 <= before < max(memory.nbytes, 1):
            return np.ndarray(made.shape, made.dtype, memory, before, made.strides)
    raise AssertionError(f"{address:#x} is in no array")


class Block:
    """Memory of the host for an array: strides and the first element's place are drawn, the rest is the sentinel."""

    def __init__(self, shape, dtype, order, steps, gaps, misaligned=0):
        strides, reach = [0] * len(shape), dtype.itemsize
        for d in order:
            strides[d] = reach * abs(steps[d]) or 0
            reach = strides[d] * max(shape[d], 1) + gaps[d] * dtype.itemsize if strides[d] else reach
        signs = [-1 if step < 0 else 1 for step in steps]
        span = sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if n)
        start = sum((n - 1) * step for n, step, sign in zip(shape, strides, signs, strict=True) if n and sign < 0)
        raw = np.empty(span + 64 + 3 * dtype.itemsize, np.uint8)
        skip = -raw.ctypes.data % 32
        self.memory = raw[skip:]
        self.memory[...] = SENTINEL
        self.start = start + misaligned * dtype.itemsize
        self.layout = layout(tuple(shape), tuple(s * n for s, n in zip(strides, signs, strict=True)), dtype, 0)
        self.address = self.memory.ctypes.data + self.start
        self.raw = raw

    @property
    def view(self):
        return np.ndarray(self.layout.shape, self.layout.dtype, self.memory, self.start, self.layout.strides)


def run(function, a, n, axes, norm, overwrite, out):
    """Run a transform's program on two blocks; the program."""
    found, lengths = arguments.axes_and_lengths(function, a.layout, n, axes)
    asked = arguments.request(function, a.layout, found, lengths, norm, overwrite, out.layout)
    aligned = not (a.address | out.address) % np.dtype(asked.math).itemsize
    program = build(asked, aligned)
    FAKE.memory[:] = [a.memory, out.memory]
    ready = plans._Ready(program, int(np.prod(lengths)), 0)
    scratch = np.full(ready.nbytes + 256, SENTINEL, np.uint8)
    FAKE.memory.append(scratch[-scratch.ctypes.data % 256 :])
    ready.queue(a.address, out.address, 5, FAKE.memory[-1].ctypes.data)
    return program


def result_of(function, shape, dtype, n, axes):
    """Shape and dtype of a result."""
    a = layout(shape, tuple(np.empty(shape, dtype).strides), dtype, 0)
    found, lengths = arguments.axes_and_lengths(function, a, n, axes)
    made = arguments.request(function, a, found, lengths, None, False, None).result
    return made.shape, made.dtype


def values(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    x = 4 * rng.standard_normal(shape)
    return (x + 4j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


def check(function, a, n, axes, norm, overwrite, out, seed=0):
    """The program's effect is NumPy's result in `out`, and nothing else, unless the input may be lost."""
    a.view[...] = values(a.layout.shape, a.layout.dtype, seed)
    before, given_values = a.memory.copy(), a.view.copy()
    program = run(function, a, n, axes, norm, overwrite, out)
    name = function if function.rstrip("2n") == function else function.rstrip("2n") + "n"
    found = axes if isinstance(axes, int) else tuple(axes)
    wide = given_values.astype(np.complex128 if given_values.dtype.kind == "c" else np.float64)
    want = getattr(np.fft, name)(wide, n, found, norm)
    scale = max(np.abs(want).max(initial=0), 1e-3 * np.abs(wide).max(initial=0), 1e-30)
    eps = {2: 2e-3, 4: 2e-6, 8: 2e-6, 16: 1e-14}[out.layout.itemsize]
    if out.layout.dtype == np.float64:
        eps = 1e-14
    np.testing.assert_allclose(out.view, want, rtol=0, atol=eps * 4 * scale)
    mask = np.zeros(out.memory.nbytes, bool)
    np.ndarray((*out.layout.shape, out.layout.itemsize), bool, mask, out.start, (*out.layout.strides, 1))[...] = True
    assert (out.memory[~mask] == SENTINEL).all(), "something beside the result was written"
    if not overwrite:
        np.testing.assert_array_equal(a.memory, before)
    return program


@st.composite
def blocks(draw, shape, dtype, writable):
    rank = len(shape)

    def lists(*choices):
        return draw(st.lists(st.sampled_from(choices), min_size=rank, max_size=rank))

    # Mostly what cuFFT can walk with little trouble: all the rest ends up in the same rearrangement.
    steps = draw(st.sampled_from([(1,), (1, 1, 1, 2), (1, 1, -1), (2, 3), (1, 1, 0) if not writable else (1,)]))
    return Block(
        shape,
        dtype,
        draw(st.permutations(range(rank))) if draw(st.integers(0, 2)) == 0 else tuple(reversed(range(rank))),
        lists(*steps),
        lists(*draw(st.sampled_from([(0,), (0, 1, 2), (0, 0, 3)]))),
        draw(st.sampled_from([0, 0, 0, 1])),
    )


@st.composite
def cases(draw):
    rank = draw(st.integers(1, 5))
    longest = {1: 90, 2: 20, 3: 9, 4: 4, 5: 3}[rank]
    shape = tuple(draw(st.lists(st.integers(1, longest), min_size=rank, max_size=rank)))
    function = draw(st.sampled_from([*arguments.MEANINGS, "fftn", "ifftn", "rfftn", "irfftn"]))
    one = arguments.base(function) == function
    kind = arguments.MEANINGS[arguments.base(function)].kind
    matching = REAL[:2] if kind == "r2c" else COMPLEX
    dtype = draw(st.sampled_from(matching if draw(st.integers(0, 3)) else REAL))
    lengths = st.integers(1, longest + 3)
    if one:
        axes, n = draw(st.integers(0, rank - 1)), draw(st.none() | lengths)
        last, count = axes, 1
    else:
        axes = draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
        n = draw(st.none() | st.lists(lengths, min_size=len(axes), max_size=len(axes)).map(tuple))
        last, count = axes[-1], len(axes)
        axes = tuple(axes)
    if kind == "c2r" and n is None and shape[last] == 1:
        n = 3 if one else (3,) * count
    a = draw(blocks(shape, dtype, False))
    out = draw(blocks(*result_of(function, shape, dtype, n, axes), True))
    norm = draw(st.sampled_from([None, "backward", "ortho", "forward"]))
    return function, a, n, axes, norm, draw(st.booleans()), out, draw(st.integers(0, 99))


@given(cases())
def test_any_layout(case):
    program = check(*case)
    for step in program.steps:
        event(type(step).__name__)


@given(cases())
def test_normalization_costs_at_most_one_pass(case):
    """A program with scaling has at most one rearrangement more than one without, none if there is any."""
    function, a, n, axes, _, overwrite, out, _ = case
    counts = {}
    for norm in ("backward", "ortho", "forward"):
        found, lengths = arguments.axes_and_lengths(function, a.layout, n, axes)
        asked = arguments.request(function, a.layout, found, lengths, norm, overwrite, out.layout)
        steps = build(asked, True).steps
        scaled = [step.scale for step in steps if isinstance(step, Arrange) and step.scale]
        assert len(scaled) == (asked.scale != "")
        counts[bool(scaled)] = sum(isinstance(step, Arrange) for step in steps)
    if len(counts) == 2:
        assert counts[True] == max(counts[False], 1)


# ---------------------------------------------------------------- no step too many

F, C, D = np.dtype(np.float32), np.dtype(np.complex64), np.dtype(np.complex128)


def kinds(function, shape, strides, axes, dtype=C, n=None, **options):
    """The steps of a transform of an array of these strides (in elements), into a fresh result."""
    a = layout(shape, tuple(dtype.itemsize * s for s in strides), dtype, 0)
    found, lengths = arguments.axes_and_lengths(function, a, n, axes)
    options = {"norm": None, "overwrite": False, "out": None, **options}
    steps = build(arguments.request(function, a, found, lengths, **options), True).steps
    return [
        "arrange" if isinstance(s, Arrange) else (s.walk.layout.type.name, s.walk.layout.rank, len(s.walk.starts))
        for s in steps
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("fft", (64,), (1,), -1), [("C2C", 1, 1)]),
        (("fft", (4096, 4096), (4096, 1), -1), [("C2C", 1, 1)]),
        (("fft", (4096, 4096), (1, 4096), -1), [("C2C", 1, 1)]),
        (("fft", (4096, 4096), (4096, 1), 0), [("C2C", 1, 1)]),
        (("fft", (100, 64), (200, 2), -1), [("C2C", 1, 1)]),
        (("fft", (7, 5, 64), (5 * 64, 64, 1), -1), [("C2C", 1, 1)]),
        (("fft", (70000, 8), (8, 1), -1), [("C2C", 1, 1)]),
        (("fft", (4, 64, 1000), (64000, 1000, 1), 1), [("C2C", 1, 4)]),
        (("fft", (512, 512, 512), (2**18, 512, 1), 1), ["arrange", ("C2C", 1, 1), "arrange"]),
        (("fft", (64, 1024, 1024), (2**20, 1024, 1), 1), [("C2C", 1, 64)]),
        (("fft", (100, 8, 100), (800, 100, 1), 1), ["arrange", ("C2C", 1, 1), "arrange"]),
        (("fft", (1000, 256), (32, 1), -1), [("C2C", 1, 1)]),  # overlapping frames
        (("fftn", (512, 512, 512), (2**18, 512, 1), None), [("C2C", 3, 1)]),
        (("fftn", (8, 9, 10), (90, 10, 1), (0, 2)), [("C2C", 2, 1)]),
        (("fftn", (8, 9, 10), (90, 10, 1), (2, 0)), [("C2C", 2, 1)]),
        (("fftn", (8, 9, 10), (90, 10, 1), (0, 1)), [("C2C", 2, 1)]),
        (("fftn", (4, 5, 6, 7), (210, 42, 7, 1), None), [("C2C", 3, 1), ("C2C", 1, 1)]),
        (("rfftn", (8192, 8192), (8192, 1), None, F), [("R2C", 2, 1)]),
        (("rfft", (9, 101), (101, 1), -1, F), [("R2C", 1, 1)]),
        (("irfft", (9, 51), (51, 1), -1), ["arrange", ("C2R", 1, 1)]),
        (("irfftn", (50, 9, 51), (459, 51, 1), (1, 2)), ["arrange", ("C2R", 2, 1)]),
        (("hfft", (9, 51), (51, 1), -1), ["arrange", ("C2R", 1, 1)]),
        (("ihfft", (9, 51), (51, 1), -1, F), [("R2C", 1, 1), "arrange"]),
        (("fft", (9, 64), (64, 1), -1, C, 50), [("C2C", 1, 1)]),
        (("fft", (9, 64), (64, 1), -1, C, 70), ["arrange", ("C2C", 1, 1)]),
        (("fft", (9, 64), (64, 1), -1, F), ["arrange", ("C2C", 1, 1)]),
        (("rfft", (9, 64), (64, 1), -1, F, 70), ["arrange", ("R2C", 1, 1)]),
        (("fft", (9, 64), (-64, 1), -1), [("C2C", 1, 9)]),
        (("fft", (90, 64), (-64, 1), -1), ["arrange", ("C2C", 1, 1)]),
        (("fft", (9, 64), (64, -1), -1), ["arrange", ("C2C", 1, 1)]),
        (("fft", (9, 1), (1, 1), -1), ["arrange"]),
    ],
)  # fmt: skip
def test_steps(arguments, expected):
    assert kinds(*arguments) == expected


def test_input_that_may_be_lost_is_not_copied():
    assert kinds("irfft", (9, 51), (51, 1), -1, overwrite=True, norm="forward") == [("C2R", 1, 1)]
    assert kinds("irfft", (9, 51), (51, 1), -1, overwrite=True) == [("C2R", 1, 1), "arrange"]
    assert kinds("irfftn", (9, 9, 51), (459, 51, 1), None, overwrite=True, norm="forward") == [("C2R", 3, 1)]
    assert kinds("irfft", (9, 51), (3, 1), -1, overwrite=True, norm="forward")[0] == "arrange"  # its rows overlap


def test_sizes_beyond_32_bits():
    found = layout((3, 2**31 + 5), (8 * (2**31 + 5), 8), C, 0)
    walk = advanced_layout.walk(cufft.Type.C2C, found, found, [1])
    assert walk.layout.lengths == (2**31 + 5,) and walk.layout.in_dist == 2**31 + 5 and walk.layout.batch == 3


# ---------------------------------------------------------------- plans of cuFFT


def block(shape, dtype):
    rank = len(shape)
    return Block(shape, dtype, range(rank - 1, -1, -1), (1,) * rank, (0,) * rank)


def ready_for(function, a, out):
    found, lengths = arguments.axes_and_lengths(function, a.layout, None, -1)
    asked = arguments.request(function, a.layout, found, lengths, None, False, out.layout)
    return plans._Ready(build(asked, True), lengths[0], 0)


def test_streams_and_work_areas_are_set_when_they_change():
    a, out = block((4, 8), C), block((4, 8), C)
    FAKE.memory[:] = [a.memory, out.memory]
    a.view[...] = 1
    FAKE.work_bytes = 1000
    try:
        ready = ready_for("fft", a, out)
        assert (ready.nbytes, ready.work_bytes, ready.direct) == (1000, 1000, None)
        FAKE.calls.clear()
        for stream, area in ((0, 256), (0, 256), (7, 256), (7, 512), (7, 512)):
            ready.queue(a.address, out.address, stream, area)
        assert [call[0] for call in FAKE.calls] == ["area", "C2C", "C2C", "stream", "C2C", "area", "C2C", "C2C"]
    finally:
        FAKE.work_bytes = 0
    assert ready_for("fft", a, out).direct is not None


def test_a_plan_in_another_context_is_looked_at():
    a, out = block((8,), C), block((8,), C)
    FAKE.memory[:] = [a.memory, out.memory]
    a.view[...] = 1
    direct = ready_for("fft", a, out).direct
    FAKE.context = 0
    try:
        status = direct.execute(0, a.address, out.address, direct.direction)
        assert status == WRONG_CONTEXT and (out.memory == SENTINEL).all()
    finally:
        FAKE.context = CONTEXT
    direct.check(direct.execute_unchecked(0, a.address, out.address, direct.direction))
    np.testing.assert_allclose(out.view, [8] + [0] * 7)


def test_plans_are_destroyed_with_their_thread():
    a, out = block((8,), C), block((8,), C)
    asked = arguments.request("fft", a.layout, (0,), (8,), None, False, out.layout)
    kept, before, seen = [plans.FftPlan(asked)], len(FAKE.made), []

    def use():
        kept[0]._ready(True)
        seen.append(len(FAKE.made))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [before + 1] and len(FAKE.made) == before
    kept[0]._ready(True)
    assert len(FAKE.made) == before + 1
    kept.clear()
    assert len(FAKE.made) == before


def test_equal_steps_share_a_plan():
    a, out = block((4, 6, 8, 3), C), block((4, 6, 8, 3), C)
    found, lengths = arguments.axes_and_lengths("fftn", a.layout, None, None)
    steps = build(arguments.request("fftn", a.layout, found, lengths, None, False, out.layout), True).steps
    assert all(isinstance(step, Execute) for step in steps)
    before = len(FAKE.made)
    ready = plans._Ready(
        build(arguments.request("fftn", a.layout, found, lengths, None, False, out.layout), True), 1, 0
    )
    assert len(FAKE.made) - before == len({step.walk.layout for step in steps}) == 2
    del ready

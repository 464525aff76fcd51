"""What cuFFT is asked to do, for any layout: run by an emulator of its manual on host memory, it gives NumPy's result.

Arrays here are memory of the host with the layouts of a GPU's; `numbacc.fft.program` and `numbacc.libraries.cufft` do
not know the difference.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np
import pytest
from cufft_emulator import CONTEXT, FakeCufft
from hypothesis import event, given
from hypothesis import strategies as st
from skips import skip

from numbacc.base.dispatch import simulated

if simulated():
    skip("not simulated", allow_module_level=True)

from numbacc.base.codes import WRONG_CONTEXT
from numbacc.base.layout import layout
from numbacc.fft import arguments, plans
from numbacc.fft.program import build
from numbacc.fft.steps import Execute, Repack
from numbacc.libraries import cufft
from numbacc.libraries.advanced_layout import CALL_BYTES

pytestmark = pytest.mark.usefixtures("emulated")

FAKE = FakeCufft()
REAL = [np.dtype(c) for c in "fdeib?"]
COMPLEX = [np.dtype(c) for c in "FD"]
SENTINEL = 0xC3


class FakeRepack:
    """A repacking pass, in NumPy, on the memory behind the addresses."""

    workspace_bytes, direct = 0, False

    def __init__(self, step, count):
        self.step, self.count = step, count

    def launch_unchecked(self, stream, scratch, addresses, scalars):
        if self.step.mirrored is not None:
            self.make_hermitian(view_at(addresses[1], self.step.target.layout))
            return 0
        source, target = (
            view_at(address, area.layout)
            for address, area in zip(addresses, (self.step.source, self.step.target), strict=True)
        )
        wide = np.complex128 if target.dtype.itemsize > 4 else np.complex64
        found = np.zeros(target.shape, wide)
        found[tuple(slice(n) for n in source.shape)] = source
        factor = {"": 1, "reciprocal": 1 / self.count, "reciprocal root": self.count**-0.5}[self.step.scale]
        found = (found.conj() if self.step.conjugate else found) * factor
        if self.step.ends:
            at_ends = self.ends(found)
            at_ends[...] = at_ends.real
        target[...] = found if target.dtype.kind == "c" else found.real
        return 0

    def ends(self, spectrum):
        axis, points = self.step.ends
        return np.moveaxis(spectrum, axis, 0)[:: points // 2 if points % 2 == 0 else points]

    def make_hermitian(self, spectrum):
        at_ends = self.ends(spectrum)
        axes = [d + 1 if d < self.step.ends[0] else d for d in self.step.mirrored]
        opposite = np.roll(np.flip(at_ends, axes), 1, axes)
        at_ends[...] = (at_ends + opposite.conj()) / 2


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
        patch.setattr(plans.repacking, "executable", FakeRepack)
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
    ready = plans.executable(asked, aligned, [(0, 1, 0, 0)])
    scratch = np.full(ready.workspace_bytes + 256, SENTINEL, np.uint8)
    FAKE.memory.append(scratch[-scratch.ctypes.data % 256 :])
    ready.check(ready.launch_unchecked(5, FAKE.memory[-1].ctypes.data, (a.address, out.address), ()))
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

    # Mostly what cuFFT can walk with little trouble: all the rest ends up in the same repacking pass.
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
    """A program with scaling takes as long as one without that repacks anything, else at most one pass more."""
    function, a, n, axes, _, overwrite, out, _ = case
    programs = {}
    for norm in ("backward", "ortho", "forward"):
        found, lengths = arguments.axes_and_lengths(function, a.layout, n, axes)
        asked = arguments.request(function, a.layout, found, lengths, norm, overwrite, out.layout)
        program = build(asked, True)
        moves = [step for step in program.steps if isinstance(step, Repack) and step.mirrored is None]
        assert sum(step.scale != "" for step in moves) == (asked.scale != "")
        programs[asked.scale != ""] = program.cost, len(moves)
    if len(programs) == 2:
        (plain, moves), (scaled, _) = programs[False], programs[True]
        assert plain <= scaled <= plain + (0 if moves else CALL_BYTES + 2 * out.layout.nbytes)


C = np.dtype(np.complex64)


# ---------------------------------------------------------------- plans of cuFFT


def block(shape, dtype):
    rank = len(shape)
    return Block(shape, dtype, range(rank - 1, -1, -1), (1,) * rank, (0,) * rank)


def ready_for(function, a, out):
    found, lengths = arguments.axes_and_lengths(function, a.layout, None, -1)
    return plans.FftPlan(arguments.request(function, a.layout, found, lengths, None, False, out.layout)).choose((0, 0))


def test_streams_and_work_areas_are_set_when_they_change():
    a, out = block((4, 8), C), block((4, 8), C)
    FAKE.memory[:] = [a.memory, out.memory]
    a.view[...] = 1
    FAKE.work_bytes = 1000
    try:
        ready = ready_for("fft", a, out)
        assert (ready.workspace_bytes, ready.library_bytes, ready.direct) == (1000, 1000, False)
        FAKE.calls.clear()
        for stream, area in ((0, 256), (0, 256), (7, 256), (7, 512), (7, 512)):
            ready.check(ready.launch_unchecked(stream, area, (a.address, out.address), ()))
        assert [call[0] for call in FAKE.calls] == ["area", "C2C", "C2C", "stream", "C2C", "area", "C2C", "C2C"]
    finally:
        FAKE.work_bytes = 0
    assert ready_for("fft", a, out).direct


def test_a_plan_in_another_context_is_looked_at():
    a, out = block((8,), C), block((8,), C)
    FAKE.memory[:] = [a.memory, out.memory]
    a.view[...] = 1
    direct = ready_for("fft", a, out)
    FAKE.context = 0
    try:
        status = direct.launch(0, 0, (a.address, out.address), ())
        assert status == WRONG_CONTEXT and (out.memory == SENTINEL).all()
    finally:
        FAKE.context = CONTEXT
    direct.check(direct.launch_unchecked(0, 0, (a.address, out.address), ()))
    np.testing.assert_allclose(out.view, [8] + [0] * 7)


def test_plans_are_destroyed_with_their_thread():
    a, out = block((8,), C), block((8,), C)
    asked = arguments.request("fft", a.layout, (0,), (8,), None, False, out.layout)
    kept, before, seen = [plans.FftPlan(asked)], len(FAKE.made), []

    def use():
        kept[0].choose((0, 0))
        seen.append(len(FAKE.made))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [before + 1] and len(FAKE.made) == before
    kept[0].choose((0, 0))
    assert len(FAKE.made) == before + 1
    kept.clear()
    assert len(FAKE.made) == before


def test_equal_steps_share_a_plan():
    a, out = block((4, 6, 8, 3), C), block((4, 6, 8, 3), C)
    found, lengths = arguments.axes_and_lengths("fftn", a.layout, None, None)
    steps = build(arguments.request("fftn", a.layout, found, lengths, None, False, out.layout), True).steps
    assert all(isinstance(step, Execute) for step in steps)
    before = len(FAKE.made)
    ready = plans.FftPlan(arguments.request("fftn", a.layout, found, lengths, None, False, out.layout))
    ready.choose((0, 0))
    assert len(FAKE.made) - before == len({step.walk.layout for step in steps}) == 2
    del ready

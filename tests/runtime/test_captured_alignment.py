"""Inside a capture nothing is compiled: a kernel that is there is launched on arrays aligned in any other way."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits

import numbacc
from numbacc.arrays.operands import layout_of
from numbacc.base.dispatch import launcher_class, runtime
from numbacc.fft import repacking
from numbacc.fft.steps import ARGUMENT, RESULT, Area, Repack
from numbacc.gemm.epilogue_plans import map_plan, pack_plan, select_plan, sum_plan
from numbacc.libraries.curand import SequenceKind
from numbacc.random import plans

RNG = np.random.default_rng(11)


@pytest.fixture
def captured(monkeypatch):
    """Inside a capture, on a GPU that has loaded no kernel."""

    def begin():
        monkeypatch.setattr(launcher_class(), "is_loaded", staticmethod(lambda kernel, device: False))
        monkeypatch.setattr(runtime(), "is_capturing", lambda stream: True)

    return begin


def forms(place, values, moved, **layout):
    """The same numbers twice, laid out alike but `moved` elements farther from a multiple of 16 bytes."""
    spare = 16 // values.dtype.itemsize
    axis = layout.get("order", range(values.ndim))[-1]
    margins = [[(n, spare - n) if d == axis else (0, 0) for d in range(values.ndim)] for n in (0, moved)]
    return [place.operand(values, **layout, margins=each) for each in margins]


def numbers(shape, dtype):
    return RNG.integers(-9, 9, shape).astype(dtype)


def masks(place, dtype, moved):
    values, wanted = forms(place, numbers((3, 64), dtype), moved), RNG.integers(0, 256, (3, 8), "u1")
    mask, found = (place.operand(array) for array in (wanted, np.zeros_like(wanted)))
    outs = forms(place, np.zeros((3, 64), dtype), moved)
    one = [layout_of(o.view) for o in (values[0], mask)]
    packing = [([value], [found]) for value in values]
    selecting = [([value, mask], [out]) for value, out in zip(values, outs, strict=True)]
    return {"pack_bits": (pack_plan(*one), packing), "select_bits": (select_plan(*one, one[0]), selecting)}


def sums(place, dtype, moved):
    # So many that some are loaded eight rows at a time.
    x, out = forms(place, numbers((300, 64), dtype), moved), forms(place, np.zeros(64, dtype), moved)
    plan = sum_plan(layout_of(x[0].view), -2, layout_of(out[0].view))
    return {"reduce_rows": (plan, [([a], [b]) for a, b in zip(x, out, strict=True)])}


def launched(executable, inputs, outs):
    """Launch it as the first step of others is, and return the results."""
    addresses = [operand.view._address for operand in (*inputs, *outs)]
    status = executable.launch(0, 0, addresses, ())
    # Pairs of arrays that lie close may have to be looked at.
    assert status == 0 or (status < 0 and executable.launch_unchecked(0, 0, addresses, ()) == 0)
    for out in outs:
        out.assert_written_only()
    return [out.now() for out in outs]


def check(executable, calls, captured):
    """The second call, as a step inside a capture, gives what the first one does, by the same kernel."""
    first, second = calls
    wanted = launched(executable, *first)
    kernel = executable.last.launcher.order.kernel
    assert kernel.needs_alignment
    captured()
    chosen = executable.choose_captured([operand.view._address for call in second for operand in call])
    assert chosen.launcher.order.kernel == kernel
    for one, other in zip(launched(executable, *second), wanted, strict=True):
        np.testing.assert_array_equal(bits(one), bits(other))


@pytest.mark.parametrize("moved", [1, 3])
@pytest.mark.parametrize("dtype", ["f2", "f4"])
@pytest.mark.parametrize("what", ["pack_bits", "select_bits", "reduce_rows"])
def test_masks_and_sums(device_place, captured, what, dtype, moved):
    executable, calls = {**masks(device_place, dtype, moved), **sums(device_place, dtype, moved)}[what]
    check(executable, calls, captured)


@pytest.mark.parametrize("moved", [1, 2, 3])
def test_formulas_as_steps(device_place, captured, moved):
    """In layouts of plans that have run: the kernel behind a product is one of them."""
    v, out = (forms(device_place, numbers((3, 64), "f4"), moved) for _ in range(2))
    plan = map_plan("epilogue.relu", (layout_of(v[0].view),), (layout_of(out[0].view),))
    (wanted,) = launched(plan, [v[0]], [out[0]])
    kernel = plan.last.launcher.order.kernel
    captured()
    assert plan.choose_captured([v[1].view._address, out[1].view._address]).launcher.order.kernel == kernel
    np.testing.assert_array_equal(launched(plan, [v[1]], [out[1]])[0], wanted)


#: The arrays' shape, how the source lies, its dtype, the target's, and the halved axis with its length.
REPACKED = [
    ((64,), {}, "c8", "c8", ()),
    ((3, 40), {}, "f4", "f4", ()),
    ((3, 40), {}, "f2", "f4", ()),
    ((3, 40), {}, "f4", "c8", ()),
    ((3, 40), {"order": (1, 0)}, "c8", "c8", ()),
    ((40, 70), {"order": (1, 0)}, "c8", "c8", ()),
    ((3, 40), {}, "c8", "c8", (1, 78)),
    ((1100,), {}, "c8", "c8", ()),
]


@pytest.mark.parametrize(
    "case, moved", [(case, n) for case in REPACKED for n in ([1, 0.5] if case[2:4] == ("c8", "c8") else [1])], ids=str
)
def test_repacking(device_place, captured, monkeypatch, case, moved):
    """Complex numbers may start on a part of theirs. Of the longest a thread takes several pieces."""
    monkeypatch.setattr(repacking, "_BUSY", 500)
    shape, how, source, target, ends = case
    values = numbers(shape, source)
    x = forms(device_place, values, 1, **how)
    out = forms(device_place, np.zeros(shape, target), 1)
    if moved < 1:
        x[1], out[1] = (Halfway(device_place, operand) for operand in (x[1], out[1]))
    areas = (layout_of(operand.view) for operand in (x[0], out[0]))
    step = Repack(*map(Area, (ARGUMENT, RESULT), areas), "reciprocal", False, ends, None)
    check(repacking.executable(step, 8), [([a], [b]) for a, b in zip(x, out, strict=True)], captured)


@pytest.mark.parametrize("moved", [1, 0.5])
def test_ends_of_a_half_spectrum(device_place, captured, moved):
    """In place."""
    x = forms(device_place, numbers((3, 40), "c8"), 1)
    if moved < 1:
        x[1] = Halfway(device_place, x[1])
    area = Area(RESULT, layout_of(x[0].view))
    step = Repack(area, area, "", False, (1, 78), (0,))
    check(repacking.executable(step, 1), [([a], [a]) for a in x], captured)


class Halfway:
    """An operand of complex numbers moved by half of one."""

    def __init__(self, place, operand):
        self._strides = [step // 4 for step in operand.view.strides]
        self._shape, self._place = operand.values.shape, place
        extent = 2 + sum((n - 1) * step for n, step in zip(self._shape, self._strides, strict=True))
        self._host = np.full(extent + 3, 7, np.float32)
        self._seen()[...] = operand.values
        self._base = place.put(self._host)
        self.view = type("View", (), {"_address": self._base._address + 4})

    def _seen(self):
        strides = [4 * step for step in self._strides]
        return np.ndarray(self._shape, np.complex64, self._host, 4, strides)

    def now(self):
        self._host = self._place.get(self._base)
        return self._seen()

    def assert_written_only(self):
        self._host = self._place.get(self._base)
        self._seen()[...] = 7 + 7j
        assert (self._host == 7).all()


@pytest.mark.parametrize("first", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("moved", [0, 1, 2, 3])
@pytest.mark.parametrize("method, arguments", [("random", ()), ("normal", (0.0, 1.0))])
def test_draws(device_place, captured, method, arguments, moved, first):
    """A generator draws from any word of its sequence on."""
    # Blocks that lie wholly inside take 1024 numbers at once.
    count = 2100 if device_place.is_slow else 3000
    plan = plans.planned(method, arguments, count, "float32", SequenceKind("philox", "default", 1, 0))
    wanted, found = (device_place.empty((count,), np.dtype("f4"), margins=[(n, 4 - n)]) for n in (0, moved))
    scalars = 5, first + -first % plan.round, 0, None
    assert plan._make(0, None).launch_unchecked(0, 0, (wanted.view._address,), scalars) == 0
    position = numbacc.asarray(np.array([5, 0, first], np.uint64))
    executable = plan.drawing_from_gpu
    executable.ready((wanted.view._address, position._address))
    (kernel,) = (made.order.kernel for made in executable._launchers.values())
    assert kernel.needs_alignment
    captured()
    assert executable.launch_unchecked(0, 0, (found.view._address, position._address), ()) == 0
    assert [made.order.kernel for made in executable._launchers.values()] == [kernel], "no other has been made"
    np.testing.assert_array_equal(found.now(), wanted.now())
    found.assert_written_only()

"""Arrays anywhere in memory, of numbacc or of another library, with the sentinel around them."""

from __future__ import annotations

import importlib.util

import numpy as np
from conftest import Operand, Place, bits, sentinel
from foreign import OnlyDlpack

from numbacc import elementwise
from numbacc.base import dtypes
from numbacc.base.dispatch import runtime
from numbacc.base.layout import layout

from .memory import Memory


class FuzzPlace(Place):
    """A `Place` whose operands are `FuzzOperand`s."""

    def operand(self, values, **options):
        return FuzzOperand(self, values, **options)

    def empty(self, shape, dtype, **options):
        return FuzzOperand(self, np.broadcast_to(sentinel(np.dtype(dtype)), shape), **options)

    def settle(self):
        """Wait for all that was queued: for what other libraries read, which numbacc cannot know of."""
        if self.name == "gpu":
            from numbacc_bindings.driver import driver

            with runtime().on_device(0):
                driver.cuCtxSynchronize()


class FuzzOperand(Operand):
    """An operand of any rank; more keywords than `Operand` takes:

    Args:
        odd: axis of length 1 -> its stride in elements, which means nothing.
        foreign: a key of `FOREIGN`: whose array the view is.
        memory: makes the base from a place and its values, in memory that others may share; None: a separate array.

    Attributes:
        library: whose array the view is, or None.
    """

    def __init__(self, place, values, odd=None, foreign=None, memory=None, **where):
        scalar, self._memory = values.ndim == 0, memory
        super().__init__(place, values[None] if scalar else values, **where)
        if scalar:
            self.shape, self.view, self.values = (), self.view.reshape(()), self.values.reshape(())
            self.within = lambda base: base.reshape(())
        if odd:
            self.view = restrided(self.view, odd)
        self.library = foreign if foreign and FOREIGN[foreign].takes(self.view) else None
        self.ours = self.view
        if self.library:
            self.view = FOREIGN[foreign].wrap(self.view)

    def _put(self, array):
        return super()._put(array) if self._memory is None else self._memory(self.place, array)

    def assert_untouched_around(self):
        """Nothing but the view was written."""
        now, around = self.place.get(self.base), np.ones(self._initial.shape, bool)
        self.within(around)[...] = False
        np.testing.assert_array_equal(bits(now)[around], bits(self._initial)[around])


def restrided(view, odd):
    """The view with other strides (in elements) along axes of length 1."""
    strides = tuple(odd.get(d, 0) * view.dtype.itemsize if d in odd else s for d, s in enumerate(view.strides))
    if isinstance(view, np.ndarray):
        # Not every dtype has a type string, which as_strided needs.
        plain = view if view.dtype.type.__module__ == "numpy" else bits(view)
        moved = np.lib.stride_tricks.as_strided(plain, view.shape, strides, writeable=view.flags.writeable)
        return moved.view(view.dtype)
    from numbacc.arrays.device_array import DeviceArray

    return DeviceArray(layout(view.shape, strides, view.dtype, view.device), view._address, view._storage)


# ---------------------------------------------------------------- layouts

#: How elements lie: as NumPy has them, with the axes in another order, in rows or columns with gaps between, or with
#: steps and gaps along any axis.
STYLES = ("packed", "packed", "permuted", "permuted", "rows", "scattered", "scattered", "scattered")


def anywhere(case, shape, writable, foreign=0.1, style=None):
    """Keywords of `FuzzOperand` for an array that may lie anywhere, its elements in the style that is given, if any."""
    rank, options, draws = len(shape), {}, case.where
    style = style or draws.pick(STYLES)
    if rank and style != "packed":
        options["order"] = [int(d) for d in draws.rng.permutation(rank)]
    if rank and style == "rows":
        margins = [(0, 0)] * rank
        margins[options["order"][-1]] = (draws.integer(0, 8), draws.integer(0, 8))
        options["margins"] = margins
    elif rank and style == "scattered":
        reach = 3 if rank < 4 else 1
        steps = [1, 1, 1, 1, -1, 2, -2, 3] + ([] if writable else [0])
        options["steps"] = [draws.pick(steps) for _ in range(rank)]
        options["margins"] = [(draws.integer(0, reach), draws.integer(0, reach)) for _ in range(rank)]
    elif rank and not writable and draws.chance(0.1):
        options["steps"] = [0 if draws.chance(0.5) else 1 for _ in range(rank)]
    if draws.chance(0.6):
        options["memory"] = in_a_buffer(case)
    ones = [d for d, n in enumerate(shape) if n == 1]
    if ones and draws.chance(0.3):
        options["odd"] = {d: draws.pick([0, 1, -1, 3, -7, 1000003]) for d in ones}
    if draws.chance(foreign):
        options["foreign"] = draws.pick(foreign_kinds(case.place))
    return options


def in_a_buffer(case, skip=None):
    """Return the `memory` of an operand in a buffer of the case: 0 to 15 elements after its start, or after other
    arrays there; with `skip`, that many elements after other arrays.
    """
    draws = case.where
    is_shared = skip is not None or draws.chance(0.5)
    skip = draws.integer(0, 15) if skip is None else skip
    return lambda place, array: case.buffers.take(place, array, skip, is_shared)


def lay(case, values, writable=False, foreign=0.1):
    """An operand of values that lies anywhere."""
    return case.place.operand(values, **anywhere(case, values.shape, writable, foreign))


def neighbours(case, shapes, dtype):
    """Operands for several results of a dtype: anywhere, neighbours in a flat buffer, or parts of one array."""
    shapes, draws = [tuple(shape) for shape in shapes], case.where
    kind = draws.pick(["anywhere", "flat", "flat", "cut"])
    if kind == "cut" and shapes[0] and len(set(shapes)) == 1:
        return cut(case, shapes[0], len(shapes), dtype)
    if kind != "flat":
        return [case.place.empty(shape, dtype, **anywhere(case, shape, True)) for shape in shapes]
    skips = [draws.integer(0, 15), *(draws.pick([0, 0, 1, 8]) for _ in shapes[1:])]
    style, made = draws.pick(["packed", "packed", "permuted"]), []
    for shape, skip in zip(shapes, skips, strict=True):
        where = anywhere(case, shape, True, style=style)
        where["memory"] = lambda place, array, skip=skip: case.buffers.take(place, array, skip, True)
        made.append(case.place.empty(shape, dtype, **where))
    return made


def cut(case, shape, count, dtype):
    """Operands that lie side by side along an axis of one array, as the queries, keys and values of a projection do."""
    axis = case.where.integer(0, len(shape) - 1)
    whole = [count * n + 1 if d == axis else n for d, n in enumerate(shape)]
    memory = case.buffers.add(Memory(case.place, whole, dtype))
    length, made = shape[axis], []
    for k in range(count):
        index = (*[slice(None)] * axis, slice(k * length, (k + 1) * length))
        made.append(case.place.empty(shape, dtype, memory=lambda _, array, index=index: memory.part(index, array)))
    return made


# ---------------------------------------------------------------- calls of elementwise functions


def target_of(case, shape, dtype):
    """An operand for a result, or None where it is to be a fresh one; and the option that says so."""
    if case.where.chance(0.6):
        return None, {}
    out = case.place.empty(shape, np.dtype(dtype), **anywhere(case, shape, True))
    return out, {"out": out.view}


def result_of(case, answer, out):
    """A result in NumPy; where an array was given for it, nothing beside that was written."""
    case.place.settle()
    if out is None:
        found = case.place.get(answer)
    else:
        assert answer is out.view
        out.assert_untouched_around()
        found = np.array(out.now())
    assert_written(found)
    return found


def assert_written(found):
    """Every element of a result was written: floats are never the sentinel, other than narrow ones, whose NaN it is."""
    row = dtypes.info(found.dtype)
    if (row.is_float or row.parts == 2) and found.dtype.itemsize > 1:
        left = bits(found) == bits(np.asarray(sentinel(found.dtype)))
        left = left.all(-1) if found.dtype.itemsize == 16 else left
        assert not left.any(), f"{left.sum()} of {found.size} elements were not written"


def called(case, name, *arguments, **options):
    """A call of `elementwise`'s, by the function or by its plan."""
    plan = getattr(getattr(elementwise, name), "plan", None)
    if plan is None or case.chance(0.8):
        return case.call(f"elementwise.{name}", getattr(elementwise, name), *arguments, **options, **case.stream())
    given = {option: options[option] for option in ("out", "stats") if option in options}
    made = case.call(f"elementwise.{name}.plan", plan, *arguments, **options)
    return made(*(a for a in arguments if not isinstance(a, (int, str))), **given, **case.stream())


# ---------------------------------------------------------------- arrays of other libraries


class Subclass(np.ndarray):
    """A NumPy array that is more than that."""


class OnlyInterface:
    """What has nothing but the CUDA array interface."""

    def __init__(self, owner):
        self._owner = owner
        self.__cuda_array_interface__ = owner.__cuda_array_interface__


class Foreign:
    """A way to make another library's array of ours, and which arrays it can be made of."""

    def __init__(self, wrap, narrow=False, negative=True):
        self.wrap, self._narrow, self._negative = wrap, narrow, negative

    def takes(self, view):
        named = view.dtype.type.__module__ == "numpy"
        return (named or self._narrow) and (self._negative or all(s >= 0 for s in view.strides))


def _torch(view):
    import torch

    return torch.from_dlpack(view)


def _cupy(view):
    import cupy

    return cupy.from_dlpack(view)


def _numba(view):
    from numba import cuda

    return cuda.devicearray.DeviceNDArray(view.shape, view.strides, view.dtype, gpu_data=view.gpu_data)


FOREIGN = {
    "a subclass": Foreign(lambda view: view.view(Subclass), narrow=True),
    "host DLPack": Foreign(OnlyDlpack),
    "DLPack": Foreign(OnlyDlpack, narrow=True),
    "interface": Foreign(OnlyInterface),
    "numba": Foreign(_numba),
    "torch": Foreign(_torch, narrow=True, negative=False),
    "cupy": Foreign(_cupy),
}


def installed(module):
    return importlib.util.find_spec(module) is not None


def foreign_kinds(place):
    """The keys of `FOREIGN` that there are."""
    if place.name == "numpy":
        return ["a subclass", "host DLPack"]
    if place.name == "simulator":
        return [None]
    return ["DLPack", "interface", "numba", *(name for name in ("torch", "cupy") if installed(name))]

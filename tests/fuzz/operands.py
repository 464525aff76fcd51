"""Arrays anywhere in memory, of numbacc or of another library, with the sentinel around them."""

from __future__ import annotations

import importlib.util

import numpy as np
from conftest import Operand, Place, bits, sentinel
from foreign import OnlyDlpack

from numbacc import elementwise
from numbacc.base.dispatch import runtime
from numbacc.base.layout import layout


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

    Attributes:
        library: whose array the view is, or None.
    """

    def __init__(self, place, values, odd=None, foreign=None, **where):
        scalar = values.ndim == 0
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


def anywhere(case, shape, writable, foreign=0.1):
    """Keywords of `FuzzOperand` for an array that may lie anywhere."""
    rank = len(shape)
    options = {}
    if rank and case.chance(0.75):
        reach = 3 if rank < 4 else 1
        steps = [1, 1, 1, 1, -1, 2, -2, 3] + ([] if writable else [0])
        options = {
            "order": [int(d) for d in case.rng.permutation(rank)],
            "steps": [case.pick(steps) for _ in range(rank)],
            "margins": [(case.integer(0, reach), case.integer(0, reach)) for _ in range(rank)],
        }
    ones = [d for d, n in enumerate(shape) if n == 1]
    if ones and case.chance(0.3):
        options["odd"] = {d: case.pick([0, 1, -1, 3, -7, 1000003]) for d in ones}
    if case.chance(foreign):
        options["foreign"] = case.pick(foreign_kinds(case.place))
    return options


def lay(case, values, writable=False, foreign=0.1):
    """An operand of values that lies anywhere."""
    return case.place.operand(values, **anywhere(case, values.shape, writable, foreign))


# ---------------------------------------------------------------- calls of elementwise functions


def target_of(case, shape, dtype):
    """An operand for a result, or None where it is to be a fresh one; and the option that says so."""
    if case.chance(0.6):
        return None, {}
    out = case.place.empty(shape, np.dtype(dtype), **anywhere(case, shape, True))
    return out, {"out": out.view}


def result_of(case, answer, out):
    """A result in NumPy; where an array was given for it, nothing beside that was written."""
    case.place.settle()
    if out is None:
        return case.place.get(answer)
    assert answer is out.view
    out.assert_untouched_around()
    return np.array(out.now())


def called(case, name, *arguments, **options):
    """A call of `elementwise`'s, by the function or by its plan."""
    plan = getattr(elementwise, f"{name}_plan", None)
    if plan is None or case.chance(0.8):
        return case.call(f"elementwise.{name}", getattr(elementwise, name), *arguments, **options, **case.stream())
    given = {option: options[option] for option in ("out", "stats") if option in options}
    made = case.call(f"elementwise.{name}_plan", plan, *arguments, **options)
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

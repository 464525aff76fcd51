"""Arrays: made, viewed, assigned, copied, moved between host and GPU and between libraries, as NumPy does it.

Each case is one array and its mirror in NumPy. What is done to one is done to the other, and all bits must be equal.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
from conftest import bits

import numbacc
from numbacc.base import dtypes

from .operands import FuzzPlace, OnlyDlpack, anywhere, installed

NAMES = tuple(dtypes.TABLE)


def values(case, shape, dtype):
    dtype = np.dtype(dtypes.dtype(dtype))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return case.rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    x = 3 * case.rng.standard_normal(shape)
    if dtype.kind == "c":
        x = x + 1j * case.rng.standard_normal(shape)
    return np.asarray(x > 0 if dtype.kind == "b" else x).astype(dtype)


def laid_like(array, host):
    """A copy of a NumPy array that lies in memory as an array does, whose elements fill a stretch of it."""
    memory = np.empty(host.nbytes, np.uint8)
    made = np.ndarray(host.shape, host.dtype, memory, 0, array.strides) if host.size else np.empty_like(host)
    made[...] = host
    return made


class Pair:
    """An array and its mirror."""

    def __init__(self, case, array, mirror):
        self.case, self.array, self.mirror = case, array, mirror

    def check(self):
        found = numbacc.asnumpy(self.array)
        assert found.dtype == self.mirror.dtype and self.array.dtype == self.mirror.dtype
        assert found.shape == self.mirror.shape == tuple(self.array.shape), (found.shape, self.mirror.shape)
        np.testing.assert_array_equal(bits(found), bits(self.mirror))

    def do(self, name, ours, theirs):
        """The same to both: both refuse, or neither."""
        self.case.note(name)
        try:
            mirror = theirs(self.mirror)
        except (ValueError, IndexError, TypeError) as error:
            try:
                result = ours(self.array)
            except (numbacc.Error, ValueError, IndexError, TypeError) as refusal:
                self.case.refused(refusal)
                return None
            raise AssertionError(f"NumPy refuses ({error!r}), numbacc gives {result!r}") from None
        result = ours(self.array)
        if isinstance(mirror, np.generic) or (mirror.ndim == 0 and not isinstance(result, type(self.array))):
            # An element by itself is a copy.
            np.testing.assert_array_equal(bits(np.asarray(result, mirror.dtype)), bits(np.asarray(mirror)))
            return None
        return Pair(self.case, result, mirror)


def run(case):
    rank = case.pick([0, 1, 2, 2, 3, 3, 4, 8])
    base = made(case, case.shape(rank), case.pick(NAMES))
    base.check()
    pairs = [base]
    for _ in range(case.integer(2, 8)):
        pair = case.pick(pairs)
        if pair.array is base.array and case.chance(0.2):
            pair = base
        action = case.pick([view] * 5 + [assign] * 3 + [duplicate, to_host, travel, look])
        more = action(case, pair)
        if more is not None:
            more.check()
            pairs.append(more)
        if len(pairs) > 2 and case.chance(0.2):
            case.note("del an array")
            del pairs[case.integer(1, len(pairs) - 1)]
    for pair in pairs:
        pair.check()


# ---------------------------------------------------------------- made


def made(case, shape, name):
    dtype = dtypes.dtype(name)
    kind = case.pick(["asarray", "array", "full", "zeros", "empty", "empty_like"])
    options = case.stream()
    if kind == "array":
        host = on_host(case, values(case, shape, name))
        array = case.call("numbacc.array", numbacc.array, host.view, **options)
        assert not isinstance(array, np.ndarray) or not np.may_share_memory(array, host.view)
        host.assert_untouched()
        return Pair(case, array, laid_like(array, host.view))
    if kind == "asarray":
        host = on_host(case, values(case, shape, name))
        array = case.call("numbacc.asarray", numbacc.asarray, host.view, **options)
        if array is host.view:  # which is not to be changed
            array = array.copy()
        host.assert_untouched()
        return Pair(case, array, laid_like(array, host.view))
    if kind == "full":
        value = values(case, (), name)[()]
        value = case.pick([value, value.item() if name in ("float64", "int64", "complex128", "bool") else value, 1, 0])
        return Pair(case, case.call("numbacc.full", numbacc.full, shape, value, name, **options),
                    np.full(shape, value, dtype))  # fmt: skip
    if kind == "zeros":
        given = shape[0] if len(shape) == 1 and case.chance(0.5) else list(shape) if case.chance(0.3) else shape
        return Pair(case, case.call("numbacc.zeros", numbacc.zeros, given, dtype, **options), np.zeros(shape, dtype))
    array = case.call("numbacc.empty", numbacc.empty, shape, name, **options)
    if kind == "empty_like":
        array = case.call("numbacc.empty_like", numbacc.empty_like, array, **options)
    host = values(case, shape, name)
    case.note("array[...] = host")
    array[...] = host
    return Pair(case, array, host)


def on_host(case, array):
    """An operand in NumPy, wherever the case runs."""
    options = anywhere(case, array.shape, False, 0)
    return FuzzPlace("numpy").operand(array, **options)


# ---------------------------------------------------------------- views


def index(case, shape):
    """A basic index."""
    parts = []
    for n in shape:
        kind = case.pick(["slice", "slice", "slice", "all", "one", "new"])
        if kind == "new":
            parts.append(None)
        if kind == "one" and n and case.chance(0.6):
            at = case.integer(-n, n - 1)
            parts.append(np.int64(at) if case.chance(0.2) else at)
        elif kind in ("slice", "new"):
            bound = [None, *range(-n - 1, n + 2)]
            parts.append(slice(case.pick(bound), case.pick(bound), case.pick([None, 1, 2, -1, -2, 3])))
        else:
            parts.append(slice(None))
    while parts and case.chance(0.2):
        parts.pop()
    if case.chance(0.3):
        whole = sum(p is not None for p in parts) == len(shape)
        parts.insert(case.integer(0, len(parts)) if whole else len(parts), Ellipsis)
    return tuple(parts)


def view(case, pair):
    mirror, rank = pair.mirror, pair.mirror.ndim
    kind = case.pick(["index", "index", "index", "T", "transpose", "reshape", "ravel", "squeeze", "broadcast", "view"])
    if kind == "index":
        chosen = index(case, mirror.shape)
        if not rank:
            return None  # NumPy's [()] gives an element
        return pair.do(f"view = array[{chosen}]", lambda x: x[chosen], lambda x: x[chosen])
    if kind == "T":
        return pair.do("view = array.T", lambda x: x.T, lambda x: x.T)
    if kind == "transpose":
        axes = tuple(int(d) - rank * case.chance(0.3) for d in case.rng.permutation(rank))
        return pair.do(f"view = array.transpose({axes})", lambda x: x.transpose(axes), lambda x: x.transpose(axes))
    if kind in ("reshape", "ravel"):
        shape = (-1,) if kind == "ravel" else case.pick(
            [(-1,), (1, *mirror.shape), (*mirror.shape, 1), mirror.shape[::-1], (2, -1), (-1, 3)]
        )  # fmt: skip
        return pair.do(
            f"view = array.reshape({shape})",
            lambda x: x.reshape(shape) if not isinstance(x, np.ndarray) else x.reshape(shape, copy=False),
            lambda x: x.reshape(shape, copy=False),
        )
    if kind == "squeeze":
        return pair.do("view = array.squeeze()", lambda x: x.squeeze(), lambda x: x.squeeze())
    if kind == "broadcast":
        shape = (
            *([case.integer(1, 3)] if rank < 8 else []),
            *(case.integer(1, 3) if n == 1 else n for n in mirror.shape),
        )
        return pair.do(
            f"view = broadcast to {shape}", lambda x: broadcast(x, shape), lambda x: np.broadcast_to(x, shape)
        )
    same = [n for n in NAMES if dtypes.dtype(n).itemsize == mirror.itemsize and n != "bool"]
    name = case.pick(same)
    return pair.do(f"view = array.view({name!r})", lambda x: x.view(dtypes.dtype(name)),
                   lambda x: x.view(dtypes.dtype(name)))  # fmt: skip


def broadcast(x, shape):
    return np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x.broadcast_to(shape)


# ---------------------------------------------------------------- assignments


def assign(case, pair):
    """Into a part: a scalar, a host array that is broadcast, an array from the same place."""
    mirror = pair.mirror
    if not mirror.flags.writeable or repeats(mirror):
        return None
    chosen = index(case, mirror.shape)
    target = mirror[(*chosen, *([] if Ellipsis in chosen else [Ellipsis]))]
    name = dtypes.info(mirror.dtype).name
    kind = case.pick(["scalar", "host", "ours"])
    if kind == "scalar":
        value = other = values(case, (), name)[()]
    else:
        shape = tuple(1 if case.chance(0.2) else n for n in target.shape)[case.pick([0, 0, 0, 1]) :]
        other = on_host(case, values(case, shape, name)).view
        value = other if kind == "host" else numbacc.asarray(other)
    case.note(f"array[{chosen}] = {kind} of shape {np.shape(other)}")
    mirror[chosen] = other
    pair.array[chosen] = value
    return pair


def repeats(mirror):
    """Whether elements share memory."""
    steps = sorted((abs(s), n) for n, s in zip(mirror.shape, mirror.strides, strict=True) if n > 1)
    reach = 0
    for step, n in steps:
        if step < reach + mirror.itemsize:
            return True
        reach += step * (n - 1)
    return False


# ---------------------------------------------------------------- copies


def duplicate(case, pair):
    """A shallow copy is a view, a deep or pickled one has memory of its own."""
    kind = case.pick(["copy", "deepcopy", "pickle"])
    case.note(f"{kind} of the array")
    if isinstance(pair.array, np.ndarray):  # whose copy is a copy
        kind = "deepcopy"
    if kind == "copy":
        return Pair(case, copy.copy(pair.array), pair.mirror)
    array = copy.deepcopy(pair.array) if kind == "deepcopy" else pickle.loads(pickle.dumps(pair.array))
    return Pair(case, array, laid_like(array, pair.mirror))


def to_host(case, pair):
    """asnumpy in all its forms."""
    array, mirror = pair.array, pair.mirror
    out = np.empty(mirror.shape, mirror.dtype)
    assert case.call("numbacc.asnumpy", numbacc.asnumpy, array, out=out, **case.stream()) is out
    np.testing.assert_array_equal(bits(out), bits(mirror))
    if not isinstance(array, np.ndarray):
        found = case.call("copy_to_host", array.copy_to_host)
        np.testing.assert_array_equal(bits(found), bits(mirror))
        odd = on_host(case, np.zeros(mirror.shape, mirror.dtype)).base if case.chance(0.3) else np.empty_like(mirror)
        if odd.shape == mirror.shape and odd.dtype == mirror.dtype:
            assert array.copy_to_host(odd) is odd
            np.testing.assert_array_equal(bits(odd), bits(mirror))


def travel(case, pair):
    """To another library and back: the same memory."""
    if isinstance(pair.array, np.ndarray):
        if pair.mirror.dtype.type.__module__ != "numpy" or not pair.mirror.flags.writeable:
            return None
        back = case.call("numbacc.from_dlpack", numbacc.from_dlpack, OnlyDlpack(pair.array))
        assert np.shares_memory(back, pair.array) or not pair.array.size
        return Pair(case, back, pair.mirror)
    if case.place.name != "gpu":
        return None
    library = case.pick([name for name in ("torch", "cupy") if installed(name)] or [None])
    if library is None or (any(s < 0 for s in pair.array.strides) and library == "torch"):
        return None
    if library == "cupy" and pair.mirror.dtype.type.__module__ != "numpy":
        return None
    module = __import__(library)
    theirs = case.call(f"{library}.from_dlpack", module.from_dlpack, pair.array)
    back = case.call("numbacc.from_dlpack", numbacc.from_dlpack, theirs)
    assert back._address == pair.array._address or not pair.mirror.size, "it was copied"
    return Pair(case, back, pair.mirror)


def look(case, pair):
    """What an array tells of itself."""
    array, mirror = pair.array, pair.mirror
    assert (array.size, array.nbytes, array.ndim) == (mirror.size, mirror.nbytes, mirror.ndim)
    assert repr(array) and str(array)
    if mirror.ndim:
        assert len(array) == len(mirror)
        if mirror.shape[0] and mirror.ndim < 4:
            rows = list(array)
            assert len(rows) == len(mirror)
            # Of one dimension these are numbers.
            last = numbacc.asnumpy(rows[-1]) if mirror.ndim > 1 else np.asarray(rows[-1])
            np.testing.assert_array_equal(bits(last), bits(np.asarray(mirror[-1])))
    if mirror.size == 1:
        assert array.item() == mirror.item() or mirror.item() != mirror.item()
    if mirror.size and mirror.ndim and not isinstance(array, np.ndarray):
        at = tuple(case.integer(-n, n - 1) for n in mirror.shape)
        np.testing.assert_array_equal(bits(np.asarray(array[at])), bits(np.asarray(mirror[at])))
        assert array.is_c_contiguous() == mirror.flags.c_contiguous
        assert array.is_f_contiguous() == mirror.flags.f_contiguous

"""Wrong calls: a valid one with an argument or two spoilt.

It must raise one of numbacc's errors whose message names the argument (or TypeError where Python itself refuses the
call), and change no array; and the same call must raise the same error on NumPy arrays and on a device's.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import numbacc

from .calls import Call
from .case import Case
from .operands import FuzzPlace

NAN, HUGE = float("nan"), 10**400


class Raises:
    """An object whose protocols raise."""

    def __init__(self, error):
        self._error = error

    @property
    def __cuda_array_interface__(self):
        raise self._error

    def __dlpack__(self, **options):
        raise self._error

    def __dlpack_device__(self):
        raise self._error

    def __repr__(self):
        return f"an object whose protocols raise {self._error!r}"


class Interface:
    """An object with a CUDA array interface that is wrong."""

    def __init__(self, **fields):
        whole = {"shape": (2, 3), "typestr": "<f4", "data": (0, False), "version": 3}
        self.__cuda_array_interface__ = {k: v for k, v in {**whole, **fields}.items() if v is not None}

    def __repr__(self):
        return f"an object with the array interface {self.__cuda_array_interface__}"


class Mutation(NamedTuple):
    """What an argument is replaced by.

    Attributes:
        make: (case, call, name) -> the value.
        certain: whether the call must then be refused.
        host: whether it can be done with NumPy arrays only.
        errors: what it must raise, if that is known.
        named: whether the message must have the argument's name.
    """

    make: Callable[..., Any]
    certain: bool = True
    host: bool = False
    errors: tuple[type, ...] = ()
    named: bool = False


def values(*wrong, certain=True, errors=()):
    """Mutations to given values."""
    return [Mutation(lambda case, call, name, v=v: v, certain, errors=errors, named=certain) for v in wrong]


def like(change, **options):
    """A mutation that makes an array of the one that is there, in NumPy, and puts it where that was."""

    def make(case, call, name):
        there = call.arguments[name].value
        array = change(case, np.array(numbacc.asnumpy(there)))
        return array if options.get("host") else put(call.place, array)

    return Mutation(make, **options)


def put(place, array):
    """An array here, its strides kept where they repeat elements."""
    if not place.is_device or 0 not in array.strides:
        return place.put(array) if array.flags.writeable else array
    first = array[tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)]
    return place.put(np.array(first)).broadcast_to(array.shape)


def longer(case, array):
    shape = list(array.shape)
    shape[case.integer(0, len(shape) - 1)] += 1
    return np.ones(shape, array.dtype)


def frozen(case, call, name):
    """The same array, not to be written."""
    array = call.place.put(np.array(numbacc.asnumpy(call.arguments[name].value)))
    if call.place.is_device:
        array._readonly = True
    else:
        array.flags.writeable = False
    return array


def overlapping(case, call, name):
    """`out` one element behind the start of the first array of its dtype, in that array's memory."""
    out = call.arguments[name].value
    for other, argument in call.arguments.items():
        # Another mutation may have made it a list, or an object that is no array.
        is_array = isinstance(argument.value, np.ndarray) or hasattr(argument.value, "_numbacc_layout")
        if other != name and argument.kind == "array" and is_array and argument.value.dtype == out.dtype:
            source = numbacc.asnumpy(argument.value)
            size = int(np.prod(out.shape))
            memory = call.place.put(np.ones(size + source.size + 1, out.dtype))
            call.arguments[other] = argument._replace(value=memory[: source.size].reshape(source.shape))
            return memory[1 : 1 + size].reshape(out.shape)
    return None


def on_host(case, call, name):
    """A NumPy array among those of a device."""
    others = [a for n, a in call.arguments.items() if n != name and a.kind in ("array", "out")]
    return np.array(numbacc.asnumpy(call.arguments[name].value)) if call.place.is_device and others else None


#: Without a GPU one of NumPy's numbers is an array of rank 0, which may fit.
NUMPYS = Mutation(lambda case, call, name: np.float32(3), certain=False, host=True)
NO_ARRAYS = values(
    None, "x", b"x", 3, 3.5, 1j, [1.0, 2.0], [1.0, 2.0, 3.0], [[1.0]], (), {}, {1.0}, object(), range(3), np.ndarray,
    lambda: None, memoryview(b"abc"), Raises(KeyError("x")), Raises(RuntimeError("x")),
    Raises(ValueError("x")), Interface(data=None), Interface(typestr="x"), Interface(shape=(-1, 2)),
    Interface(version="a"), Interface(shape=None),
)  # fmt: skip
NO_ARRAYS.append(NUMPYS)
#: Where a number may stand.
NO_OPERANDS = [m for m in NO_ARRAYS if type(m.make(None, None, None)) not in (int, float, complex, np.float32)]
#: Where one stands alone the message is that there is no array.
NUMBERS_ALONE = [m._replace(named=False) for m in values(3, 3.5, 1j)]
NO_LISTS = values("x", b"x", 3, 3.5, object(), {1.0}, {}, lambda: None, range(3), None)
HOST_DTYPES = [
    like(lambda case, a, d=d: np.zeros(a.shape, d), host=True)
    for d in (object, "U5", "M8[s]", np.longdouble, np.clongdouble, ">f8", [("f", "f4")])
]
SHAPES = [
    like(lambda case, a: a.reshape((1,) * (9 - a.ndim) + a.shape), certain=False),
    like(lambda case, a: np.ones((), a.dtype)),
]
OTHER_SHAPES = [like(longer), like(lambda case, a: a[None]), like(lambda case, a: a[..., :0])]
OTHER_DTYPES = [
    like(lambda case, a, d=d: np.ones(a.shape, d), certain=False) for d in ("f4", "f8", "i4", "?", "c8", "f2")
]
OTHER_MASKS = [like(lambda case, a, d=d: np.ones(a.shape, d)) for d in ("f4", "i4", "u1")]
NO_INDICES = [like(lambda case, a, d=d: np.ones(a.shape, d), errors=(numbacc.DTypeError,)) for d in ("f4", "?", "c8")]
ON_HOST = Mutation(on_host, errors=(numbacc.DeviceError,))


def with_element(element):
    """A list whose last array is replaced by what is none, or no fitting one."""

    def make(case, call, name):
        there = call.arguments[name].value
        return [*there[:-1], element] if isinstance(there, (list, tuple)) and there else [element]

    return Mutation(make, named=True)


ELEMENTS = [with_element(each) for each in (None, "x", 3, 1j, [1.0], object(), Raises(KeyError("x")))]
OUTS = [
    Mutation(frozen, errors=(numbacc.LayoutError,)),
    Mutation(overlapping, errors=(numbacc.LayoutError,)),
    like(lambda case, a: np.broadcast_to(a[:1] if a.ndim else a, a.shape), errors=(numbacc.LayoutError,)),
]
NO_NUMBER = values("1", b"1", [1], (1,), {}, object(), np.array([1, 2]), np.array(["x"]), 1j)
#: The same where arrays are operands: NumPy's beside those of a device are refused as such.
NO_SCALAR = [m._replace(host=isinstance(m.make(None, None, None), np.ndarray)) for m in NO_NUMBER]
NO_INTEGER = [*NO_NUMBER, *values(1.5, NAN, np.float32(1), np.array([1.0, 2.0]))]
#: What names nothing; of a generator's kind an integer is a seed.
NO_NAME = values("", "nonsense", b"relu", 1.5, NAN, ["relu"], {"a": 1}, np.array([1, 2]), np.ones(3), object())
NO_OPTION = [*NO_NAME, *values(3, HUGE)]
NO_STEPS = values(None, 1.5, "1", b"1", {}, object(), -1, HUGE, (1, 1.0), (1, None), [[1]], NAN, 2**31)
NO_FLAG = values("x", [1], {}, np.array([1, 2]), object(), NAN)
NO_DTYPE = values(
    "nonsense", [], {}, 3.5, object(), "U5", "O", np.longdouble, [("a", "f4")], HUGE, "M8[s]", (1, 2), b"\xff"
)
NO_SHAPE = values(
    -1, (2, -3), 2.5, "4", (2, None), [[2]], 2**62, (2**40, 2**40), HUGE, (HUGE,), object(), NAN, (2, 3.0), -HUGE
)
NAMELESS = values("gpu", -1, 1.5, True, [], {}, object(), HUGE, "cuda:x", "cuda:-1", NAN, b"cpu")
NO_DEVICE = [*NAMELESS, *values(99, "cuda:99")]
NO_SCALE = values("2", True, [2.0], {}, object(), 1j)
NO_PROBABILITY = [*NO_NUMBER, *values(None, HUGE, NAN, -0.5, 1.5)]
NO_OFFSET = [*NO_SCALAR, *values(-4, 3, 1.5, HUGE, 2**63)]
#: Numbers in arrays, which are looked at on the CPU alone.
BEYOND = [
    like(lambda case, a, by=by: a + a.dtype.type(by), host=True, errors=(numbacc.OptionError,), named=True)
    for by in (1000, -1000)
]
#: Of arrays of lengths, of starts, of pages: integers, and so many.
NO_NUMBERS = [*NO_ARRAYS[1:], *HOST_DTYPES, SHAPES[1], *OTHER_SHAPES, *OTHER_DTYPES, *BEYOND, ON_HOST]

MUTATIONS: dict[str, list[Mutation]] = {
    "array": [*NO_ARRAYS, *HOST_DTYPES, *SHAPES, *OTHER_DTYPES, ON_HOST],
    "any array": NO_ARRAYS,
    "operand": [*NO_OPERANDS, *HOST_DTYPES, SHAPES[0], *OTHER_DTYPES, ON_HOST],
    "operand or None": [*NO_OPERANDS[1:], *HOST_DTYPES, SHAPES[0], *OTHER_DTYPES, ON_HOST],
    "alone": [*NO_OPERANDS, *NUMBERS_ALONE, *HOST_DTYPES, SHAPES[0], *OTHER_DTYPES, ON_HOST],
    "array of any rank": [*NO_ARRAYS, *HOST_DTYPES, SHAPES[0], *OTHER_DTYPES, ON_HOST],
    "array or None": [*NO_ARRAYS[1:], *HOST_DTYPES, *SHAPES, *OTHER_DTYPES, ON_HOST],
    "mask": [*NO_ARRAYS[1:], *HOST_DTYPES, *OTHER_MASKS, ON_HOST],
    "indices": [*NO_ARRAYS, *HOST_DTYPES, *NO_INDICES, ON_HOST],
    "arrays": [*NO_LISTS, *ELEMENTS],
    "lists": [*NO_LISTS, *ELEMENTS, *values((), [], certain=False)],
    "out": [*NO_ARRAYS[1:], *HOST_DTYPES, *SHAPES, *OTHER_SHAPES, *OTHER_DTYPES, *OUTS, Mutation(on_host)],
    "host out": values(
        [1], "x", 3, (), np.zeros((2, 2), np.float32), np.zeros((2, 3), np.int8), np.zeros((3, 2), np.float32).T
    ),
    "option": [*NO_OPTION, *values(None)],
    "option or None": NO_OPTION,
    "order": values(None, "fro", True, NAN, HUGE, [1], object(), 1j),
    "option or seed": [*NO_NAME, *values(None)],
    "axis": [*NO_INTEGER, *values(None, HUGE, -HUGE, 100, -100)],
    "axis or None": [*NO_INTEGER, *values(HUGE, -HUGE, 100, -100)],
    "axes": values("01", 1.5, NAN, [1.0], object(), (0, None), 100, (0, 100), HUGE),
    "count": [*NO_INTEGER, *values(None, 0, -1, -HUGE, 2**62, HUGE)],
    "count or None": [*NO_INTEGER, *values(0, -1, -HUGE, 2**62, HUGE)],
    "counts": values(
        4, "44", (4, None), (4.0, 4), [[1]], (1, 2, 3), object(), (NAN, 1), (HUGE, 1), (-HUGE, 1), (0, 2**62)
    ),
    "steps": [*NO_STEPS, *values(0, (0, 1), (1, 1, 1))],
    "zeros": [*NO_STEPS, *values("full", -1, ((0, -1), 0), (1, 1, 1), ((1, 2, 3), 1))],
    "lengths": values(
        None, 3, "2465", (2, 4, 6), (2, 4, 6, 5.0), (2, 4, -6, 5), (2**40,) * 4, (HUGE, 1, 1, 1), object()
    ),
    "real": [*NO_NUMBER, *values(None, HUGE, np.array([1.0]))],
    "finite": [*NO_NUMBER, *values(None, HUGE, NAN, float("inf"), np.array([1.0]))],
    "finite or None": [*NO_NUMBER, *values(HUGE, NAN, float("inf"), np.array([1.0]))],
    "bound": [*NO_INTEGER, *values(HUGE, -HUGE, 2**64 + 1)],
    "probability": NO_PROBABILITY,
    "share": [*NO_PROBABILITY, *values(1.0)],
    "offset": [*NO_OFFSET, *values(None)],
    "number or array": NO_OFFSET,
    "band": values("diagonal", b"causal", 3, 1.5, True, ["causal"], (1, 2), {}, np.ones((5, 7)), object(), HUGE, NAN),
    "numbers": NO_NUMBERS,
    "needed numbers": [*NO_NUMBERS, *values(None, errors=(numbacc.OptionError,))],
    "scalar": [*NO_SCALAR, *values(None, HUGE)],
    "count or 0": [*NO_INTEGER, *values(None, -1, -HUGE, 2**62, HUGE)],
    "step": [*NO_NUMBER, *values(None, 0, -1, NAN, HUGE)],
    "stride": [*NO_NUMBER, *values(None, 0, NAN, HUGE, float("inf"))],
    "integer": [*NO_INTEGER, *values(None)],
    "positive": [*NO_NUMBER, *values(None, -1.0, NAN, HUGE)],
    "seed": [*NO_INTEGER, *values(None, -1, HUGE, -HUGE, 2**64)],
    "flag": NO_FLAG,
    "limit": values("x", 0, -1, 1.5, True, [], NAN, object()),
    "limit or 0": values("x", -1, 1.5, [], NAN, object()),
    "stream": values("x", -1, 1.5, True, object(), [], {}, 2**70, "0", b"s", int),
    "device": NO_DEVICE,
    "name of a device": NAMELESS,  # where the GPU need not exist
    "dtype": NO_DTYPE,
    "shape": [*NO_SHAPE, *values(None)],
    "shape or None": NO_SHAPE,
    "fill": values("a", [1, 2], object(), {}, np.ones((5, 7)), HUGE, b"a"),
    "convertible": values(
        "x",
        object(),
        {},
        [[1], [1, 2]],
        HUGE,
        ["a"],
        lambda: None,
        [object()],
        Raises(KeyError("x")),
        Raises(RuntimeError("x")),
        Interface(typestr="x"),
    ),
    "saved": values(None, (), "x", 3, (1, 2, 3), [], object()),
    "scale": NO_SCALE,
}


class Outcome(NamedTuple):
    """What came of a call: the error it raised, or None; and whether it had to raise."""

    error: Exception | None
    certain: bool
    host_only: bool


def run(case):
    found = attempt(case)
    if not case.place.is_device or found is None or found.host_only:
        return
    twin = Case(case.family, case.seed, FuzzPlace("numpy"))
    other = attempt(twin)
    one, two = (type(o.error).__name__ if o and o.error else "no error" for o in (found, other))
    assert one == two, f"{one} on {case.place.name} ({found.error}), {two} in NumPy ({other and other.error})"


def attempt(case):
    """One wrong call, judged by itself; None where nothing was spoilt."""
    call = Call(case)
    if case.chance(0.05):
        return python_refuses(case, call)
    chosen = {}
    for name in case.rng.permutation(list(call.arguments))[: 2 if case.chance(0.2) else 1]:
        argument = call.arguments[str(name)]
        mutations = MUTATIONS[argument.kind] + (OTHER_SHAPES if argument.kind == "array" and argument.fixed else [])
        mutation = case.pick(mutations)
        if mutation.host and call.place.is_device:
            return None
        value = mutation.make(case, call, str(name))
        if value is None and mutation.make in (overlapping, on_host):
            return None
        if value is None and not argument.required and argument.kind in ("array", "aux", "array of any rank"):
            mutation = mutation._replace(certain=call.name.startswith("gemm.matmul"))
        is_of_memory = mutation.make in (frozen, overlapping, *(each.make for each in BEYOND))
        if call.is_plan and (is_of_memory or argument.kind == "scalar"):
            # A plan is made of layouts and kinds of numbers, not of memory and numbers.
            mutation = mutation._replace(certain=False, errors=())
        chosen[str(name)] = mutation
        call.arguments[str(name)] = argument._replace(value=value)
    host_only = any(m.host or m.make is on_host for m in chosen.values())
    error = outcome(case, call, {name: a.value for name, a in call.arguments.items()})
    certain = any(m.certain for m in chosen.values())
    judge(case, call, chosen, error, certain)
    return Outcome(error, certain, host_only)


def python_refuses(case, call):
    """An unknown keyword, or a missing argument."""
    arguments = {name: a.value for name, a in call.arguments.items()}
    required = [name for name, a in call.arguments.items() if a.required]
    if required and case.chance(0.5):
        del arguments[case.pick(required)]
    else:
        arguments["colour"] = "red"
    error = outcome(case, call, arguments)
    of_dtypes = isinstance(error, numbacc.DTypeError)  # which are TypeErrors, too
    assert isinstance(error, TypeError) and not of_dtypes, f"{error!r} for a call with other arguments than it has"
    untouched(call)


def outcome(case, call, arguments):
    """The error that a call raises, or None."""
    before = None if call.random is None else call.random.state
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case.call(call.name, call.function, **arguments)
        except Exception as error:
            if before is not None:
                assert call.random.state == before, "a refused call moved the generator on"
            return error
    return None


def judge(case, call, chosen, error, certain):
    names = ", ".join(sorted(chosen))
    if error is None:
        # Two wrong arguments may fit each other.
        assert not certain or len(chosen) > 1, f"a wrong {names} was taken"
        return
    if not isinstance(error, numbacc.Error):
        raise AssertionError(f"a wrong {names} raised {type(error).__name__}: {error}") from error
    case.refused(error)
    untouched(call)
    if len(chosen) == 1:
        ((name, mutation),) = chosen.items()
        if mutation.errors:
            assert isinstance(error, mutation.errors), f"a wrong {name} raised {error!r}"
        full = isinstance(error, numbacc.DeviceError) and re.match("out of (host )?memory", str(error))
        if mutation.named and not full:
            words = {name, *SYNONYMS.get(name, ())}
            assert any(re.search(rf"\b{word}\b", str(error)) for word in words), f"no word of {name} in: {error}"


#: What a message may say instead of the argument's name.
SYNONYMS = {
    "a": ("b",), "b": ("a",), "b1": ("bias",), "b2": ("bias",), "w": ("b",), "w1": ("b",), "w2": ("b",),
    "axis": ("axes",), "s": ("axes",), "axes": ("s", "axis"), "device": ("cuda",), "n": ("points",),
    "size": ("outputs",), "p": ("g", "m", "v"), "g": ("p", "m", "v"), "m": ("p",), "v": ("p",),
    "q_shape": ("q",), "k_shape": ("k",),
}  # fmt: skip


def untouched(call):
    for operand in call.operands:
        operand.assert_untouched()

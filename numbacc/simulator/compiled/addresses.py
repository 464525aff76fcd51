"""Check the accesses of kernels whose arguments hold addresses: numbacc's own.

Such a kernel loads and stores in intrinsics, which generate a GPU's LLVM code. In checked mode each of these loads and
stores first calls `_reached` (see `watching`), which looks for the address in the launch's memory: the live
allocations, and the kernel's shared and local arrays. A wrong access is recorded and goes to scratch memory instead.

For shared memory it uses the stamps of `checks`, so that Python's index expressions and intrinsics see each other's
accesses. An allocation has stamps for each of its pieces. A piece has the bytes of the narrowest access so far.
"""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from . import checks, watching
from .checks import MISALIGNED_ADDRESS, OUTSIDE, Checks
from .intrinsics import is_opaque
from .syntax import called, statements, walk
from .variables import load as _load
from .watching import MEMORY

__all__ = ["AddressChecks", "LaunchMemory"]

# The words of a launch's memory: see `LaunchMemory`.
_COUNT, _STARTS, _ENDS, _SCRATCH, _ERROR, _PLACE, _REGIONS, _STAMPS, _FUNCTION, _STATE, _FIRST = (
    0, 8, 16, 24, 32, 40, 96, 104, 112, 120, 128,
)  # fmt: skip
#: The bytes of an allocation's stamps: addresses of the writers and of the readers, and the bytes of a piece.
_STAMP = 24
#: The largest piece: no access is wider.
_WIDEST = 16
#: The bytes of a region: start, end, bytes of an element, stamps of writers and readers, state, number of the array.
_REGION = 56
_MOST_REGIONS = 64
#: Scratch memory is wide enough for any access of a thread.
_SCRATCH_BYTES = 256


class LaunchMemory:
    """The memory that a launch can access.

    `words` holds the number of allocations, the addresses of their sorted starts and of their ends, the address of
    scratch memory and of the array of errors; the current place in the source, thread, block, and era, as `_touch`
    takes them; the number of regions; the addresses of the allocations' stamps, of the function that makes these, and
    of the block's state; and the regions, the kernel's shared and local arrays, which the compiled function adds.

    Args:
        allocations: address of each allocation -> its bytes. They must live as long as the launch.
        error: the array of errors.
    """

    def __init__(self, allocations: Mapping[int, Any], error: np.ndarray[Any, Any]):
        found = sorted((start, start + each.nbytes) for start, each in list(allocations.items()))
        self._starts, self._ends = np.array(found, np.int64).reshape(-1, 2).T.copy()
        scratch = np.zeros(2 * _SCRATCH_BYTES, np.uint8)
        aligned = -(-scratch.ctypes.data // _SCRATCH_BYTES) * _SCRATCH_BYTES
        self.words = np.zeros((_FIRST + _MOST_REGIONS * _REGION) // 8, np.int64)
        self.words[:5] = len(found), self._starts.ctypes.data, self._ends.ctypes.data, aligned, error.ctypes.data
        self._kept = scratch, error
        self._stamps: dict[int, np.ndarray[Any, Any]] = {}
        self._table = np.zeros((len(found), _STAMP // 8), np.int64)
        self._function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(self._divide)
        self.words[_STAMPS // 8] = self._table.ctypes.data
        self.words[_FUNCTION // 8] = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _divide(self, k: int, nbytes: int) -> int:
        """Make an allocation's stamps for pieces of some bytes. Compiled code calls this."""
        size = int(self._ends[k] - self._starts[k])
        old = self._stamps.get(k)
        if old is None:
            made = np.zeros((2, -(-size // nbytes)), np.int64)
        else:
            made = np.repeat(old, int(self._table[k, 2]) // nbytes, axis=1)
        self._stamps[k] = made
        self._table[k] = made[0].ctypes.data, made[1].ctypes.data, nbytes
        return 0

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)


# ---------------------------------------------------------------- an access


def _region_of(memory, address):  # type: ignore[no-untyped-def]
    """Return the address of the words of the region that an address is in, or 0."""
    region = memory + _FIRST
    for _ in range(_load(memory + _REGIONS)):
        if _load(region) <= address < _load(region + 8):
            return region
        region += _REGION
    return 0


def _allocation_of(memory, address):  # type: ignore[no-untyped-def]
    """Return the number of the last allocation that starts at or before an address, or -1."""
    starts = _load(memory + _STARTS)
    low, high = 0, _load(memory)
    while low < high:
        middle = (low + high) // 2
        if _load(starts + 8 * middle) <= address:
            low = middle + 1
        else:
            high = middle
    return low - 1


@intrinsic
def _call(typingctx: Any, function: Any, first: Any, second: Any) -> Any:
    """Call a C function, given its address, with two 64-bit numbers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.int64)
        kind = ir.FunctionType(word, [word, word]).as_pointer()
        return builder.call(builder.inttoptr(args[0], kind), args[1:])

    return types.int64(types.int64, types.int64, types.int64), codegen


def _stamps_of(memory, k, offset, nbytes):  # type: ignore[no-untyped-def]
    """Return the address of an allocation's stamps, for pieces that an access covers exactly.

    Args:
        k: the number of the allocation.
        offset, nbytes: the bytes from its start to the access, and the access's.
    """
    stamps = _load(memory + _STAMPS) + _STAMP * k
    finest = offset | nbytes | _WIDEST
    finest &= -finest
    if _load(stamps + 16) == 0 or _load(stamps + 16) > finest:
        _call(_load(memory + _FUNCTION), k, finest)
    return stamps


_region_of, _allocation_of = register_jitable(_region_of), register_jitable(_allocation_of)
_stamps_of = register_jitable(_stamps_of)
_noted, _touched = register_jitable(checks._note), register_jitable(checks._touch)


def _reached(memory, address, nbytes, alignment, mode):  # type: ignore[no-untyped-def]
    """Return the address that an access may use: the given one, or that of scratch memory if it is a mistake."""
    place = memory + _PLACE
    line, t, b = _load(place), _load(place + 8), _load(place + 16)
    error = _load(memory + _ERROR)
    region = _region_of(memory, address)
    name = k = -1
    if region:
        start, end, name = _load(region), _load(region + 8), _load(region + 48)
    else:
        start = end = 0
        k = _allocation_of(memory, address)
        if k >= 0:
            start, end = _load(_load(memory + _STARTS) + 8 * k), _load(_load(memory + _ENDS) + 8 * k)
    if address + nbytes > end:
        _noted(error, line, name, t, b, OUTSIDE, mode, 0, 4, address - start, nbytes, end - start, 0)
        return _load(memory + _SCRATCH)
    if address % alignment:
        _noted(error, line, name, t, b, MISALIGNED_ADDRESS, mode, 0, 4, address - start, nbytes, end - start, alignment)
        return _load(memory + _SCRATCH)
    offset = address - start
    if region:
        wrote, read, size, state = _load(region + 24), _load(region + 32), _load(region + 16), _load(region + 40)
    else:
        stamps = _stamps_of(memory, k, offset, nbytes)
        wrote, read, size, state = _load(stamps), _load(stamps + 8), _load(stamps + 16), _load(memory + _STATE)
    if wrote:
        shared = 1 if region else 0
        era, since, begin, until = _load(place + 24), _load(place + 32), _load(place + 40), _load(place + 48)
        for n in range(offset // size, (offset + nbytes - 1) // size + 1):
            found = _touched(
                wrote + 8 * n, read + 8 * n, state, mode, shared, era, since, begin, until, min(line, 255), t
            )
            if found:
                at, count = (n, 1) if region else (n * size, 3)
                _noted(
                    error, line, name, t, b, found & 15, found >> 4, _load(state + 8), count, at, size, end - start, 0
                )
    return address


def _reach(context: Any, builder: Any, memory: Any, *access: Any) -> Any:
    """Return the address that an access may use, in generated code."""
    return checks._compiled(context, builder, _reached, [memory, *access])


watching.reach = _reach


# ---------------------------------------------------------------- what the generated code says


@intrinsic
def _at(typingctx: Any, memory: Any, numbers: Any) -> Any:
    """Record the current place: its number, the thread, the block and the era."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.int64)
        for k, number in enumerate(checks._integers(context, builder, signature.args[1], args[1])):
            place = builder.inttoptr(builder.add(args[0], word(_PLACE + 8 * k)), word.as_pointer())
            builder.store(number, place)
        return context.get_dummy_value()

    return types.void(types.int64, numbers), codegen


@intrinsic
def _known(typingctx: Any, memory: Any, name: Any, array: Any, stamps: Any) -> Any:
    """Add an array to the memory that a kernel can access.

    Args:
        name: the number of the array.
        stamps: its writers, its readers and its state, as `_touch` takes them; () for a local array.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, name_kind, kind, stamp_kinds = signature.args
        word = context.get_value_type(types.int64)
        made = context.make_array(kind)(context, builder, args[2])
        start = builder.ptrtoint(made.data, word)
        count = builder.inttoptr(builder.add(args[0], word(_REGIONS)), word.as_pointer())
        number = builder.load(count)
        region = builder.add(args[0], builder.add(word(_FIRST), builder.mul(number, word(_REGION))))
        addresses = [word(0)] * 3
        if len(stamp_kinds):
            given = zip(stamp_kinds, cgutils.unpack_tuple(builder, args[3]), strict=True)
            addresses = [checks._address(context, builder, k, v) for k, v in given]
        end = builder.add(start, builder.mul(made.itemsize, made.nitems))
        named = context.cast(builder, args[1], name_kind, types.int64)
        for k, value in enumerate([start, end, made.itemsize, *addresses, named]):
            builder.store(value, builder.inttoptr(builder.add(region, word(8 * k)), word.as_pointer()))
        builder.store(builder.add(number, word(1)), count)
        return context.get_dummy_value()

    return types.void(types.int64, name, array, stamps), codegen


@intrinsic
def _forget(typingctx: Any, memory: Any, state: Any) -> Any:
    """Forget the arrays of earlier calls. `state` is the block's state for allocations, as `_touch` takes it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.int64)
        address = checks._address(context, builder, signature.args[1], args[1])
        for place, value in ((_REGIONS, word(0)), (_STATE, address)):
            builder.store(value, builder.inttoptr(builder.add(args[0], word(place)), word.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, state), codegen


@intrinsic
def _kept(typingctx: Any, arrays: Any) -> Any:
    """Do nothing. Numba frees an array after its last use, and addresses are no use."""
    return types.void(arrays), lambda context, *_: context.get_dummy_value()


class AddressChecks(Checks):
    """The checks of a kernel whose arguments hold addresses."""

    def space(self) -> dict[str, Any]:
        return {**super().space(), "_nb_at": _at, "_nb_known": _known, "_nb_forget": _forget, "_nb_kept": _kept}

    def parameters(self) -> list[str]:
        return [*super().parameters(), MEMORY]

    @staticmethod
    def kinds() -> list[types.Type]:
        return [*Checks.kinds(), types.int64]

    def head(self, line: int) -> list[ast.stmt]:
        known = [f"_nb_forget({MEMORY}, _nb_state)"]
        for n in self.shared:
            stamps = f"(_nb_wrote_{n}, _nb_read_{n}, _nb_filled_{n})"
            known.append(f"_nb_known({MEMORY}, {self.number(n)}, {n}, {stamps})")
        known += [f"_nb_known({MEMORY}, {self.number(n)}, _nb_all_{n}, ())" for n in self.normal.local]
        return [*super().head(line), *statements("\n".join(known), line)]

    def end(self, line: int) -> list[ast.stmt]:
        arrays = ["_nb_state", *(f"_nb_{k}_{n}" for n in self.shared for k in ("wrote", "read", "filled"))]
        return [*super().end(line), *statements(f"_nb_kept(({', '.join(arrays)},))", line)]

    def clean(self, body: list[ast.stmt], emit: Any) -> tuple[list[ast.stmt], ast.expr] | None:
        return None if self._call(body) else super().clean(body, emit)

    def _call(self, nodes: Any) -> Any:
        """Return a call of an intrinsic in these nodes, or None."""
        return next((n for n in walk(nodes) if is_opaque(self.normal.space.get(called(n)))), None)

    def before(self, s: ast.stmt | ast.expr) -> list[ast.stmt]:
        call = self._call(s)
        if call is None:
            return []
        numbers = f"({self.site(call)}, _nb_t, _nb_block, _nb_era, _nb_since, _nb_start, _nb_end)"
        return statements(f"_nb_at({MEMORY}, {numbers})", s.lineno)

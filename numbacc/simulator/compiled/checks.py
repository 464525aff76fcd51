"""The checked mode: index expressions check themselves, and errors name the line and thread.

Each element of an array that the kernel writes has two stamps: its last writer and its last reader. A stamp holds an
era (which grows at each barrier and with each block), the number of the access in the kernel, and the thread. `sites`
finds phases that need no checks.
"""

from __future__ import annotations

import ast
import math
import os
from collections import defaultdict
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from .alignment import MISALIGNED, aligned, is_view, views
from .analysis import Facts
from .kinds import Kinds, parts_of
from .loops import STOPPED
from .normalize import Normalize
from .sites import Sites, array_of, indices
from .source import Source
from .syntax import BARRIER, GRID_BARRIER, Rewriter, assignment, called, duplicate, expression, named, statements
from .variables import load as _load
from .variables import store as _store
from .watching import ACQUIRE, ATOMIC, BOTH, EXCHANGE, OBSERVE, READ, WRITE

#: Codes of errors, stored in the first element of the array of errors.
OUT, RACE, UNINITIALIZED, DIVERGENT = 1, 2, 3, 4
#: Codes of errors that `addresses` finds. `alignment` and `loops` have other codes.
OUTSIDE, MISALIGNED_ADDRESS = 8, 9
#: The length of the array of errors: code, line, array, thread, block, count, other or axis, the other's stamp, number
#: of indices, indices.
ERRORS = 16
# In checked mode, the same array goes on: the bits of eras, the offsets of arrays from aligned addresses, and for each
# array with stamps those of the writers and of the readers.
_OFFSETS = ERRORS + 1
# The bits of a stamp: thread, flag, flag, access, era.
_THREAD, _WARP, _MANY, _BLOCKS, _SITE, _ERA = (1 << 10) - 1, ((1 << 10) - 1) & ~31, 1 << 10, 1 << 11, 12, 20
_ATOMIC = _MANY
#: The bits of an era for the barriers of a block between two barriers of the grid.
_COOPERATIVE_BITS = 18


def _era_bits(blocks: int, cooperative: bool) -> int:
    """Return how many bits an era needs for the barriers of a block.

    Args:
        cooperative: whether the grid synchronizes. Between two of its barriers, each block has another number.
    """
    return _COOPERATIVE_BITS if cooperative else 43 - (blocks + 1).bit_length()


def has_stamps(kind: types.Array) -> bool:
    """Return whether each element of an argument has stamps."""
    return True


def header(
    arrays: list[Any], count: int, offsets: list[int] | None, blocks: int, cooperative: bool
) -> np.ndarray[Any, Any]:
    """Return the array of errors, with what the checks of a launch need after it. Untouched memory costs nothing.

    Args:
        arrays: the arrays with stamps.
        count: how many arguments are arrays.
        offsets: the distance in bytes from an address that a GPU aligns to the start of each argument that is an array;
            None for 0.
        cooperative: whether the grid synchronizes.
    """
    size = _OFFSETS + count
    for each in arrays:
        size += 2 * each.size
    made = np.zeros(size, np.int64)
    made[ERRORS] = _era_bits(blocks, cooperative)
    if offsets is not None:
        made[_OFFSETS : _OFFSETS + count] = offsets
    return made


@intrinsic
def stamps(typingctx: Any, header: Any, start: Any, array: Any) -> Any:
    """Return the array of stamps, one for each of an array's elements, that starts at an index of the header."""
    made = types.Array(types.int64, array.ndim, "C")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.np import arrayobj  # slow to import

        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        of = context.make_array(signature.args[2])(context, builder, args[2])
        shape = cgutils.unpack_tuple(builder, of.shape)
        word = context.get_value_type(types.int64)
        strides: list[Any] = [word(8)]
        for n in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], n))
        found = context.make_array(made)(context, builder)
        arrayobj.populate_array(
            found, data=builder.gep(data, [args[1]]), shape=shape, strides=strides[: len(shape)], itemsize=word(8),
            meminfo=None,
        )  # fmt: skip
        return found._getvalue()

    return made(header, types.int64, array), codegen


# The functions below are compiled once, for int64 only: an address stands for an array.


def _note(error, line, name, t, b, code, other, stamp, count, i0, i1, i2, i3):  # type: ignore[no-untyped-def]
    """Record an error."""
    old = _load(error)
    if old == 0 or (old == UNINITIALIZED and code != UNINITIALIZED):  # a race explains an uninitialized read
        _store(error, code)
        _store(error + 8, line)
        _store(error + 16, name)
        _store(error + 24, t)
        _store(error + 32, b)
        _store(error + 48, other)
        _store(error + 56, stamp)
        _store(error + 64, count)
        _store(error + 72, i0)
        _store(error + 80, i1)
        _store(error + 88, i2)
        _store(error + 96, i3)
    return 0


def _is_race_of_blocks(stamp, mode, did):  # type: ignore[no-untyped-def]
    """Return whether an access of another block is a race: no atomic operation orders it before this one."""
    if did == 2 or (mode >= ATOMIC and stamp & _ATOMIC):
        return False
    return not (did == 1 and stamp & _ATOMIC)


_is_race_of_blocks = register_jitable(_is_race_of_blocks)


def _touch(wrote, read, state, mode, shared, era, since, start, end, site, t):  # type: ignore[no-untyped-def]
    """Record an access in the stamps of its element, at `wrote` and `read`.

    Args:
        state: the address of the block's state: atomic operations on global arrays (2: used a result), or for a shared
            array the elements written. The next words are the stamp that revealed a race, and the oldest stamp that
            matters: of a shared array, for whether an element was written.
        era: since the last barrier; since: since the last barrier of the block; start: of this block; end: of the next.

    Returns:
        The code of an error, and 16 times the other access for explain(); 0 if there is no error.
    """
    me = era | (site << _SITE) | t
    w = _load(wrote)
    found = 0
    stamps = True
    if since <= w < end:
        other = (w ^ me) & _THREAD != 0 and (w >= era or (w ^ me) & _WARP != 0)
        if other and not (mode >= ATOMIC and w & _ATOMIC):
            found = RACE | mode << 4
            _store(state + 8, w)
    elif w < start or w >= end:
        if shared:
            if w < _load(state + 16):
                if mode != WRITE and mode != EXCHANGE:
                    found = UNINITIALIZED
                if mode != READ and mode != OBSERVE:
                    _store(state, _load(state) + 1)
        elif w >= _load(state + 16) and _is_race_of_blocks(w, mode, _load(state)):
            found = RACE | mode << 4
            _store(state + 8, w)
    if mode != READ and mode != OBSERVE:
        r = _load(read)
        if r >= _load(state + 16):
            here = start <= r < end
            others = (r >= era and (r & _MANY or (r ^ me) & _THREAD)) or (r ^ me) & _WARP
            if found & 15 != RACE and here and r >= since and others:
                found = RACE | (mode | 8) << 4
                _store(state + 8, r)
            far = not shared and (r & _BLOCKS or not here)
            if found & 15 != RACE and far and _is_race_of_blocks(0, mode, _load(state)):
                found = RACE | (mode | (24 if here else 8)) << 4
                _store(state + 8, r)
        own = era <= w < end and not (w ^ me) & (_THREAD | _ATOMIC)  # this thread wrote it, without a barrier since
        _store(wrote, (w if own else me | _ATOMIC) if mode >= ATOMIC else me)
    if not shared and mode == READ and _load(state) != 0:
        stamps = _load(state) == 1 and w & _ATOMIC == 0  # atomic operations order later accesses
    if mode in (READ, BOTH) and stamps:
        r = _load(read)
        flags = 0
        if start <= r < end:
            flags = r & _BLOCKS
            if r >= era and (r & _MANY or (r ^ me) & _THREAD):
                flags |= _MANY
        elif not shared and r >= _load(state + 16):
            flags = _BLOCKS
        _store(read, me | flags)
    if mode >= ATOMIC and not shared:
        _store(state, max(_load(state), 2 if mode in (ACQUIRE, OBSERVE) else 1))
    return found


def _compiled(context: Any, builder: Any, function: Any, args: list[Any]) -> Any:
    """Call a function of this module from generated code. It is not inlined, to keep compilation fast."""
    signature = types.int64(*[types.int64] * len(args))
    made = context.compile_subroutine(builder, function, signature)
    callee = context.declare_function(builder.module, made.fndesc)
    _, result = context.call_conv.call_function(builder, callee, types.int64, signature.args, args, attrs=("noinline",))
    return result


def _integers(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """Return the elements of a tuple as int64."""
    parts = cgutils.unpack_tuple(builder, value)
    return [context.cast(builder, p, k, types.int64) for p, k in zip(parts, kind, strict=True)]


def _address(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return builder.ptrtoint(context.make_array(kind)(context, builder, value).data, context.get_value_type(types.int64))


def _check(context: Any, builder: Any, kinds: Any, args: Any, where: list[Any], inner: Any) -> Any:
    """Return an index, or zeros if it is out of bounds. `inner(index)` adds checks for an index in bounds.

    Args:
        kinds, args: the types and values of (shape, index, error).
        where: line, number of the array, thread, block.
    """
    shape = _integers(context, builder, kinds[0], args[0])
    index = _integers(context, builder, kinds[1], args[1])
    error = _address(context, builder, kinds[2], args[2])
    zero = context.get_constant(types.int64, 0)
    wrapped, good, axis = [], cgutils.true_bit, context.get_constant(types.int64, 0)
    for d, (i, n) in enumerate(zip(index, shape, strict=False)):
        wrapped.append(builder.select(builder.icmp_signed("<", i, zero), builder.add(i, n), i))
        fits = builder.icmp_unsigned("<", wrapped[-1], n)
        axis = builder.select(builder.and_(good, builder.not_(fits)), context.get_constant(types.int64, d), axis)
        good = builder.and_(good, fits)

    def four(values: list[Any]) -> list[Any]:
        return [context.get_constant(types.int64, len(values)), *(values + [zero] * 4)[:4]]

    with builder.if_else(good, likely=True) as (yes, no):
        with yes:
            inner(wrapped, error, four(wrapped))
        with no:
            code = context.get_constant(types.int64, OUT)
            _compiled(context, builder, _note, [error, *where, code, axis, zero, *four(index)])
            for n in shape[: len(index)]:
                with builder.if_then(builder.icmp_signed("==", n, zero), likely=False):
                    context.call_conv.return_user_exc(builder, IndexError, ("an empty array",))
    kept = [builder.select(good, i, zero) for i in wrapped]
    return context.make_tuple(builder, types.UniTuple(types.int64, len(kept)), kept)


@intrinsic
def inside(typingctx: Any, shape: Any, index: Any, error: Any, where: Any) -> Any:
    """Return the index, or zeros if it is out of bounds. `where`: line, number of the array, thread, block."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers = _integers(context, builder, signature.args[3], args[3])
        return _check(context, builder, signature.args, args, numbers, lambda *_: None)

    return types.UniTuple(types.int64, len(index))(shape, index, error, where), codegen


@intrinsic
def access(
    typingctx: Any, shape: Any, index: Any, error: Any, where: Any, wrote: Any, read: Any, state: Any, how: Any
) -> Any:
    """Return the index, or zeros if it is out of bounds. Also look for races and uninitialized elements.

    `how`: the last arguments of `_touch`, from `mode` to `site`.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        where_values = _integers(context, builder, kinds[3], args[3])
        numbers = _integers(context, builder, kinds[7], args[7])

        def more(wrapped: list[Any], error_address: Any, four: list[Any]) -> None:
            word = context.get_value_type(types.int64)
            addresses = []
            for k in (4, 5):
                made = context.make_array(kinds[k])(context, builder, args[k])
                pointer = cgutils.get_item_pointer(context, builder, kinds[k], made, wrapped)
                addresses.append(builder.ptrtoint(pointer, word))
            held = _address(context, builder, kinds[6], args[6])
            found = _compiled(context, builder, _touch, [*addresses, held, *numbers, where_values[2]])
            with builder.if_then(builder.icmp_signed("!=", found, word(0)), likely=False):
                code, other = builder.and_(found, word(15)), builder.ashr(found, word(4))
                behind = builder.inttoptr(builder.add(held, word(8)), word.as_pointer())
                stamp = builder.load(behind)
                _compiled(context, builder, _note, [error_address, *where_values, code, other, stamp, *four])

        return _check(context, builder, kinds, args, where_values, more)

    result = types.UniTuple(types.int64, len(index))
    return result(shape, index, error, where, wrote, read, state, how), codegen


def _is_injective(c0, c1, c2, c3, c4, c5, c6, c7, e0, e1, e2, e3, e4, e5, e6, e7):  # type: ignore[no-untyped-def]
    """Return whether a sum of coefficients times counters differs for all choices of the counters."""
    coefficients, extents = (c0, c1, c2, c3, c4, c5, c6, c7), (e0, e1, e2, e3, e4, e5, e6, e7)
    reach, last = 0, 0
    for _ in range(8):
        best, size, several = 0, 0, 0
        for k in range(8):
            c = abs(coefficients[k])
            if extents[k] > 1:
                if c == 0:
                    return 0
                if c > last and (best == 0 or c < best):
                    best, size, several = c, extents[k], 0
                elif c == best:
                    several = 1
        if best == 0:
            return 1
        if best <= reach or several:
            return 0
        reach = reach + best * (size - 1) if size < (1 << 30) else 1 << 62
        last = best
    return 1


@intrinsic
def injective(typingctx: Any, coefficients: Any, extents: Any) -> Any:
    """Return whether a sum of coefficients times counters differs for all choices of the counters."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = [v for k in (0, 1) for v in _integers(context, builder, signature.args[k], args[k])]
        return builder.trunc(_compiled(context, builder, _is_injective, given), context.get_value_type(types.boolean))

    return types.boolean(coefficients, extents), codegen


class Checks:
    """The checks of one kernel for one combination of argument types.

    Attributes:
        arrays: the names of arrays, by the numbers that errors store.
        tracked: the parameters that the kernel writes, which have stamps.
    """

    def __init__(self, source: Source, normal: Normalize, facts: Facts, body: list[ast.stmt], arrays: list[str]):
        self.source, self.normal, self.facts = source, normal, facts
        self.parameter_arrays = arrays
        self.arrays: list[str] = []
        self.lines: list[tuple[str, int]] = []
        self.sites = Sites(normal, facts, body, arrays)
        self.views = views(body)
        self.tracked = [a for a in arrays if a in self.sites.written]
        self.shared = [*normal.shared]

    def space(self) -> dict[str, Any]:
        """Return the values of the names that the statements use."""
        return {"_nb_access": access, "_nb_inside": inside, "_nb_injective": injective, "_nb_aligned": aligned,
                "_nb_stamps": stamps}

    def parameters(self) -> list[str]:
        """Return the parameters that the compiled function takes in addition."""
        return []

    @staticmethod
    def kinds() -> list[types.Type]:
        """Return the types of `parameters`."""
        return []

    def head(self, line: int) -> list[ast.stmt]:
        """Return statements at the start of the compiled function."""
        grid = self.normal.grid
        text = """
            _nb_state = _nb_zeros(3, _nb_np.int64)
            _nb_state[2] = 1
            _nb_era = _nb_since = _nb_start = _nb_end = 0
            """
        if grid:
            text = """
            _nb_states = _nb_zeros((_nb_last, 3), _nb_np.int64)
            _nb_states[:, 2] = 1
            _nb_grid_era = _nb_era_here = _nb_since_here = 0
            """
        out = statements(text, line)
        text = f"_nb_era_bits = _nb_error[{ERRORS}]\n_nb_next = {_OFFSETS + len(self.parameter_arrays)}"
        for p in self.parameter_arrays:
            if has_stamps(self.facts.kinds[p]):
                text += f"\n_nb_size = {p}.size"
                if p in self.tracked:
                    text += f"\n_nb_wrote_{p} = _nb_stamps(_nb_error, _nb_next, {p})"
                    text += f"\n_nb_read_{p} = _nb_stamps(_nb_error, _nb_next + _nb_size, {p})"
                text += "\n_nb_next += 2 * _nb_size"
        out += statements(text, line)
        out += statements(
            """
            _nb_places_x = _nb_zeros(_nb_T, _nb_np.int64)
            _nb_places_y = _nb_zeros(_nb_T, _nb_np.int64)
            _nb_places_z = _nb_zeros(_nb_T, _nb_np.int64)
            for _nb_t in range(_nb_T):
                _nb_places_x[_nb_t] = _nb_t % _nb_Dx
                _nb_places_y[_nb_t] = _nb_t // _nb_Dx % _nb_Dy
                _nb_places_z[_nb_t] = _nb_t // (_nb_Dx * _nb_Dy)
            """,
            line,
        )
        for n in self.shared:
            own = "all" * grid
            whole = f"_nb_all_{n}" if grid else n
            out += statements(
                f"""
                _nb_wrote{own}_{n} = _nb_zeros({whole}.shape, _nb_np.int64)
                _nb_read{own}_{n} = _nb_zeros({whole}.shape, _nb_np.int64)
                _nb_filled_{n} = _nb_zeros(3, _nb_np.int64)
                _nb_filled_{n}[2] = 1
                """,
                line,
            )
        for n in () if grid else self.tracked:
            out += statements(f"_nb_private_{n} = TEST", line, TEST=self.sites.private(n))
        return out

    def start(self, line: int) -> list[ast.stmt]:
        """Return statements at the start of a block."""
        if self.normal.grid:
            return []
        text = f"""
            _nb_start = (_nb_block + 1) << (_nb_era_bits + {_ERA})
            _nb_end = (_nb_block + 2) << (_nb_era_bits + {_ERA})
            _nb_era = _nb_start
            _nb_since = _nb_start
            _nb_state[0] = 0
            """
        for n in self.shared:
            text += f"\n            _nb_filled_{n}[0] = 0\n            _nb_filled_{n}[2] = _nb_start"
        return statements(text, line)

    def end(self, line: int) -> list[ast.stmt]:
        """Return statements after the last block."""
        return []

    def barrier(self, emit: Any, kind: str = BARRIER) -> list[ast.stmt]:
        """Return the statements where a phase ends."""
        here = "_here" * self.normal.grid
        since = f"\n_nb_since{here} = _nb_era{here}" if kind == BARRIER else ""
        if kind != GRID_BARRIER:
            return statements(f"_nb_era{here} += {1 << _ERA}{since}", emit.line)
        # When block numbers no longer fit, only the threads of a block are compared.
        text = f"""
            _nb_grid_era += 1
            if (_nb_grid_era + 1) * _nb_last + 1 < 1 << (43 - _nb_era_bits):
                _nb_era_here = 0
                _nb_states[:, 2] = (_nb_grid_era * _nb_last + 1) << (_nb_era_bits + {_ERA})
            else:
                _nb_grid_era -= 1
                _nb_era_here += {1 << _ERA}
                _nb_states[:, 2] = {(1 << 63) - 1}
            _nb_since_here = _nb_era_here
            _nb_states[:, 0] = 0
            """
        return statements(text, emit.line)

    def enter(self, emit: Any) -> list[ast.stmt]:
        """Return the statements where a block of a grid that synchronizes begins its part of a phase."""
        text = f"""
            _nb_start = (_nb_grid_era * _nb_last + _nb_block + 1) << (_nb_era_bits + {_ERA})
            _nb_end = _nb_start + (1 << (_nb_era_bits + {_ERA}))
            _nb_era = _nb_start + _nb_era_here
            _nb_since = _nb_start + _nb_since_here
            _nb_state = _nb_states[_nb_block]
            """
        for n in self.shared:
            for k in ("wrote", "read"):
                text += f"\n            _nb_{k}_{n} = _nb_{k}all_{n}[_nb_block]"
        return statements(text, emit.line)

    def body(self, body: list[ast.stmt], emit: Any) -> list[ast.stmt]:
        """Return the statements of a phase with checks."""
        check = _Check(self, emit)
        out: list[ast.stmt] = []
        mentioned = named(body)
        again = self.facts.again
        for v, value in reversed(again.items()):
            if v in mentioned:
                mentioned |= named(value)
        for v, value in again.items():  # views that each phase makes again
            if v in mentioned and isinstance(self.facts.kinds.get(v), types.Array):
                out += check.shadows(v, value, emit.line)
        return [*out, *check.block(body)]

    def clean(self, body: list[ast.stmt], emit: Any) -> tuple[list[ast.stmt], ast.expr] | None:
        """Return statements and a condition under which a phase needs no checks; None if it always needs them."""
        return None if self.normal.grid else self.sites.clean(body, emit, self.tracked)

    def before(self, s: ast.stmt | ast.expr) -> list[ast.stmt]:
        """Return the statements before a thread's statement, or before the head of its branch or loop."""
        return []

    def number(self, array: str) -> int:
        if array not in self.arrays:
            self.arrays.append(array)
        return self.arrays.index(array)

    def site(self, node: ast.AST) -> int:
        """Return a number for the accesses of a node's line."""
        line = getattr(node, "nb_file", self.source.file), node.lineno  # type: ignore[attr-defined]
        if line not in self.lines:
            self.lines.append(line)
        return self.lines.index(line)


class _Check(Kinds, Rewriter):
    """Make the index expressions of one phase check themselves."""

    def __init__(self, checks: Checks, emit: Any):
        self.checks, self.emit = checks, emit
        Kinds.__init__(self, emit.kinds, checks.normal.space)
        self.shadowed = {*checks.tracked, *checks.shared}
        self.carried: set[str] = {*(emit.carried or ())}

    def simple(self, s: ast.stmt) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
            before = self.shadows(s.targets[0].id, s.value, s.lineno)
        return [*self.checks.before(s), *before, self.visit(s)]

    def ahead(self, head: ast.expr) -> list[ast.stmt]:
        return self.checks.before(head)

    def shadows(self, name: str, value: ast.expr, line: int) -> list[ast.stmt]:
        """Return the statements that make the stamps of a view."""
        root = array_of(value)
        kind = self.emit.kinds.get(name)
        base = self.checks.sites.bases.get(root, root)
        if root not in self.shadowed or not isinstance(kind, types.Array) or name in self.carried or not base:
            return []
        if name in self.checks.sites.mixed:
            return []
        self.shadowed.add(name)
        out: list[ast.stmt] = []
        for k in ("wrote", "read"):
            made = _Rooted(root, f"_nb_{k}_{root}").visit(expression("A", line, A=value))
            out.append(assignment(f"_nb_{k}_{name}", made, line))
        return out

    def visit_Expr(self, node: ast.Expr) -> Any:
        if called(node.value).startswith("_nb_atomic_"):
            node.value = self.atomic(node.value, ATOMIC)  # type: ignore[arg-type]
            return node
        return self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        node.value = self.visit(node.value)
        if isinstance(node.target, ast.Subscript):
            node.target = self.access(node.target, BOTH)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self.access(node, READ if isinstance(node.ctx, ast.Load) else WRITE)

    def visit_Call(self, node: ast.Call) -> Any:
        if called(node).startswith("_nb_atomic_"):
            return self.atomic(node, ACQUIRE)
        return self.generic_visit(node)

    def atomic(self, node: ast.Call, mode: int) -> Any:
        if "_exch_" in called(node):
            mode = EXCHANGE
        element = ast.copy_location(ast.Subscript(node.args[0], node.args[1], ast.Load()), node)
        element.nb_file = getattr(node, "nb_file", self.checks.source.file)  # type: ignore[attr-defined]
        node.args[:2] = [(made := self.access(element, mode)).value, made.slice]
        node.args[2:] = [self.visit(a) for a in node.args[2:]]
        return node

    def access(self, node: ast.Subscript, mode: int) -> Any:
        array, parts = indices(node)
        if is_view(node.value):
            return self.of_view(node, parts)
        kind = self.emit.kinds.get(array)
        plain = isinstance(kind, types.Array) and not any(isinstance(p, ast.Slice) for p in parts)
        if not plain or not 0 < len(parts) <= kind.ndim or not all(self.whole_number(p) for p in parts):
            return self.of_expression(node, mode)
        parts = [self.visit(p) for p in parts]
        node.value = ast.copy_location(ast.Name(array, ast.Load()), node)
        line, site = node.lineno, self.checks.site(node)
        index = ast.Tuple([expression("_nb_np.int64(I)", line, I=p) for p in parts], ast.Load())
        where = f"{array}.shape, INDEX, _nb_error, ({site}, {self.checks.number(array)}, _nb_t, _nb_block)"
        base = self.checks.sites.bases.get(array, array)
        if len(parts) == kind.ndim and array in self.shadowed:
            text = f"_nb_access({where}, _nb_wrote_{array}, _nb_read_{array}, {self.how(base, mode, site)})"
        else:
            text = f"_nb_inside({where})"
        if len(parts) == kind.ndim and array in self.checks.views:
            whole = self.checks.views[array]
            whole = self.checks.sites.bases.get(whole, whole)
            text = f"_nb_aligned({array}, {text}, {whole}, {self.offset(whole)}, {where.split('INDEX, ')[1]})"
        node.slice = expression(text, line, INDEX=ast.copy_location(index, node))
        return node

    def how(self, base: str, mode: int, site: int) -> str:
        """Return the last arguments of `access`, for an array that is a parameter or a shared array."""
        shared = base in self.checks.shared
        state = f"_nb_filled_{base}" if shared else "_nb_state"
        return f"{state}, ({mode}, {int(shared)}, _nb_era, _nb_since, _nb_start, _nb_end, {min(site, 255)})"

    def of_expression(self, node: ast.Subscript, mode: int) -> Any:
        """Check an element of an array that is an expression: `x.T[i, j]`, `x[4:][i]`, `pair.x[i]`, `x[indices]`."""
        array, parts, line = node.value, parts_of(node), node.lineno
        flat = isinstance(array, ast.Attribute) and array.attr == "flat"
        kind = self.kind(array.value if flat else array)  # type: ignore[attr-defined]
        if not isinstance(kind, types.Array):
            return self.generic_visit(node)
        if any(self.is_slice(p) for p in parts):
            return self.of_slices(node, kind, parts)
        if not all(self.axes(p) for p in parts):
            return self.generic_visit(node)
        count, ndim = sum(self.axes(p) or 0 for p in parts), 1 if flat else kind.ndim
        if not count <= ndim or (len(parts) > 1 and count > len(parts)):
            return self.generic_visit(node)
        name, site = ast.unparse(array), self.checks.site(node)
        root = array_of(array)
        fields = any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(array))
        where = f"_nb_error, ({site}, {self.checks.number(name)}, _nb_t, _nb_block)"
        index: ast.expr = parts[0]
        if len(parts) > 1 or not isinstance(self.kind(index), types.BaseTuple):
            parts = list(index.elts) if isinstance(index, ast.Tuple) else parts
            index = ast.Tuple([expression("_nb_np.int64(I)", line, I=self.visit(p)) for p in parts], ast.Load())
        given = {"A": self.visit(duplicate(array)), "INDEX": index}
        text = f"_nb_inside(A.shape, INDEX, {where})"
        if flat:
            given["A"] = given["A"].value
            text = f"_nb_inside((A.size,), INDEX, {where})[0]"
        elif count == ndim and root in self.shadowed and isinstance(self.kinds.get(root), types.Array) and not fields:
            for k in ("wrote", "read"):
                given[k.upper()] = _Rooted(root, f"_nb_{k}_{root}").visit(self.visit(duplicate(array)))
            base = self.checks.sites.bases.get(root, root)
            text = f"_nb_access(A.shape, INDEX, {where}, WROTE, READ, {self.how(base, mode, site)})"
        node.value = self.visit(array)
        node.slice = expression(text, line, **given)
        return node

    def is_slice(self, part: ast.expr) -> bool:
        """Return whether a part of an index is a slice or `...`."""
        dots = isinstance(part, ast.Constant) and part.value is ...
        return dots or (self.axes(part) == 0 and not (isinstance(part, ast.Tuple) and not part.elts))

    def of_slices(self, node: ast.Subscript, kind: types.Array, parts: list[ast.expr]) -> Any:
        """Check the integers in an index with slices: `x[:, i]`, `x[i, ...]`."""
        dots = [k for k, p in enumerate(parts) if isinstance(p, ast.Constant) and p.value is ...]
        array, line = node.value, node.lineno
        where = f"_nb_error, ({self.checks.site(node)}, {self.checks.number(ast.unparse(array))}, _nb_t, _nb_block)"
        made: list[ast.expr] = []
        for k, p in enumerate(parts):
            axis = k if not dots or k < dots[0] else kind.ndim - len(parts) + k
            if self.is_slice(p) or not self.whole_number(p) or not 0 <= axis < kind.ndim:
                made.append(self.visit(p))
                continue
            text = f"_nb_inside(({'1, ' * axis}A.shape[{axis}],), ({'0, ' * axis}_nb_np.int64(I),), {where})[{axis}]"
            made.append(expression(text, line, A=self.visit(duplicate(array)), I=self.visit(p)))
        node.value = self.visit(array)
        node.slice = ast.copy_location(ast.Tuple(made, ast.Load()), node) if len(made) > 1 else made[0]
        return node

    def of_view(self, node: ast.Subscript, parts: list[ast.expr]) -> Any:
        """Check an element of a view of another dtype, `x.view(dtype)[i]`."""
        func: Any = node.value.func  # type: ignore[attr-defined]
        if not isinstance(func.value, (ast.Name, ast.Subscript)):
            return self.generic_visit(node)
        array = array_of(func.value)
        whole = self.checks.sites.bases.get(array, array)
        kind, given = self.emit.kinds.get(array), self.emit.kinds.get(whole)
        sliced = isinstance(func.value, ast.Name) or all(isinstance(p, ast.Slice) for p in indices(func.value)[1])
        plain = sliced and isinstance(kind, types.Array) and isinstance(given, types.Array)
        if not plain or len(parts) != kind.ndim or not all(self.whole_number(p) for p in parts):
            return self.generic_visit(node)
        parts, line = [self.visit(p) for p in parts], node.lineno
        index = ast.Tuple([expression("_nb_np.int64(I)", line, I=p) for p in parts], ast.Load())
        where = f"_nb_error, ({self.checks.site(node)}, {self.checks.number(array)}, _nb_t, _nb_block)"
        text = f"_nb_aligned(VIEW, _nb_inside(VIEW.shape, INDEX, {where}), {whole}, {self.offset(whole)}, {where})"
        node.slice = expression(text, line, INDEX=index, VIEW=node.value)
        return node

    def offset(self, array: str) -> str:
        """Return the distance in bytes from an address that a GPU aligns to an array's start."""
        arrays = self.checks.parameter_arrays
        return f"_nb_error[{_OFFSETS + arrays.index(array)}]" if array in arrays else "0"

    def whole_number(self, node: ast.expr) -> bool:
        """Return whether an index is a number, not a tuple in a variable nor a record's field."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int)
        if isinstance(node, ast.Name):
            return not isinstance(self.emit.kinds.get(node.id), (types.BaseTuple, types.Array))
        return not isinstance(node, ast.Tuple)


class _Rooted(ast.NodeTransformer):
    """Replace the array that a view is made of by another one."""

    def __init__(self, root: str, name: str):
        self.root, self.name = root, name

    def visit_Name(self, node: ast.Name) -> Any:
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node.value = self.at(node.value)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        node.value = self.at(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        node.func = self.at(node.func)
        return node

    def at(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return ast.copy_location(ast.Name(self.name if node.id == self.root else node.id, ast.Load()), node)
        return self.visit(node)

    def visit(self, node: Any) -> Any:
        if isinstance(node, ast.Name):
            return self.at(node)
        return super().visit(node)


def explain(
    error: Any,
    arrays: list[str],
    lines: list[tuple[str, int]],
    source: Source,
    block: Any,
    grid: Any,
    cooperative: bool = False,
) -> dict[str, Any]:
    """Return the message and the attributes of a KernelError. `cooperative`: whether the grid synchronizes."""
    kind, line, name, t, b, count, other, stamp = (int(e) for e in error[:8])
    index = tuple(int(i) for i in error[9 : 9 + int(error[8])])
    element = str(index[0]) if len(index) == 1 else str(index)

    def place(k: int, dims: Any) -> tuple[int, int, int]:
        return k % dims[0], k // dims[0] % dims[1], k // (dims[0] * dims[1])

    file = source.file
    if kind not in (DIVERGENT, STOPPED):
        file, line = lines[line]
    where = f"{os.path.basename(file)}:{line}"
    at = place(b, grid)
    thread = f"thread {place(t, block)} of block {at}"
    array = arrays[name] if 0 <= name < len(arrays) else ""
    if kind in (OUTSIDE, MISALIGNED_ADDRESS):
        text = f"{where}: {explained(kind, array, other, index)}, in {thread}"
        return {"message": text, "file": file, "line": line, "block": at, "thread": place(t, block)}
    if kind == STOPPED:
        text = f"{where}: the kernel was stopped in this loop, in block {at}"
        return {"message": text, "file": file, "line": line, "block": at, "thread": None}
    if kind == DIVERGENT:
        text = (
            f"{where}: only {t} of {count} threads of block {at} reach this barrier: the branch or loop in line "
            f"{other} separates them"
        )
        return {"message": text, "file": file, "line": line, "block": at, "thread": None}
    if kind == OUT:
        text = f"{where}: index {element} is out of bounds of axis {other} of {array}, in {thread}"
    elif kind == UNINITIALIZED:
        text = f"{where}: {array}, shared memory, is read at element {element} before it is written, in {thread}"
    elif kind == MISALIGNED:
        text = (
            f"{where}: an access to {other} bytes at element {element} of {array}, in {thread}, starts at an address "
            f"that is not a multiple of {other}: a GPU raises an error there. Make the view begin at such a multiple"
        )
    else:
        subject = f"element {element} of {array}"
        if not array:  # of a kernel whose arguments hold addresses
            begin, nbytes, size = index
            subject = f"{nbytes} byte{'s' * (nbytes != 1)} from byte {begin:,} of an allocation of {size:,} bytes"
        text = f"{where}: a race on {subject}: {thread} {_VERBS[other & 7]} it, and "
        site = (stamp >> _SITE) & 255
        there = "elsewhere"
        if site < min(len(lines), 255):
            there = f"in line {lines[site][1]}" + ("" if lines[site][0] == file else f" of {lines[site][0]}")
        verb = "reads" if other & 8 else "changes" if stamp & _ATOMIC else "writes"
        blocks = math.prod(grid)
        writer = ((stamp >> (_ERA + _era_bits(blocks, cooperative))) - 1) % blocks
        first = place(stamp & _THREAD, block)
        if other & 16:
            text += f"a thread of another block {verb} it, too"
        elif writer != b:
            text += f"thread {first} of block {place(writer, grid)} {verb} it {there}; blocks run in any order"
        elif other & 8 and stamp & _MANY and first == place(t, block):
            text += f"another thread {verb} it {there}; there is no barrier between them"
        else:
            text += f"thread {first} {verb} it {there}; there is no barrier between them"
    return {"message": text, "file": file, "line": line, "block": at, "thread": place(t, block)}


#: How an access uses an element, in words; "changes" for others.
_VERBS = defaultdict(lambda: "changes", {READ: "reads", OBSERVE: "reads", WRITE: "writes"})


def explained(kind: int, name: str, how: int, index: tuple[int, ...]) -> str:
    """Return what is wrong with an access.

    Args:
        kind: OUTSIDE or MISALIGNED_ADDRESS.
        name: the shared or local array; "" for an allocation.
        how: whether the access reads or writes.
        index: the bytes from the start of the memory to the access, the access's bytes, the memory's, the alignment.
    """
    distance, nbytes, size, alignment = index
    text = f"an access {_VERBS[how]} {nbytes} bytes"
    memory = name or f"an allocation of {size:,} bytes"
    if kind == MISALIGNED_ADDRESS:
        return f"{text} at byte {distance:,} of {memory}, an address that is not a multiple of {alignment}"
    if not size:
        return f"{text} before all memory of the launch"
    return f"{text} at byte {distance:,} of {memory}" + (f", which has {size:,} bytes" if name else "")

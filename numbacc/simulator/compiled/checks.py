"""What the checked mode adds: index expressions that check themselves, and what they found.

Each element of an array that the kernel writes has two stamps, of who wrote it last and of who read it last. A stamp
holds an era, which grows at each barrier and with each block, the number of the access in the kernel, and the thread.
A phase in which nothing can go wrong runs without checks: see `sites`.
"""

from __future__ import annotations

import ast
import math
import os
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from .analysis import Facts
from .normalize import Normalize
from .sites import Sites, array_of, indices
from .source import Source
from .syntax import BARRIER, assignment, called, expression, named, statements

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
#: What an error is, in the first element of the array of errors.
OUT, RACE, UNINITIALIZED, DIVERGENT = 1, 2, 3, 4
#: The length of the array of errors: code, line, array, thread, block, count, other or axis, the other's stamp, number of
#: indices, indices.
ERRORS = 16
#: How an access uses an element; an atomic operation whose result is used can tell what other blocks have done.
READ, WRITE, BOTH, ATOMIC, EXCHANGE, ACQUIRE = 1, 2, 3, 4, 5, 6
# The bits of a stamp: thread, flag, flag, access, era.
_THREAD, _WARP, _MANY, _BLOCKS, _SITE, _ERA = (1 << 10) - 1, ((1 << 10) - 1) & ~31, 1 << 10, 1 << 11, 12, 20
_ATOMIC = _MANY


def _era_bits(blocks: int) -> int:
    """Return the number of bits that an era has for the barriers of a block."""
    return 43 - (blocks + 1).bit_length()


@njit(cache=True, **OPTIONS)
def _report(error, code, line, name, t, b, other, stamp):  # type: ignore[no-untyped-def]
    if error[0] == 0 or (error[0] == UNINITIALIZED and code != UNINITIALIZED):  # a race explains the other
        error[1], error[2], error[3], error[4], error[6], error[7] = line, name, t, b, other, stamp
        error[8] = 0
        error[0] = code
        return True
    return False


@intrinsic
def _null(typingctx: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant_null(signature.return_type)

    return index(index), codegen


@njit(cache=True, **OPTIONS)
def _wrong(shape, index, code, other, stamp, line, name, t, b, error):  # type: ignore[no-untyped-def]
    """Note an error, with the index."""
    if _report(error, code, line, name, t, b, other, stamp):
        error[8] = len(index)
        for d in range(len(index)):
            i = index[d]
            error[9 + d] = i + shape[d] if code != OUT and i < 0 else i


@njit(forceinline=True, cache=True, **OPTIONS)
def inside(shape, index, line, name, t, b, error):  # type: ignore[no-untyped-def]
    """Return the index, or zeros where it is out of bounds."""
    for d in range(len(index)):
        i, size = index[d], shape[d]
        if i >= size or i < -size:
            _wrong(shape, index, OUT, d, 0, line, name, t, b, error)
            if size == 0:
                raise IndexError("an empty array")
            return _null(index)
    return index


@njit(cache=True, **OPTIONS)
def _foreign(stamp, mode, state):  # type: ignore[no-untyped-def]
    """Whether an access of another block is a race: none is known to come after it, by an atomic operation."""
    if state[0] == 2 or (mode >= ATOMIC and stamp & _ATOMIC):
        return False
    return not (state[0] == 1 and stamp & _ATOMIC)


@njit(forceinline=True, cache=True, **OPTIONS)
def access(shape, index, wrote, read, state, mode, shared, era, since, start, end, site, line, name, t, b, error):  # type: ignore[no-untyped-def]
    """Check one access: bounds, then who else touched the element since the last barrier.

    Args:
        state: what the block did: atomic operations on global arrays (2: used a result); elements written, for a shared
            array.
        era: since the last barrier, `since`: of the block, `start`: of this block, `end`: of the next.
    """
    for d in range(len(index)):
        if index[d] >= shape[d] or index[d] < -shape[d]:
            _wrong(shape, index, OUT, d, 0, line, name, t, b, error)
            if shape[d] == 0:
                raise IndexError("an empty array")
            return _null(index)
    me = era | (site << _SITE) | t
    w = wrote[index]
    stamps = True
    if w >= since:
        other = w >= end or ((w ^ me) & _THREAD != 0 and (w >= era or (w ^ me) & _WARP != 0))
        if other and not (mode >= ATOMIC and w & _ATOMIC):
            _wrong(shape, index, RACE, mode, w, line, name, t, b, error)
    elif w < start:
        if shared:
            if mode != WRITE and mode != EXCHANGE:
                _wrong(shape, index, UNINITIALIZED, 0, 0, line, name, t, b, error)
            if mode != READ:
                state[0] += 1
        elif w != 0 and _foreign(w, mode, state):
            _wrong(shape, index, RACE, mode, w, line, name, t, b, error)
    if not shared and mode == READ and state[0] != 0:
        stamps = state[0] == 1 and w & _ATOMIC == 0  # what comes after an atomic operation is no race
    if mode != READ:
        r = read[index]
        if r != 0:
            if r >= since and r < end:
                if (r >= era and (r & _MANY or (r ^ me) & _THREAD)) or (r ^ me) & _WARP:
                    _wrong(shape, index, RACE, mode | 8, r, line, name, t, b, error)
            if not shared and (r & _BLOCKS or r < start or r >= end) and _foreign(0, mode, state):
                _wrong(shape, index, RACE, mode | (24 if r >= start and r < end else 8), r, line, name, t, b, error)
        wrote[index] = me | _ATOMIC if mode >= ATOMIC else me
    if (mode == READ or mode == BOTH) and stamps:
        r = read[index]
        flags = 0
        if r >= start and r < end:
            flags = r & _BLOCKS
            if r >= era and (r & _MANY or (r ^ me) & _THREAD):
                flags |= _MANY
        elif r != 0 and not shared:
            flags = _BLOCKS
        read[index] = me | flags
    if mode >= ATOMIC and not shared:
        state[0] = max(state[0], 2 if mode == ACQUIRE else 1)
    return index


@njit(cache=True, **OPTIONS)
def injective(coefficients, extents):  # type: ignore[no-untyped-def]
    """Whether a sum of coefficients times counters has another value for each choice of the counters."""
    reach, last = 0, 0
    for _ in range(len(extents)):
        best = 0
        size = 0
        for k in range(len(extents)):
            c = abs(coefficients[k])
            if extents[k] > 1:
                if c <= last and (c == 0 or last == 0):
                    return False
                if c > last and (best == 0 or c < best):
                    best, size = c, extents[k]
                elif c == best:
                    return False
        if best == 0:
            return True
        if best <= reach:
            return False
        reach = reach + best * (size - 1) if size < (1 << 30) else 1 << 62
        last = best
    return True


class Checks:
    """The checks of one kernel for given types of arguments.

    Attributes:
        arrays: names of arrays, by the number that an error has.
        tracked: the parameters that the kernel writes, which have stamps.
    """

    def __init__(self, source: Source, normal: Normalize, facts: Facts, body: list[ast.stmt], arrays: list[str]):
        self.source, self.normal, self.facts = source, normal, facts
        self.parameter_arrays = arrays
        self.arrays: list[str] = []
        self.lines: list[int] = []
        self.sites = Sites(normal, facts, body, arrays)
        self.tracked = [] if normal.grid else [a for a in arrays if a in self.sites.written]
        self.shared = [] if normal.grid else [*normal.shared]

    def space(self) -> dict[str, Any]:
        """Return the values of the names that the statements use."""
        return {"_nb_access": access, "_nb_inside": inside, "_nb_injective": injective}

    def parameters(self) -> list[str]:
        """Return the parameters that the compiled function takes in addition."""
        return ["_nb_era_bits", *(f"_nb_{k}_{p}" for p in self.parameter_arrays for k in ("wrote", "read"))]

    @staticmethod
    def kinds(arrays: list[Any]) -> list[types.Type]:
        """Return the types of `parameters`, given those of the kernel's arrays."""
        return [types.int64, *(types.Array(types.int64, a.ndim, "C") for a in arrays for _ in range(2))]

    @staticmethod
    def arguments(arrays: list[Any], blocks: int) -> list[Any]:
        """Return the arguments for `parameters`, given the kernel's arrays. Memory that is not touched costs nothing."""
        return [_era_bits(blocks), *(np.zeros(a.shape, np.int64) for a in arrays for _ in range(2))]

    def head(self, line: int) -> list[ast.stmt]:
        """Return statements at the start of the compiled function."""
        out = statements("_nb_state = _nb_np.zeros(1, _nb_np.int64)\n_nb_era = 0\n_nb_since = 0\n_nb_start = 0\n_nb_end = 0", line)
        for n in self.shared:
            out += statements(
                f"""
                _nb_wrote_{n} = _nb_np.zeros({n}.shape, _nb_np.int64)
                _nb_read_{n} = _nb_np.zeros({n}.shape, _nb_np.int64)
                _nb_filled_{n} = _nb_np.zeros(1, _nb_np.int64)
                """,
                line,
            )
        for n in self.tracked:
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
        return statements(text + "".join(f"\n            _nb_filled_{n}[0] = 0" for n in self.shared), line)

    def barrier(self, emit: Any, kind: str = BARRIER) -> list[ast.stmt]:
        """Return the statements where a phase ends."""
        since = "\n_nb_since = _nb_era" if kind == BARRIER else ""
        return statements(f"_nb_era += {1 << _ERA}{since}", emit.line)

    def body(self, body: list[ast.stmt], emit: Any) -> list[ast.stmt]:
        """Return the statements of a phase with checks."""
        check = _Check(self, emit)
        out: list[ast.stmt] = []
        mentioned = named(body)
        again = self.facts.again
        for v, value in reversed(again.items()):
            if v in mentioned:
                mentioned |= named(value)
        for v, value in again.items():  # views that are made again in each phase
            if v in mentioned and isinstance(self.facts.kinds.get(v), types.Array):
                out += check.shadows(v, value, emit.line)
        return [*out, *check.block(body)]

    def clean(self, body: list[ast.stmt], emit: Any) -> tuple[list[ast.stmt], ast.expr] | None:
        """Return statements and a condition: where it holds, a phase needs no checks; None where it never does."""
        return None if self.normal.grid else self.sites.clean(body, emit, self.tracked)

    def number(self, array: str) -> int:
        if array not in self.arrays:
            self.arrays.append(array)
        return self.arrays.index(array)

    def site(self, line: int) -> int:
        """Return a number for accesses of a line; the last number stands for all that are too many."""
        if line not in self.lines and len(self.lines) < 255:
            self.lines.append(line)
        return self.lines.index(line) if line in self.lines else 255


class _Check(ast.NodeTransformer):
    """Index expressions that check themselves, in the statements of one phase."""

    def __init__(self, checks: Checks, emit: Any):
        self.checks, self.emit = checks, emit
        self.shadowed = {*checks.tracked, *checks.shared}
        self.carried: set[str] = {*(emit.carried or ())}

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            for part in ("body", "orelse"):
                inner = getattr(s, part, None)
                if inner and isinstance(s, (ast.If, ast.For, ast.While)):
                    setattr(s, part, self.block(inner))
            if isinstance(s, (ast.If, ast.While)):
                s.test = self.visit(s.test)
                out.append(s)
            elif isinstance(s, ast.For):
                s.iter = self.visit(s.iter)
                out.append(s)
            else:
                before: list[ast.stmt] = []
                if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
                    before = self.shadows(s.targets[0].id, s.value, s.lineno)
                out += [*before, self.visit(s)]
        return out

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
        if isinstance(node.args[0], ast.Name):
            element = ast.copy_location(ast.Subscript(node.args[0], node.args[1], ast.Load()), node)
            index = self.access(element, mode).slice
            if isinstance(index, ast.Call):
                node.args[1] = index
        node.args[2:] = [self.visit(a) for a in node.args[2:]]
        return node

    def access(self, node: ast.Subscript, mode: int) -> Any:
        array, parts = indices(node)
        kind = self.emit.kinds.get(array)
        plain = isinstance(kind, types.Array) and not any(isinstance(p, ast.Slice) for p in parts)
        if not plain or not 0 < len(parts) <= kind.ndim or not all(self.whole_number(p) for p in parts):
            return self.generic_visit(node)
        parts = [self.visit(p) for p in parts]
        node.value = ast.copy_location(ast.Name(array, ast.Load()), node)
        line = node.lineno
        index = ast.Tuple([expression("_nb_np.int64(I)", line, I=p) for p in parts], ast.Load())
        tail = f"{line}, {self.checks.number(array)}, _nb_t, _nb_block, _nb_error)"
        base = self.checks.sites.bases.get(array, array)
        if len(parts) == kind.ndim and array in self.shadowed:
            shared = base in self.checks.shared
            state = f"_nb_filled_{base}" if shared else "_nb_state"
            text = (
                f"_nb_access({array}.shape, INDEX, _nb_wrote_{array}, _nb_read_{array}, {state}, {mode}, {shared}, "
                f"_nb_era, _nb_since, _nb_start, _nb_end, {self.checks.site(line)}, {tail}"
            )
        else:
            text = f"_nb_inside({array}.shape, INDEX, {tail}"
        node.slice = expression(text, line, INDEX=ast.copy_location(index, node))
        return node

    def whole_number(self, node: ast.expr) -> bool:
        """Whether an index is a number: not a tuple in a variable, nor a record's field."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int)
        if isinstance(node, ast.Name):
            return not isinstance(self.emit.kinds.get(node.id), (types.BaseTuple, types.Array))
        return not isinstance(node, ast.Tuple)


class _Rooted(ast.NodeTransformer):
    """Put another array in the place of the one that a view is made of."""

    def __init__(self, root: str, name: str):
        self.root, self.name = root, name

    def visit_Name(self, node: ast.Name) -> Any:
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node.value = self.at(node.value)
        return node

    visit_Attribute = visit_Subscript

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
    error: Any, arrays: list[str], lines: list[int], source: Source, block: Any, grid: Any
) -> dict[str, Any]:
    """Return the message and the attributes of a KernelError."""
    kind, line, name, t, b, count, other, stamp = (int(e) for e in error[:8])
    index = tuple(int(i) for i in error[9 : 9 + int(error[8])])
    element = str(index[0]) if len(index) == 1 else str(index)

    def place(k: int, dims: Any) -> tuple[int, int, int]:
        return k % dims[0], k // dims[0] % dims[1], k // (dims[0] * dims[1])

    file = os.path.basename(source.file)
    where = f"{file}:{line}"
    at = place(b, grid)
    thread = f"thread {place(t, block)} of block {at}"
    array = arrays[name] if name < len(arrays) else "?"
    if kind == DIVERGENT:
        text = (
            f"{where}: only {t} of {count} threads of block {at} reach this barrier: the branch or loop in line "
            f"{other} parts them"
        )
        return {"message": text, "line": line, "block": at, "thread": None}
    if kind == OUT:
        text = f"{where}: index {element} is out of bounds of axis {other} of {array}, in {thread}"
    elif kind == UNINITIALIZED:
        text = f"{where}: {array}, shared memory, is read at element {element} before it is written, in {thread}"
    else:
        text = f"{where}: a race on element {element} of {array}: {thread} {_VERBS[other & 7]} it, and "
        site = (stamp >> _SITE) & 255
        there = f"in line {lines[site]}" if site < len(lines) else "elsewhere"
        verb = "reads" if other & 8 else "changes" if stamp & _ATOMIC else "writes"
        writer = (stamp >> (_ERA + _era_bits(math.prod(grid)))) - 1
        first = place(stamp & _THREAD, block)
        if other & 16:
            text += f"a thread of another block {verb} it, too"
        elif writer != b:
            text += f"thread {first} of block {place(writer, grid)} {verb} it {there}; blocks run in any order"
        elif other & 8 and stamp & _MANY and first == place(t, block):
            text += f"another thread {verb} it {there}; no barrier is between them"
        else:
            text += f"thread {first} {verb} it {there}; no barrier is between them"
    return {"message": text, "line": line, "block": at, "thread": place(t, block)}


_VERBS = {READ: "reads", WRITE: "writes", BOTH: "changes", ATOMIC: "changes", EXCHANGE: "changes", ACQUIRE: "changes"}

"""What the checked mode adds: index expressions that check themselves, and what they found."""

from __future__ import annotations

import ast
import os
from typing import Any

from numba import njit, types
from numba.extending import intrinsic, register_jitable

from .source import Source
from .syntax import assignment as assignment
from .syntax import called, expression, statements

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
OUT, RACE, UNINITIALIZED, DIVERGENT = 1, 2, 3, 4


@njit(cache=True, **OPTIONS)
def _report(error, code, line, name, t, b, index, other):  # type: ignore[no-untyped-def]
    if error[0] == 0 or (error[0] == UNINITIALIZED and code != UNINITIALIZED):  # a race explains the other
        error[0], error[1], error[2], error[3], error[4], error[5], error[6] = code, line, name, t, b, index, other


@njit(forceinline=True, cache=True, **OPTIONS)
def _flat(array, index, line, name, t, b, error):  # type: ignore[no-untyped-def]
    flat, inside = 0, True
    for d in range(len(index)):
        i, size = index[d], array.shape[d]
        if i < 0:
            i += size
        if i < 0 or i >= size:
            inside = False
            _report(error, OUT, line, name, t, b, index[d], d)
        flat = flat * size + i
    return flat if inside else -1


@njit(forceinline=True, cache=True, **OPTIONS)
def inside(array, index, line, name, t, b, error):  # type: ignore[no-untyped-def]
    """Return the index, or zeros where it is out of bounds."""
    if _flat(array, index, line, name, t, b, error) >= 0:
        return index
    if array.size == 0:
        raise IndexError("an empty array")
    return _zeros(index)


@register_jitable  # type: ignore[untyped-decorator]
def _zeros(index):  # type: ignore[no-untyped-def]
    return _null(index)


@intrinsic
def _null(typingctx: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant_null(signature.return_type)

    return index(index), codegen


@njit(forceinline=True, cache=True, **OPTIONS)
def access(array, index, wrote, read, reads, writes, shared, start, epoch, line, name, t, b, error):  # type: ignore[no-untyped-def]
    """Check one access: bounds, then who else touched the element since the last barrier.

    A stamp is epoch << 24 | thread << 1 | whether other threads read it in the same epoch, too. Epochs grow from phase
    to phase and from block to block; `start` is the first one of this block.
    """
    flat = _flat(array, index, line, name, t, b, error)
    if flat < 0:
        if array.size == 0:
            raise IndexError("an empty array")
        return _zeros(index)
    w, r = wrote[flat], read[flat]
    we, re, wt, rt = w >> 24, r >> 24, (w >> 1) & 0x7FFFFF, (r >> 1) & 0x7FFFFF
    if reads:
        if shared and we < start and not writes:
            _report(error, UNINITIALIZED, line, name, t, b, flat, 0)
        if w != 0 and ((we == epoch and wt != t) or (not shared and we < start)):
            _report(error, RACE, line, name, t, b, flat, wt if we == epoch else -1)
        many = 1 if re == epoch and (rt != t or r & 1) else 0
        read[flat] = (epoch << 24) | (t << 1) | many
    if writes:
        if w != 0 and ((we == epoch and wt != t) or (not shared and we < start)):
            _report(error, RACE, line, name, t, b, flat, wt if we == epoch else -1)
        if r != 0 and ((re == epoch and (rt != t or r & 1)) or (not shared and re < start)):
            _report(error, RACE, line, name, t, b, flat, rt if re == epoch else -1)
        wrote[flat] = (epoch << 24) | (t << 1)
    return index


class Checks:
    """The checks of one kernel for given types of arguments.

    Attributes:
        arrays: names of arrays, by the number that an error has.
    """

    def __init__(self, source: Source):
        self.source = source
        self.arrays: list[str] = []
        self.tracked: list[str] = []

    def space(self) -> dict[str, Any]:
        """Return the values of the names that the statements use."""
        return {"_nb_access": access, "_nb_inside": inside}

    def parameters(self, arrays: list[str]) -> list[str]:
        """Return the parameters that the compiled function takes for these array parameters of the kernel."""
        self.tracked = arrays
        return [f"_nb_{k}_{p}" for p in arrays for k in ("wrote", "read")]

    @staticmethod
    def arguments(arrays: list[Any]) -> list[Any]:
        """Return the arguments for `parameters`."""
        import numpy as np

        return [np.zeros(a.size, np.int64) for a in arrays for _ in range(2)]

    def head(self, shared: Any, line: int) -> list[ast.stmt]:
        """Return statements at the start of the compiled function."""
        out = statements("_nb_epoch = 0", line)
        for n in shared:
            for k in ("wrote", "read"):
                out += statements(f"_nb_{k}_{n} = _nb_np.zeros({n}.size, _nb_np.int64)", line)
        return out

    def start(self, line: int) -> list[ast.stmt]:
        """Return statements at the start of a block."""
        return statements("_nb_epoch += 1\n_nb_start = _nb_epoch", line)

    def barrier(self, emit: Any) -> list[ast.stmt]:
        """Return the statements where a phase ends."""
        return statements("_nb_epoch += 1", emit.line)

    def body(self, body: list[ast.stmt], emit: Any) -> list[ast.stmt]:
        """Return the statements of a phase with checks."""
        check = _Check(self, emit)
        return [check.visit(s) for s in body]

    def number(self, array: str) -> int:
        if array not in self.arrays:
            self.arrays.append(array)
        return self.arrays.index(array)


class _Check(ast.NodeTransformer):
    def __init__(self, checks: Checks, emit: Any):
        self.checks, self.emit = checks, emit

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        node.value = self.visit(node.value)
        if isinstance(node.target, ast.Subscript):
            node.target = self.access(node.target, True, True)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self.access(node, isinstance(node.ctx, ast.Load), isinstance(node.ctx, ast.Store))

    def visit_Call(self, node: ast.Call) -> Any:
        if called(node).startswith("_nb_atomic_") and isinstance(node.args[0], ast.Name):
            element = ast.copy_location(ast.Subscript(node.args[0], node.args[1], ast.Load()), node)
            node.args[1] = self.access(element, False, False).slice
            node.args[2:] = [self.visit(a) for a in node.args[2:]]
            return node
        return self.generic_visit(node)

    def access(self, node: ast.Subscript, reads: bool, writes: bool) -> Any:
        kind = self.emit.kinds.get(node.value.id) if isinstance(node.value, ast.Name) else None
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [self.visit(p) for p in parts]
        if not isinstance(kind, types.Array) or len(parts) != kind.ndim or any(isinstance(p, ast.Slice) for p in parts):
            return self.generic_visit(node)
        assert isinstance(node.value, ast.Name)
        array, line, shared = node.value.id, node.lineno, node.value.id in self.emit.normal.shared
        index = ast.Tuple([expression("_nb_np.int64(I)", line, I=p) for p in parts], ast.Load())
        tail = f"{line}, {self.checks.number(array)}, _nb_t, _nb_block, _nb_error)"
        if (shared or array in self.checks.tracked) and (reads or writes):
            text = (
                f"_nb_access({array}, INDEX, _nb_wrote_{array}, _nb_read_{array}, {reads}, {writes}, {shared}, "
                f"_nb_start, _nb_epoch, {tail}"
            )
        else:
            text = f"_nb_inside({array}, INDEX, {tail}"
        node.slice = expression(text, line, INDEX=ast.copy_location(index, node))
        return node


def explain(error: Any, arrays: list[str], source: Source, block: Any, grid: Any) -> dict[str, Any]:
    """Return the message and the attributes of a KernelError."""
    kind, line, name, t, b, index, other = (int(e) for e in error[:7])

    def place(k: int, dims: Any) -> tuple[int, int, int]:
        return k % dims[0], k // dims[0] % dims[1], k // (dims[0] * dims[1])

    where = f"{os.path.basename(source.file)}:{line}"
    at = place(b, grid)
    thread = f"thread {place(t, block)} of block {at}"
    array = arrays[name] if name < len(arrays) else "?"
    if kind == DIVERGENT:
        text = (
            f"{where}: only {t} of {index} threads of block {at} reach this barrier: the branch or loop in line "
            f"{other} parts them"
        )
        return {"message": text, "line": line, "block": at, "thread": None}
    if kind == OUT:
        text = f"{where}: index {index} is out of bounds of axis {other} of {array}, in {thread}"
    elif kind == UNINITIALIZED:
        text = f"{where}: {array}, shared memory, is read at element {index} before it is written, in {thread}"
    else:
        who = f"thread {place(other, block)}" if other >= 0 else "a thread of another block"
        text = f"{where}: a race on element {index} of {array} between {thread} and {who}: no barrier between them"
    return {"message": text, "line": line, "block": at, "thread": place(t, block)}

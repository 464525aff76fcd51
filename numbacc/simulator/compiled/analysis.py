"""Find which of a kernel's variables differ between threads: step 3 of the compiled simulator.

A variable is uniform (one value for the block), recomputed in each phase (`i = cuda.grid(1)`), or stored per thread.
"""

from __future__ import annotations

import ast
import builtins
import math
from typing import Any

from numba import types

from .normalize import BLOCK_VOTES, Normalize
from .syntax import BLOCK, EXCHANGE, SHAPE, THREAD, called, named, stored, walk

#: Builtin functions that read no memory.
_PURE = {"range", "len", "min", "max", "abs", "int", "float", "bool", "round", "divmod", "pow", "complex", "_nb_number"}


class Facts:
    """Facts about the variables of a kernel.

    Attributes:
        kinds: the type of each variable.
        assigned: the variables.
        divergent: the variables that may differ between the threads of a block.
        again: variable -> expression, for variables that are cheap to recompute at the start of every phase.
    """

    def __init__(self, normal: Normalize, body: list[ast.stmt], kinds: dict[str, types.Type]):
        self.normal, self.kinds = normal, kinds
        self.divergent: set[str] = set()
        self.again: dict[str, ast.expr] = {}
        self.assigned = stored(body)
        self.threads = {*THREAD, *(BLOCK if normal.grid else ()), *normal.local}
        if normal.grid:
            self.threads |= {*normal.shared}
        self._recompute(body)
        size = -1
        while size != len(self.divergent):
            size = len(self.divergent)
            self._mark(body, False)

    # ------------------------------------------------------------ expressions

    def pure(self, node: Any) -> bool:
        """Return whether an expression reads no memory, and depends on nothing but its names."""
        return all(self._pure_node(n) for n in walk(node))

    def _pure_node(self, n: ast.AST) -> bool:
        if isinstance(n, ast.Subscript):
            of_shape = isinstance(n.value, ast.Attribute) and n.value.attr in ("shape", "strides")
            return of_shape or (isinstance(n.value, ast.Name) and self._tuple(n.value.id))
        if isinstance(n, ast.Attribute):
            # A record's field is memory.
            return n.attr in ("shape", "size", "ndim", "strides", "real", "imag", "itemsize") or self._of_module(n)
        if isinstance(n, (ast.List, ast.Set, ast.Dict)) or called(n) in ("list", "set", "dict"):
            return False  # threads must not share it
        if not isinstance(n, ast.Call):
            return True
        name = called(n)
        value = self.normal.space.get(name, getattr(builtins, name, None))
        if name in self.normal.pure or isinstance(value, types.Type):
            return True
        if name in _PURE or (isinstance(value, type) and value.__module__ in ("builtins", "numpy")):
            return True
        if getattr(value, "__module__", "") == "math":
            return True
        return self._of_module(n.func)

    def _of_module(self, node: ast.AST) -> bool:
        """Return whether an expression is `math.x` or NumPy's `np.x`."""
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            return False
        owner = self.normal.space.get(node.value.id)
        return owner is math or getattr(owner, "__name__", "") in ("numpy", "numba", "numba.types")

    def _tuple(self, name: str) -> bool:
        return isinstance(self.kinds.get(name), types.BaseTuple)

    def _array(self, name: str) -> bool:
        return isinstance(self.kinds.get(name), types.Array)

    def view(self, node: Any) -> bool:
        """Return whether an expression is a view of an array, whose indices read no memory."""
        if isinstance(node, ast.Name):
            return self._array(node.id)
        return (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and self._array(node.value.id)
            and self._pure_index(node.slice)
        )

    def _pure_index(self, node: ast.expr) -> bool:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return all(
            all(self.pure(e) for e in (p.lower, p.upper, p.step) if e is not None)
            if isinstance(p, ast.Slice)
            else self.pure(p)
            for p in parts
        )

    def uniform(self, node: Any) -> bool:
        """Return whether an expression is certain to have one value in all threads of a block."""
        return self.pure(node) and not named(node) & (self.threads | self.divergent)

    # ------------------------------------------------------------ variables

    def _recompute(self, body: list[ast.stmt]) -> None:
        counts: dict[str, int] = {}
        for n in walk(body):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                counts[n.id] = counts.get(n.id, 0) + 1
        for s in body:
            if not (isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)):
                continue
            name = s.targets[0].id
            if counts[name] != 1 or named(s.value) & (self.assigned - {*self.again}):
                continue
            if self.view(s.value) if self._array(name) else self.pure(s.value):
                self.again[name] = s.value

    def _mark(self, body: list[ast.stmt], diverges: bool) -> None:
        for s in body:
            if isinstance(s, ast.If):
                self._mark([*s.body, *s.orelse], diverges or not self.uniform(s.test))
            elif isinstance(s, (ast.For, ast.While)):
                condition = s.iter if isinstance(s, ast.For) else s.test
                inner = diverges or not self.uniform(condition) or self.torn(s)
                if isinstance(s, ast.For) and inner:
                    self.divergent |= stored(s.target)
                self._mark([*s.body, *s.orelse], inner)
            elif isinstance(s, (ast.Assign, ast.AugAssign)) and (diverges or not self._same(s)):
                self.divergent |= stored(s) & self.assigned

    def _same(self, s: ast.Assign | ast.AugAssign) -> bool:
        """Return whether an assignment gives all threads of a block one value."""
        if isinstance(s, ast.Assign) and called(s.value) == EXCHANGE:
            kind = s.value.args[0].value  # type: ignore[attr-defined]
            return kind in BLOCK_VOTES and not self.normal.grid
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and self._array(s.targets[0].id):
            return self.view(s.value) and not named(s.value) & (self.threads | self.divergent)
        if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            return self.uniform(s.value) and s.target.id not in self.divergent
        return self.uniform(s.value)

    def torn(self, loop: ast.For | ast.While) -> bool:
        """Return whether threads may leave a loop, or go on to its next iteration, at different times."""

        def parts(body: list[ast.stmt], diverges: bool) -> bool:
            for s in body:
                if isinstance(s, (ast.Break, ast.Continue)) and diverges:
                    return True
                if isinstance(s, ast.If) and parts([*s.body, *s.orelse], diverges or not self.uniform(s.test)):
                    return True
            return False

        return parts(loop.body, False)


def factor(node: ast.expr, facts: Facts) -> bool:
    """Return whether an expression is a product of sizes of blocks, of the grid, and of constants."""
    while isinstance(node, ast.Name) and node.id in facts.again:
        node = facts.again[node.id]
    good = all(
        isinstance(n, (ast.BinOp, ast.Mult, ast.Load))
        or (isinstance(n, ast.Name) and n.id in SHAPE)
        or (isinstance(n, ast.Constant) and isinstance(n.value, int) and n.value > 0)
        for n in ast.walk(node)
    )
    return good and bool(named(node))

"""Find the types of expressions that are arrays, records or tuples, without Numba's inference."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import from_dtype

__all__ = ["Kinds", "parts_of"]


def parts_of(node: ast.Subscript) -> list[ast.expr]:
    """Return the indices of `a[i, j]`."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) and node.slice.elts else [node.slice]


class Kinds:
    """The types of a function's variables, and of expressions that consist of these.

    Args:
        kinds: the type of each variable.
        space: the values of global names.
    """

    def __init__(self, kinds: Mapping[str, Any], space: Mapping[str, Any]):
        self.kinds, self.space = kinds, space

    def kind(self, node: ast.expr) -> Any:
        """Return the type of an array, a record or a tuple; None for other expressions."""
        if isinstance(node, ast.Name):
            return self.kinds.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.kind(node.value)
            if isinstance(owner, types.Array):
                if node.attr == "T":
                    return owner.copy(layout="A")
                if node.attr in ("real", "imag") and isinstance(owner.dtype, types.Complex):
                    return owner.copy(dtype=owner.dtype.underlying_float, layout="A")
                owner = owner.dtype
                if isinstance(owner, types.Record) and node.attr in owner.fields:
                    inner = owner.typeof(node.attr)
                    return types.Array(inner, self.kind(node.value).ndim, "A", aligned=owner.aligned)
                return None
            if isinstance(owner, types.BaseNamedTuple) and node.attr in owner.fields:
                return owner[owner.fields.index(node.attr)]
            return self.of_field(owner, node.attr)
        if isinstance(node, ast.Subscript):
            owner, parts = self.kind(node.value), parts_of(node)
            if isinstance(owner, types.Record) and isinstance(parts[0], ast.Constant):
                return self.of_field(owner, parts[0].value)
            if isinstance(owner, types.Array) and isinstance(parts[0], ast.Constant):
                inner = self.of_field(owner.dtype, parts[0].value)
                if inner is not None:
                    return types.Array(inner, owner.ndim, "A", aligned=owner.aligned)
            if isinstance(owner, types.BaseTuple):
                if isinstance(owner, types.UniTuple):
                    return owner.dtype
                at = parts[0].value if isinstance(parts[0], ast.Constant) else None
                return owner[at] if isinstance(at, int) else None
            return self.of_index(owner, parts)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = self.kind(node.func.value)
            return self.of_method(owner, node) if isinstance(owner, types.Array) else None
        return None

    @staticmethod
    def of_field(owner: Any, name: Any) -> Any:
        if not isinstance(owner, types.Record) or name not in owner.fields:
            return None
        inner = owner.typeof(name)
        if isinstance(inner, types.NestedArray):
            return types.Array(inner.dtype, inner.ndim, "C", aligned=owner.aligned)
        return inner

    def of_index(self, owner: Any, parts: list[ast.expr]) -> Any:
        if not isinstance(owner, types.Array):
            return None
        counts = [self.axes(p) for p in parts]
        if None in counts:
            return None
        left = owner.ndim - sum(c for c in counts if c is not None)
        if left > 0:
            return owner.copy(ndim=left, layout="A")
        inner = owner.dtype
        if isinstance(inner, types.NestedArray):
            return types.Array(inner.dtype, inner.ndim, "C")
        return inner

    def axes(self, part: ast.expr) -> int | None:
        """Return how many axes an index removes; None if kernels do not support the index."""
        if isinstance(part, ast.Slice):
            return 0
        if isinstance(part, ast.Tuple):
            return len(part.elts)
        if isinstance(part, ast.Constant):
            return 1 if isinstance(part.value, int) else None
        kind = self.kind(part) if isinstance(part, ast.Name) else None
        if isinstance(kind, types.BaseTuple):
            return len(kind)
        if isinstance(kind, types.SliceType):
            return 0
        return None if isinstance(kind, types.Array) else 1

    def of_method(self, owner: Any, node: ast.Call) -> Any:
        name = node.func.attr  # type: ignore[attr-defined]
        if name == "transpose":
            return owner.copy(layout="A")
        if name == "ravel":
            return owner.copy(ndim=1, layout="C")
        if name == "reshape" and node.args:
            first = node.args[0]
            kind = self.kind(first) if isinstance(first, ast.Name) else None
            given = len(first.elts) if isinstance(first, ast.Tuple) else len(node.args)
            return owner.copy(ndim=len(kind) if isinstance(kind, types.BaseTuple) else given, layout="A")
        if name == "view" and len(node.args) == 1:
            try:
                value = eval(ast.unparse(node.args[0]), dict(self.space))
                dtype = value if isinstance(value, types.Type) else from_dtype(np.dtype(value))
            except Exception:  # Numba raises the error
                return None
            return owner.copy(dtype=dtype)
        return None

"""Keep variables between phases, in scalars of the block or in per-thread arrays.

A variable is stored as scalars: a tuple as its elements, an array as its address, shape and strides.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing import npydecl
from numba.extending import intrinsic

from .half import as_dtype
from .source import Source
from .syntax import assignment, expression, statements

#: Tuples of more elements are sums of tuples.
_LONGEST = 16


@intrinsic
def address(typingctx: Any, value: Any) -> Any:
    """Return the address of an array's first element, or of a record."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (kind,) = signature.args
        pointer = args[0]
        if isinstance(kind, types.Array):
            pointer = context.make_array(kind)(context, builder, args[0]).data
        return builder.ptrtoint(pointer, context.get_value_type(types.intp))

    return types.intp(value), codegen


def _allocator(fill: bool) -> Any:
    """Return the function that makes an array of a shape and a dtype. It compiles faster than NumPy's.

    Args:
        fill: whether the array is full of zeros.
    """

    @intrinsic
    def allocate(typingctx: Any, shape: Any, dtype: Any) -> Any:
        ndim = len(shape) if isinstance(shape, types.BaseTuple) else 1
        made = types.Array(npydecl.parse_dtype(dtype), ndim, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from numba.np import arrayobj  # slow to import

            several = isinstance(signature.args[0], types.BaseTuple)
            given = cgutils.unpack_tuple(builder, args[0]) if several else [args[0]]
            kinds = signature.args[0].types if several else [signature.args[0]]
            sizes = [context.cast(builder, n, k, types.intp) for n, k in zip(given, kinds, strict=True)]
            array = arrayobj._empty_nd_impl(context, builder, made, sizes)
            if fill:
                cgutils.memset(builder, array.data, builder.mul(array.itemsize, array.nitems), 0)
            return array._getvalue()

        return made(shape, dtype), codegen

    return allocate


#: `empty(shape, dtype)` and `zeros(shape, dtype)` in compiled code.
empty, zeros = _allocator(False), _allocator(True)


@functools.cache
def rebuilder(kind: types.Type) -> Any:
    """Return a function that makes an array of this type from (address, shape, strides), or a record."""

    @intrinsic
    def rebuild(typingctx: Any, parts: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from numba.np import arrayobj  # slow to import

            numbers = cgutils.unpack_tuple(builder, args[0])
            if isinstance(kind, types.Record):
                return builder.inttoptr(numbers[0], context.get_value_type(kind))
            made = context.make_array(kind)(context, builder)
            n = kind.ndim
            data = builder.inttoptr(numbers[0], made.data.type)
            size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
            arrayobj.populate_array(
                made, data=data, shape=numbers[1 : 1 + n], strides=numbers[1 + n :], itemsize=size, meminfo=None
            )
            return made._getvalue()

        return kind(parts), codegen

    return rebuild


@dataclass(frozen=True)
class Carried:
    """A variable that lives across phases.

    Attributes:
        uniform: whether one value serves the whole block.
        slot: the index of a thread in per-thread arrays.
    """

    name: str
    kind: types.Type
    uniform: bool
    source: Source
    slot: str

    def leaves(self) -> list[tuple[str, Any]]:
        """Return the scalars that a variable consists of: how to read each, and its dtype."""
        return [*self._leaves(self.name, self.kind)]

    def _leaves(self, text: str, kind: types.Type) -> Iterator[tuple[str, Any]]:
        if isinstance(kind, types.BaseTuple):
            for k, inner in enumerate(kind):
                yield from self._leaves(f"{text}[{k}]", inner)
        elif isinstance(kind, (types.Array, types.Record)):
            yield f"_nb_address({text})", np.dtype(np.int64)
            for part in ("shape", "strides"):
                for axis in range(getattr(kind, "ndim", 0)):
                    yield f"{text}.{part}[{axis}]", np.dtype(np.int64)
        elif not isinstance(kind, types.NoneType):
            try:
                yield text, as_dtype(kind)
            except NotImplementedError:
                raise self.source.unsupported(
                    self.source.line, f"{self.name}, which has the type {kind} and lives across a barrier,"
                ) from None

    def _whole(self, kind: types.Type, parts: Iterator[str]) -> str:
        """Return the expression that rebuilds the variable from its scalars."""
        if isinstance(kind, types.BaseTuple):
            inner = [self._whole(each, parts) for each in kind]
            if isinstance(kind, types.BaseNamedTuple):
                return f"{self.rebuild_name(kind)}({', '.join(inner)})"
            # Python makes longer ones from lists, which Numba supports once for each variable.
            some = [inner[k : k + _LONGEST] for k in range(0, len(inner), _LONGEST)]
            return " + ".join(f"({', '.join(each)},)" for each in some) or "()"
        if isinstance(kind, (types.Array, types.Record)):
            numbers = [next(parts) for _ in range(1 + 2 * getattr(kind, "ndim", 0))]
            return f"{self.rebuild_name(kind)}(({', '.join(numbers)},))"
        return "None" if isinstance(kind, types.NoneType) else next(parts)

    @staticmethod
    def rebuild_name(kind: types.Type) -> str:
        """Return the name of the function that makes values of a type."""
        return f"_nb_rebuild_{hashlib.sha256(str(kind).encode()).hexdigest()[:12]}"

    def helpers(self) -> dict[str, Any]:
        """Return the functions that `load` and `store` call, by name."""
        found: dict[str, Any] = {"_nb_address": address}

        def look(kind: types.Type) -> None:
            for inner in kind if isinstance(kind, types.BaseTuple) else ():
                look(inner)
            if isinstance(kind, types.BaseNamedTuple):
                found[self.rebuild_name(kind)] = kind.instance_class
            if isinstance(kind, (types.Array, types.Record)):
                found[self.rebuild_name(kind)] = rebuilder(kind)

        look(self.kind)
        return found

    def names(self) -> list[str]:
        """Return the names of the scalars or arrays that hold the variable."""
        if self.uniform:
            several = not self.plain
            return [f"_nb_u_{self.name}" + (f"_{k}" if several else "") for k in range(len(self.leaves()))]
        return [f"_nb_b_{self.name}_{k}" for k in range(len(self.leaves()))]

    @property
    def plain(self) -> bool:
        """Whether the variable is one scalar."""
        return not isinstance(self.kind, (types.BaseTuple, types.Array, types.Record))

    def head(self, line: int, space: dict[str, Any]) -> list[ast.stmt]:
        """Return the statements that make the scalars or arrays."""
        out = []
        space.update(self.helpers())
        for name, (_, dtype) in zip(self.names(), self.leaves(), strict=True):
            space[f"_nb_dtype{name}"] = dtype
            if self.uniform:
                out += statements(f"{name} = _nb_zeros(1, _nb_dtype{name})[0]", line)
            else:
                out += statements(f"{name} = _nb_zeros(_nb_slots, _nb_dtype{name})", line)
        return out

    def whole(self, line: int = 1) -> Any:
        """Return the expression that rebuilds the variable from its scalars."""
        parts = (n if self.uniform else f"{n}[{self.slot}]" for n in self.names())
        return expression(self._whole(self.kind, parts), line)

    def load(self, line: int) -> list[ast.stmt]:
        """Return the statements for the start of a phase."""
        return [assignment(self.name, self.whole(line), line)]

    def before(self, line: int) -> list[ast.stmt]:
        """Return the statements to run before a phase that assigns the variable."""
        return statements("\n".join(f"_nb_n{n} = {n}" for n in self.names()), line) if self.uniform else []

    def store(self, line: int) -> list[ast.stmt]:
        """Return the statements for the end of such a phase."""
        out = []
        for name, (text, _) in zip(self.names(), self.leaves(), strict=True):
            target = f"_nb_n{name}" if self.uniform else f"{name}[{self.slot}]"
            out += statements(f"{target} = {text}", line)
        return out

    def after(self, line: int) -> list[ast.stmt]:
        """Return the statements to run after such a phase."""
        return statements("\n".join(f"{n} = _nb_n{n}" for n in self.names()), line) if self.uniform else []

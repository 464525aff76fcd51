"""The traced mode: checked mode that counts accesses instead of stopping at races.

Each expression that reads or writes an element also reports its address to a `meter`. Elements of the kernel's arrays,
of shared memory, and fields of their records count. Variables, local arrays and constant arrays do not.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...errors import KernelError
from . import meter
from .alignment import MISALIGNED
from .analysis import Facts
from .checks import Checks, explain
from .half import as_dtype
from .kinds import Kinds, parts_of
from .meter import ATOMIC, READ, WRITE, AccessPlace, Memory, Meter
from .normalize import Normalize
from .reached import unraveled
from .source import Source
from .stamps import ERRORS, UNINITIALIZED, call, check, data_address, integers, note
from .syntax import (
    BARRIER,
    EXCHANGE,
    GRID_BARRIER,
    WARP_BARRIER,
    Rewriter,
    array_of,
    called,
    duplicate,
    expression,
    statements,
    walk,
)
from .variables import address

__all__ = ["Accesses"]


def _touches(
    context: Any, builder: Any, pointer: Any, meter_at: Any, given: list[Any], where: list[Any], error: Any
) -> None:
    """Emit code that records accesses to the memory at a pointer. `given`: place and offset of each."""
    word = context.get_value_type(types.int64)
    start = builder.ptrtoint(pointer, word)
    for place, offset in zip(given[::2], given[1::2], strict=True):
        at = builder.add(start, offset)
        found = meter.call(builder, meter.TOUCH, [meter_at, place, where[2], at])
        with builder.if_then(builder.icmp_signed("!=", found, word(0)), likely=False):
            # the meter finds the element by its address later
            call(builder, note, [error, *where, found, place, at, *[word(0)] * 5])


@intrinsic
def element(typingctx: Any, array: Any, index: Any, error: Any, where: Any, numbers: Any, places: Any) -> Any:
    """Return the index of an array's element, or zeros if it is out of bounds, and record accesses.

    Args:
        where: place in the source, number of the array, thread, block.
        numbers: the meter's.
        places: place and offset of each access.
    """
    result = types.UniTuple(types.int64, len(index)) if len(index) else types.Tuple(())

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        made = context.make_array(kinds[0])(context, builder, args[0])
        where_values = integers(context, builder, kinds[3], args[3])
        meter_at = data_address(context, builder, kinds[4], args[4])
        given = integers(context, builder, kinds[5], args[5])

        def more(wrapped: list[Any], error_at: Any, four: list[Any]) -> None:
            pointer = cgutils.get_item_pointer(context, builder, kinds[0], made, wrapped)
            _touches(context, builder, pointer, meter_at, given, where_values, error_at)

        if not len(kinds[1]):  # an array without axes
            error_at = data_address(context, builder, kinds[2], args[2])
            _touches(context, builder, made.data, meter_at, given, where_values, error_at)
            return context.make_tuple(builder, result, [])
        shape = types.UniTuple(types.int64, len(kinds[1]))
        sizes = context.make_tuple(builder, shape, cgutils.unpack_tuple(builder, made.shape)[: len(kinds[1])])
        return check(context, builder, [shape, *kinds[1:3]], [sizes, *args[1:3]], where_values, more)

    return result(array, index, error, where, numbers, places), codegen


@intrinsic
def field(typingctx: Any, record: Any, error: Any, where: Any, numbers: Any, places: Any) -> Any:
    """Return a record, and record accesses to its fields."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        where_values = integers(context, builder, kinds[2], args[2])
        meter_at = data_address(context, builder, kinds[3], args[3])
        given = integers(context, builder, kinds[4], args[4])
        error_at = data_address(context, builder, kinds[1], args[1])
        _touches(context, builder, args[0], meter_at, given, where_values, error_at)
        return args[0]

    return record(record, error, where, numbers, places), codegen


@intrinsic
def poison(typingctx: Any, array: Any) -> Any:
    """Fill shared memory with bytes of 255, which are NaN and -1."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, args[0])
        cgutils.memset(builder, made.data, builder.mul(made.nitems, made.itemsize), 255)
        return context.get_dummy_value()

    return types.void(array), codegen


def _calls(number: int, count: int) -> Any:
    """Return an intrinsic that calls a function of `meter.FUNCTIONS` with the meter and `count` integers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        held = data_address(context, builder, signature.args[0], args[0])
        meter.call(builder, number, [held, *args[1:]])
        return context.get_dummy_value()

    def none(typingctx: Any, numbers: Any) -> Any:
        return types.void(numbers), codegen

    def one(typingctx: Any, numbers: Any, a: Any) -> Any:
        return types.void(numbers, types.int64), codegen

    def two(typingctx: Any, numbers: Any, a: Any, b: Any) -> Any:
        return types.void(numbers, types.int64, types.int64), codegen

    def three(typingctx: Any, numbers: Any, a: Any, b: Any, c: Any) -> Any:
        return types.void(numbers, types.int64, types.int64, types.int64), codegen

    return intrinsic((none, one, two, three)[count])


_FUNCTIONS: dict[str, Any] = {
    "_nb_element": element,
    "_nb_field": field,
    "_nb_poison": poison,
    "_nb_unraveled": unraveled,
    "_nb_address": address,
    "_nb_at_barrier": _calls(meter.AT_BARRIER, 0),
    "_nb_before_warps": _calls(meter.BEFORE_WARPS, 0),
    "_nb_at_warp": _calls(meter.AT_WARP, 1),
    "_nb_begin_block": _calls(meter.BEGIN_BLOCK, 1),
    "_nb_enter_block": _calls(meter.ENTER_BLOCK, 1),
    "_nb_at_grid": _calls(meter.AT_GRID, 0),
    "_nb_place_array": _calls(meter.PLACE_ARRAY, 3),
    "_nb_end_launch": _calls(meter.END_LAUNCH, 0),
}


class Accesses(Checks):
    """The statements that count what a kernel does, for one combination of argument types.

    Attributes:
        places: the accesses in the source, in the order of their numbers.
        memory: the names of the counted arrays, by their numbers.
    """

    def __init__(self, source: Source, normal: Normalize, facts: Facts, body: list[ast.stmt], arrays: list[str]):
        super().__init__(source, normal, facts, body, arrays)
        self.places: list[AccessPlace] = []
        self.parameters_of: dict[str, Any] = {
            p: facts.kinds[p]
            for p in source.parameters
            if isinstance(facts.kinds.get(p), (types.Array, types.BaseTuple))
        }
        self.memory = [name for p, kind in self.parameters_of.items() for name in _array_names(p, kind)]
        self.given = len(self.memory)
        self._dynamic = ""
        self.shared_numbers: dict[str, int] = {}
        for name, (shape, _) in normal.shared.items():
            if 0 in shape and self._dynamic:
                self.shared_numbers[name] = self.shared_numbers[self._dynamic]
                continue
            self._dynamic = name if 0 in shape else self._dynamic
            self.shared_numbers[name] = len(self.memory)
            self.memory.append(name)
        self._numbers: dict[Any, int] = {}
        for k, node in enumerate(walk(body)):
            if isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
                node.nb_access = k  # type: ignore[union-attr]

    def space(self) -> dict[str, Any]:
        return {**super().space(), **_FUNCTIONS}

    def parameters(self) -> list[str]:
        return ["_nb_meter"]

    @staticmethod
    def kinds() -> list[types.Type]:
        return [types.Array(types.int64, 1, "C")]

    def head(self, line: int) -> list[ast.stmt]:
        text = "\n".join(
            f"_nb_place_array(_nb_meter, {k}, _nb_address({n}), {f'{n}.strides[0]' if self.normal.grid else 0})"
            for n, k in self._shared_arrays()
        )
        return statements(text or "pass", line)

    def _shared_arrays(self) -> list[tuple[str, int]]:
        """Return (name, number) of each array in shared memory, which holds all blocks if the grid synchronizes."""
        own = "_nb_all_" if self.normal.grid else ""
        return [(f"{own}{n}", k) for n, k in self.shared_numbers.items() if self.memory[k] == n]

    def start(self, line: int) -> list[ast.stmt]:
        text = "_nb_begin_block(_nb_meter, _nb_block)"
        if self.normal.grid:
            text = f"for _nb_block in range(_nb_last):\n {text}"
        for n, _ in self._shared_arrays():
            # The dynamic memory of blocks may have gaps.
            text += f"\nfor _nb_each in range(_nb_last):\n _nb_poison({n}[_nb_each])" * self.normal.grid
            text += f"\n_nb_poison({n})" * (not self.normal.grid)
        return statements(text, line)

    def end(self, line: int) -> list[ast.stmt]:
        return statements("_nb_end_launch(_nb_meter)", line)

    def barrier(self, emit: Any, kind: str = BARRIER) -> list[ast.stmt]:
        if kind == EXCHANGE:  # shuffles and votes order no memory
            return []
        grid, warps = self.normal.grid, kind == WARP_BARRIER
        if not warps and not grid:
            return statements("_nb_at_barrier(_nb_meter)", emit.line)
        guards = [f"{m}[{emit.slot}] != 0" for m in [*(["_nb_alive"] if emit.returning else []), *emit.at.names]]
        text = f"""
            {"_nb_before_warps(_nb_meter)" if warps else "pass"}
            for _nb_t in range(_nb_T):
                {"_nb_slot = _nb_block * _nb_T + _nb_t" if grid else "pass"}
                if {" and ".join(guards) or "True"}:
                    {"_nb_at_warp(_nb_meter, _nb_t)" if warps else "_nb_at_barrier(_nb_meter)"}
                    {"pass" if warps else "break"}
            """
        out = statements(text, emit.line)
        if grid:
            out = emit.blocks(out)
        return [*out, *(statements("_nb_at_grid(_nb_meter)", emit.line) if kind == GRID_BARRIER else [])]

    def enter(self, emit: Any) -> list[ast.stmt]:
        return statements("_nb_enter_block(_nb_meter, _nb_block)", emit.line)

    def body(self, body: list[ast.stmt], emit: Any) -> list[ast.stmt]:
        return _Count(self, emit).block(body)

    def clean(self, body: list[ast.stmt], emit: Any) -> None:
        return None

    # ------------------------------------------------------------ places

    def place(self, node: ast.AST, which: str, array: int, kind: int, nbytes: int, aligned: bool, reads: bool) -> int:
        """Return the number of an access by a node. Copies of a node share the number."""
        key = getattr(node, "nb_access", id(node)), which
        if key not in self._numbers:
            self._numbers[key] = len(self.places)
            alignment = nbytes if aligned and nbytes & (nbytes - 1) == 0 else 1
            line = node.lineno  # type: ignore[attr-defined]
            self.places.append(AccessPlace(array, kind, nbytes, alignment, reads, self.site(node), line))
        return self._numbers[key]

    def number_of(self, root: str) -> int:
        """Return the number of an array in memory by the name of its variable; -1 where it is unknown."""
        root = self.sites.bases.get(root, root) if root not in self.sites.mixed else ""
        if root in self.shared_numbers:
            return self.shared_numbers[root]
        if root in self.parameters_of and isinstance(self.parameters_of[root], types.Array):
            return self.memory.index(root)
        return -1

    def shown(self, number: int) -> str:
        """Return the name of an array as the user knows it."""
        name = self.memory[number]
        if not name.startswith("_nb_"):
            return name
        given = [view for view, root in self.sites.bases.items() if root == name and not view.startswith("_nb_")]
        return given[0] if given else self.normal.written.get(name, f"shared {number - self.given}")

    # ------------------------------------------------------------ a launch

    def meter(self, given: list[Memory], block: Any, blocks: int, dynamic_bytes: int, keep: int) -> Meter:
        """Return the meter of a launch, given the memory of the arguments."""
        arrays, end = [*given], 0
        for k in range(self.given, len(self.memory)):
            shape, dtype = self.normal.shared[self.memory[k]]
            shape = (dynamic_bytes // dtype.itemsize,) if 0 in shape else shape
            nbytes = int(np.prod(shape)) * dtype.itemsize
            strides = tuple(int(np.prod(shape[axis + 1 :])) * dtype.itemsize for axis in range(len(shape)))
            arrays.append(
                Memory(self.shown(k), 0, nbytes, end, 0, True, tuple(shape), strides, dtype.itemsize, dtype.itemsize)
            )
            end += -(-max(nbytes, 1) // 128) * 128
        return Meter(self.places, arrays, int(np.prod(block)), keep, blocks if self.normal.grid else 0)

    def located(self, error: Any, found: Meter) -> None:
        """Complete an error that has an element's address instead of its index."""
        if error[0] == MISALIGNED:
            array, at = found.array_at(int(error[7]))
            self._locate(error, found, array, at)
            error[6] = found.places[int(error[6])].nbytes

    def unwritten(self, found: Meter, block: Any, grid: Any) -> list[KernelError]:
        """Return an error for each place that reads shared memory before any thread has written it."""
        out = []
        for place, (seen, thread, number, at) in zip(found.places, found.unwritten.tolist(), strict=False):
            if seen:
                error = np.zeros(ERRORS, np.int64)
                error[:5] = UNINITIALIZED, place.line, 0, thread, number
                self._locate(error, found, place.array, at)
                told = explain(error, self.arrays, self.lines, self.source, block, grid)
                out.append(KernelError(told.pop("message"), **told))
        return out

    def _locate(self, error: Any, found: Meter, array: int, at: int) -> None:
        each = found.arrays[array]
        index = each.index_of(at - each.start)
        error[2], error[8], error[9 : 9 + len(index)] = self.number(each.name), len(index), index


def _array_names(name: str, kind: Any) -> list[str]:
    """Return the names of the arrays in an argument of a type."""
    if isinstance(kind, types.Array):
        return [name]
    if isinstance(kind, types.BaseTuple):
        return [each for k, inner in enumerate(kind) for each in _array_names(f"{name}[{k}]", inner)]
    return []


class _Count(Kinds, Rewriter):
    """Add calls of the meter to the expressions of one phase."""

    def __init__(self, accesses: Accesses, emit: Any):
        self.accesses, self.emit = accesses, emit
        Kinds.__init__(self, emit.kinds, accesses.normal.space)
        self.quiet = False

    # ------------------------------------------------------------ statements

    def simple(self, s: ast.stmt) -> list[ast.stmt]:
        return self.assigned(s) if isinstance(s, (ast.Assign, ast.AugAssign)) else [self.visit(s)]

    def assigned(self, s: ast.Assign | ast.AugAssign) -> list[ast.stmt]:
        target = s.targets[0] if isinstance(s, ast.Assign) else s.target
        if isinstance(target, ast.Name):
            return [self.visit(s)]
        kinds = self.kind(target), self.kind(s.value)
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        if isinstance(kinds[1], types.Array):
            before = self.whole(s.value, kinds[1], READ, s)
        if isinstance(kinds[0], types.Array):
            if isinstance(s, ast.AugAssign):
                before += self.whole(target, kinds[0], READ, s)
            after = self.whole(target, kinds[0], WRITE, s)
        if isinstance(kinds[1], types.Record) and isinstance(kinds[0], types.Record):
            s.value = self.record(s.value, kinds[1], [(READ, kinds[1], 0)], s.value)
        else:
            s.value = self.visit(s.value)
        modes = [READ, WRITE] if isinstance(s, ast.AugAssign) else [WRITE]
        target = self.access(target, modes)
        if isinstance(s, ast.Assign):
            s.targets = [target]
        else:
            s.target = target
        return [*before, s, *after]

    def whole(self, node: ast.expr, kind: Any, mode: int, s: ast.stmt) -> list[ast.stmt]:
        """Return statements that record accesses to all elements of a view, as a loop makes them."""
        name, quiet = self.emit.fresh("whole", ""), self.quiet
        self.quiet = True
        view = self.visit(duplicate(node))
        self.quiet = quiet
        view.ctx = ast.Load()
        element_kind, root = kind.dtype, array_of(node)
        text = f"_nb_element({name}, _nb_unraveled({name}.shape, {name}_k), _nb_error, WHERE, _nb_meter, PLACES)"
        noted = expression(
            text,
            s.lineno,
            **self.parts(node, root, [(mode, element_kind, 0)], kind.aligned),
        )
        return statements(
            f"{name} = VIEW\nfor {name}_k in range({name}.size):\n {name}_i = NOTED", s.lineno, VIEW=view, NOTED=noted
        )

    # ------------------------------------------------------------ expressions

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self.access(node, [READ])

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return self.access(node, [READ])

    def visit_Call(self, node: ast.Call) -> Any:
        name = called(node)
        if not name.startswith("_nb_atomic_"):
            return self.generic_visit(node)
        kind = self.kind(node.args[0])
        if self.quiet:
            raise self.accesses.source.unsupported(node.lineno, "an atomic operation inside of a view in a trace")
        if not isinstance(kind, types.Array):
            return self.generic_visit(node)
        index = node.args[1]
        parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
        if sum(self.axes(p) or 0 for p in parts) != kind.ndim:
            return self.generic_visit(node)
        root = array_of(node.args[0])
        parts = [self.visit(p) for p in parts]
        noted = self.noted(node, node.args[0], root, kind, parts, [ATOMIC], "_exch_" not in name)
        node.args = [self.visit(node.args[0]), noted, *(self.visit(a) for a in node.args[2:])]
        return node

    def access(self, node: Any, modes: list[int]) -> Any:
        """Return the expression, with its access to memory recorded if it makes one."""
        if isinstance(node, ast.Attribute):
            return self.of_record(node, node.attr, modes)
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return self.of_record(node, node.slice.value, modes)
        flat = isinstance(node.value, ast.Attribute) and node.value.attr == "flat"
        if flat and isinstance(self.kind(node.value.value), types.Array) and self.axes(node.slice) == 1:
            array = node.value.value
            k = self.visit(node.slice)
            index = expression("_nb_unraveled(A.shape, K)", node.lineno, A=duplicate(array), K=k)
            node.value, kind = array, self.kind(array)
            return self.indexed(node, array_of(array), kind, [index], modes)
        array, parts = node.value, parts_of(node)
        while isinstance(array, ast.Subscript) and isinstance(self.kind(array.value), types.Array):
            outer = parts_of(array)
            if any(self.axes(p) != 1 or isinstance(p, ast.Tuple) for p in outer):
                break
            if any(isinstance(p, ast.Slice) for p in parts):
                break
            if isinstance(self.of_index(self.kind(array.value), outer), types.Array) and not isinstance(
                self.kind(array.value).dtype, types.NestedArray
            ):
                array, parts = array.value, [*outer, *parts]
            else:
                break
        kind = self.kind(array)
        if not isinstance(kind, types.Array) or any(self.axes(p) is None for p in parts):
            return self.generic_visit(node)
        if any(self.axes(p) == 0 for p in parts if not (isinstance(p, ast.Tuple) and not p.elts)):
            return self.generic_visit(node)
        if kind.ndim and sum(self.axes(p) or 0 for p in parts) < kind.ndim:
            return self.partial(node, array, kind, parts)
        node.value = array
        return self.indexed(node, array_of(array), kind, [self.visit(p) for p in parts], modes)

    def indexed(self, node: Any, root: str, kind: Any, parts: list[ast.expr], modes: list[int]) -> Any:
        array = node.value
        node.value = self.visit(array) if not isinstance(array, ast.Name) else array
        if isinstance(kind.dtype, (types.Record, types.NestedArray)) and WRITE not in modes:
            modes = []  # the access reads its fields only
        node.slice = self.noted(node, array, root, kind, parts, modes, READ in modes)
        return node

    def partial(self, node: Any, array: ast.expr, kind: Any, parts: list[ast.expr]) -> Any:
        """Return a view that the first indices select."""
        node.value = self.visit(array)
        node.slice = self.noted(node, array, array_of(array), kind, [self.visit(p) for p in parts], [], False)
        return node

    def noted(
        self, node: Any, array: ast.expr, root: str, kind: Any, parts: list[ast.expr], modes: list[int], reads: bool
    ) -> Any:
        """Return an index that is checked and recorded."""
        line = node.lineno
        if self.quiet or root in self.accesses.normal.local:
            modes = []
        copied = self.copied(array)
        only = parts[0] if len(parts) == 1 else None
        if only is not None and (
            isinstance(only, ast.Tuple)
            or called(only) == "_nb_unraveled"
            or (isinstance(only, ast.Name) and isinstance(self.kind(only), types.BaseTuple))
        ):
            index: ast.expr = only
        else:
            index = ast.Tuple([expression("_nb_np.int64(I)", line, I=p) for p in parts], ast.Load())
        given = self.parts(node, root, [(m, kind.dtype, 0) for m in modes], kind.aligned, reads)
        if not modes:
            given["PLACES"] = ast.Tuple([], ast.Load())
            if kind.ndim:
                return expression("_nb_inside(A.shape, INDEX, _nb_error, WHERE)", line, A=copied, INDEX=index, **given)
        return expression(
            "_nb_element(A, INDEX, _nb_error, WHERE, _nb_meter, PLACES)", line, A=copied, INDEX=index, **given
        )

    def copied(self, array: ast.expr) -> ast.expr:
        """Return a copy of an array's expression that records no access."""
        quiet, self.quiet = self.quiet, True
        made: ast.expr = self.visit(duplicate(array))
        self.quiet = quiet
        return made

    def parts(
        self, node: Any, root: str, modes: list[tuple[int, Any, int]], aligned: bool, reads: bool = True
    ) -> dict[str, ast.expr]:
        """Return the arguments of `element` and `field`: where the access is, and the places with their offsets."""
        accesses, line = self.accesses, node.lineno
        number = accesses.number_of(root)
        name = accesses.shown(number) if number >= 0 else root or "an array"
        where = expression(f"({accesses.site(node)}, {accesses.number(name)}, _nb_t, _nb_block)", line)
        given = []
        for mode, kind, offset in modes:
            nbytes, count = _size(kind)
            place = accesses.place(
                node, f"{mode} {offset}", number, mode, nbytes, aligned, (mode == READ or (mode == ATOMIC and reads))
            )
            given += [f"{place}, {offset + part * nbytes}, " for part in range(count)]
        return {"WHERE": where, "PLACES": expression(f"({''.join(given)})", line)}

    # ------------------------------------------------------------ records

    def of_record(self, node: Any, name: str, modes: list[int]) -> Any:
        kind = self.kind(node.value)
        if not isinstance(kind, types.Record) or name not in kind.fields:
            return self.generic_visit(node)
        inner = kind.typeof(name)
        if isinstance(inner, types.NestedArray) or (isinstance(inner, types.Record) and WRITE not in modes):
            node.value = self.visit(node.value)
            return node
        node.value = self.record(node.value, kind, [(m, inner, kind.offset(name)) for m in modes], node)
        return node

    def record(self, value: ast.expr, kind: Any, modes: list[tuple[int, Any, int]], node: Any) -> Any:
        """Return a record's expression that records accesses to its fields."""
        made = self.visit(value)
        if self.quiet:
            return made
        root = array_of(value) if isinstance(value, ast.Subscript) else ""
        given = self.parts(node, root if isinstance(self.kinds.get(root), types.Array) else "", modes, kind.aligned)
        return expression("_nb_field(R, _nb_error, WHERE, _nb_meter, PLACES)", node.lineno, R=made, **given)


def _size(kind: Any) -> tuple[int, int]:
    """Return the bytes of one access to an element, and how many accesses it takes: two for a complex number."""
    nbytes = int(as_dtype(kind).itemsize)
    return (nbytes // 2, 2) if isinstance(kind, types.Complex) else (nbytes, 1)

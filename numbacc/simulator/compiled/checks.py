"""The checked mode: index expressions check themselves, and errors name the line and thread.

Each element of an array that the kernel writes has two stamps: its last writer and its last reader. A stamp holds an
era (which grows at each barrier and with each block), the number of the access in the kernel, and the thread. `sites`
finds phases that need no checks.
"""

from __future__ import annotations

import ast
import itertools
import math
import os
from collections import defaultdict
from typing import Any

from numba import types
from numba.extending import intrinsic

from . import reached
from .alignment import MISALIGNED, aligned, is_view, views
from .analysis import Facts
from .by_address import DYNAMIC
from .half import as_dtype
from .intrinsics import is_opaque
from .kinds import Kinds, parts_of
from .loops import STOPPED
from .normalize import Normalize
from .reached import WORDS
from .sites import Sites, indices
from .source import Source
from .stamps import (
    ALIASED,
    DIVERGENT,
    ERA,
    FOLLOWED,
    MANY,
    MISALIGNED_ADDRESS,
    OFFSETS,
    OUT,
    OUTSIDE,
    SITE,
    STAMP_ATOMIC,
    THREAD,
    UNARRIVED,
    UNINITIALIZED,
    access,
    call,
    era_bits,
    has_memory,
    has_stamps,
    inside,
    integers,
    is_followed,
    piece_of,
    stamps_of,
)
from .syntax import (
    BARRIER,
    GRID_BARRIER,
    Rewriter,
    array_of,
    assignment,
    called,
    duplicate,
    expression,
    named,
    statements,
    walk,
)
from .variables import address
from .watching import ACQUIRE, ATOMIC, BOTH, EXCHANGE, MEMORY, OBSERVE, READ, WRITE


def _chosen(k, v0, v1, v2, v3, v4, v5, v6, v7):  # type: ignore[no-untyped-def]
    """Return one of eight values."""
    low = (v0 if k == 0 else v1) if k < 2 else (v2 if k == 2 else v3)
    high = (v4 if k == 4 else v5) if k < 6 else (v6 if k == 6 else v7)
    return low if k < 4 else high


def _is_injective(c0, c1, c2, c3, c4, c5, c6, c7, e0, e1, e2, e3, e4, e5, e6, e7):  # type: ignore[no-untyped-def]
    """Return whether a sum of coefficients times counters differs for all choices of the counters."""
    reach, last = 0, 0
    for _ in range(8):
        best, size, several = 0, 0, 0
        for k in range(8):
            c, extent = _chosen(k, c0, c1, c2, c3, c4, c5, c6, c7), _chosen(k, e0, e1, e2, e3, e4, e5, e6, e7)
            c = max(c, -c)
            if extent > 1:
                if c == 0:
                    return 0
                if c > last and (best == 0 or c < best):
                    best, size, several = c, extent, 0
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
        given = [v for k in (0, 1) for v in integers(context, builder, signature.args[k], args[k])]
        return builder.trunc(call(builder, _is_injective, given), context.get_value_type(types.boolean))

    return types.boolean(coefficients, extents), codegen


class Checks:
    """The checks of one kernel for one combination of argument types.

    Attributes:
        arrays: the names of arrays, by the numbers that errors store.
        tracked: the parameters that the kernel writes, which have stamps.
        reaches: whether the kernel finds the stamps of an access by its address.
        follows_all: whether it does so for all parameters.
    """

    def __init__(self, source: Source, normal: Normalize, facts: Facts, body: list[ast.stmt], arrays: list[str]):
        self.source, self.normal, self.facts = source, normal, facts
        self.parameter_arrays = arrays
        self.arrays: list[str] = []
        self.lines: list[tuple[str, int]] = []
        self.sites = Sites(normal, facts, body, arrays)
        self.views = views(body)
        self.tracked = [a for a in arrays if a in self.sites.written and has_stamps(facts.kinds[a])]
        self.shared = [*normal.shared]
        self.reaches = self.follows_all = False

    def space(self) -> dict[str, Any]:
        """Return the values of the names that the statements use."""
        return {
            "_nb_access": access, "_nb_inside": inside, "_nb_injective": injective, "_nb_aligned": aligned,
            "_nb_stamps": stamps_of, "_nb_element": reached.element, "_nb_field": reached.field,
            "_nb_known": reached.known, "_nb_forget": reached.forget, "_nb_kept": reached.kept,
            "_nb_unraveled": reached.unraveled,
            "_nb_address": address, "_nb_overlap": reached.overlap,
        }  # fmt: skip

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
        if grid:
            out += statements(f"_nb_era_bits = {era_bits(0, True)}", line)
        else:  # as `era_bits` computes them
            out += statements(
                """
                _nb_era_bits, _nb_left = 43, _nb_Gx * _nb_Gy * _nb_Gz + 1
                for _nb_each in range(43):
                    if _nb_left > 0:
                        _nb_left, _nb_era_bits = _nb_left >> 1, _nb_era_bits - 1
                """,
                line,
            )
        text = f"_nb_next = {OFFSETS + len(self.parameter_arrays)}"
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
            shape = f"{whole}.shape"
            if pieces := self.pieces(n):
                shape = f"{whole}.size * {self.normal.shared[n][1].itemsize} // {pieces}"
            out += statements(
                f"""
                _nb_wrote{own}_{n} = _nb_zeros({shape}, _nb_np.int64)
                _nb_read{own}_{n} = _nb_zeros({shape}, _nb_np.int64)
                _nb_filled_{n} = _nb_zeros(3, _nb_np.int64)
                _nb_filled_{n}[2] = 1
                """,
                line,
            )
        out += self.listed(line) if self.reaches else []
        for n in () if grid else self.tracked:
            out += statements(f"_nb_private_{n} = TEST", line, TEST=self.sites.private(n))
        return [*self.apart(line), *out]

    def apart(self, line: int) -> list[ast.stmt]:
        """Return the statements that end the launch if a written parameter and another one share memory."""
        kinds = {p: kind for p in self.source.parameters if has_memory(kind := self.facts.kinds.get(p))}
        plain = {p for p, kind in kinds.items() if not is_followed(kind)}
        written = {p for p in kinds if p in self.sites.written or p not in self.parameter_arrays}
        pairs = [
            f"_nb_overlap({a}, {b})" for a, b in itertools.combinations(kinds, 2) if {a, b} & plain and {a, b} & written
        ]
        if not pairs:
            return []
        return statements(f"if {' | '.join(pairs)}:\n _nb_error[0] = {ALIASED}\n return", line)

    def start(self, line: int) -> list[ast.stmt]:
        """Return statements at the start of a block."""
        if self.normal.grid:
            return []
        text = f"""
            _nb_start = (_nb_block + 1) << (_nb_era_bits + {ERA})
            _nb_end = (_nb_block + 2) << (_nb_era_bits + {ERA})
            _nb_era = _nb_start
            _nb_since = _nb_start
            _nb_state[0] = 0
            """
        for n in self.shared:
            text += f"\n            _nb_filled_{n}[0] = 0\n            _nb_filled_{n}[2] = _nb_start"
        return statements(text, line)

    def pieces(self, array: str) -> int:
        """Return the bytes of a shared array that have a stamp, in an array of records; 0 if each element has one."""
        dtype = self.normal.shared[array][1]
        return piece_of(dtype) if getattr(dtype, "names", None) else 0  # float16 and bfloat16 have none

    def listed(self, line: int) -> list[ast.stmt]:
        """Return the statements that list the arrays whose stamps are found by address."""
        if MEMORY in self.parameters():
            text = ""
        else:
            text = f"_nb_words = _nb_zeros({WORDS}, _nb_np.int64)\n"
            text += f"{MEMORY} = _nb_address(_nb_words) if _nb_error[{FOLLOWED}] == 0 else _nb_error[{FOLLOWED}]\n"
        text += f"_nb_forget({MEMORY}, _nb_state{'s' * self.normal.grid})"
        for n in self.shared:
            own, whole = ("all", f"_nb_all_{n}") if self.normal.grid else ("", n)
            stamps = f"(_nb_wrote{own}_{n}, _nb_read{own}_{n}, _nb_filled_{n})"
            text += f"\n_nb_known({MEMORY}, {self.number(n)}, {whole}, {self.pieces(n)}, {stamps})"
        for n in self.tracked:
            text += f"\n_nb_known({MEMORY}, {self.number(n)}, {n}, 0, (_nb_wrote_{n}, _nb_read_{n}))"
        return statements(text, line)

    def end(self, line: int) -> list[ast.stmt]:
        """Return statements after the last block."""
        if not self.reaches:
            return []
        own = "all" * self.normal.grid
        arrays = [f"_nb_state{'s' * self.normal.grid}", *["_nb_words"] * (MEMORY not in self.parameters())]
        for n in self.shared:
            arrays += [f"_nb_wrote{own}_{n}", f"_nb_read{own}_{n}", f"_nb_filled_{n}"]
        return statements(f"_nb_kept(({', '.join(arrays)},))", line)

    def barrier(self, emit: Any, kind: str = BARRIER) -> list[ast.stmt]:
        """Return the statements where a phase ends."""
        here = "_here" * self.normal.grid
        since = f"\n_nb_since{here} = _nb_era{here}" if kind == BARRIER else ""
        if kind != GRID_BARRIER:
            return statements(f"_nb_era{here} += {1 << ERA}{since}", emit.line)
        # When block numbers no longer fit, only the threads of a block are compared.
        text = f"""
            _nb_grid_era += 1
            if (_nb_grid_era + 1) * _nb_last + 1 < 1 << (43 - _nb_era_bits):
                _nb_era_here = 0
                _nb_states[:, 2] = (_nb_grid_era * _nb_last + 1) << (_nb_era_bits + {ERA})
            else:
                _nb_grid_era -= 1
                _nb_era_here += {1 << ERA}
                _nb_states[:, 2] = {(1 << 63) - 1}
            _nb_since_here = _nb_era_here
            _nb_states[:, 0] = 0
            """
        return statements(text, emit.line)

    def enter(self, emit: Any) -> list[ast.stmt]:
        """Return the statements where a block of a grid that synchronizes begins its part of a phase."""
        text = f"""
            _nb_start = (_nb_grid_era * _nb_last + _nb_block + 1) << (_nb_era_bits + {ERA})
            _nb_end = _nb_start + (1 << (_nb_era_bits + {ERA}))
            _nb_era = _nb_start + _nb_era_here
            _nb_since = _nb_start + _nb_since_here
            _nb_state = _nb_states[_nb_block]
            """
        for n in self.shared:
            for k in ("wrote", "read") if not self.pieces(n) else ():
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
        if self.normal.grid or any(self.pieces(n) for n in named(body) & {*self.shared}):
            return None
        return self.sites.clean(body, emit, self.tracked)

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


class AliasedChecks(Checks):
    """The checks of a launch whose arguments share memory: accesses to all of them are found by address."""

    def __init__(self, source: Source, normal: Normalize, facts: Facts, body: list[ast.stmt], arrays: list[str]):
        super().__init__(source, normal, facts, body, arrays)
        self.tracked = []
        self.follows_all = True

    def apart(self, line: int) -> list[ast.stmt]:
        return []

    def clean(self, body: list[ast.stmt], emit: Any) -> tuple[list[ast.stmt], ast.expr] | None:
        used = {self.sites.bases.get(n, n) for n in named(body)}
        return None if used & {*self.parameter_arrays} else super().clean(body, emit)


class AddressChecks(Checks):
    """The checks of a kernel whose arguments hold addresses."""

    def __init__(self, source: Source, normal: Normalize, facts: Facts, body: list[ast.stmt], arrays: list[str]):
        super().__init__(source, normal, facts, body, arrays)
        self.reaches = True

    def space(self) -> dict[str, Any]:
        return {**super().space(), "_nb_at": reached.at}

    def apart(self, line: int) -> list[ast.stmt]:
        return []

    def parameters(self) -> list[str]:
        return [*super().parameters(), MEMORY]

    @staticmethod
    def kinds() -> list[types.Type]:
        return [*Checks.kinds(), types.int64]

    def pieces(self, array: str) -> int:
        """Return the bytes that have a stamp in an array of 16-byte elements, which holds numbers of any size."""
        if array == DYNAMIC:  # nothing accesses fewer bytes by address
            return 4
        return 2 if self.normal.shared[array][1].itemsize == 16 else super().pieces(array)

    def listed(self, line: int) -> list[ast.stmt]:
        local = "\n".join(f"_nb_known({MEMORY}, {self.number(n)}, _nb_all_{n}, 0, ())" for n in self.normal.local)
        return [*super().listed(line), *statements(local or "pass", line)]

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


class _Check(Kinds, Rewriter):
    """Make the index expressions of one phase check themselves."""

    def __init__(self, checks: Checks, emit: Any):
        self.checks, self.emit = checks, emit
        Kinds.__init__(self, emit.kinds, checks.normal.space)
        self.shadowed = {*checks.tracked, *(n for n in checks.shared if not checks.pieces(n))}
        self.carried: set[str] = {*(emit.carried or ())}

    def simple(self, s: ast.stmt) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        if isinstance(s, ast.Assign):
            if isinstance(s.targets[0], ast.Name):
                before = self.shadows(s.targets[0].id, s.value, s.lineno)
            elif isinstance(kind := self.kind(s.value), types.Record):  # it is copied
                ahead = self.checks.before(s)
                s.value = self.bytes_of(s.value, s.value, 0, kind.size, READ)
                s.targets = [self.visit(each) for each in s.targets]
                return [*ahead, s]
        if isinstance(s, (ast.Assign, ast.AugAssign)):
            target = s.targets[0] if isinstance(s, ast.Assign) else s.target
            if not isinstance(target, ast.Name):
                before += [*self.whole(s.value, READ), *self.whole(target, WRITE)]
        return [*self.checks.before(s), *before, self.visit(s)]

    def whole(self, node: ast.expr, mode: int) -> list[ast.stmt]:
        """Return statements that check all elements of a view that is assigned, or read by an assignment."""
        if not isinstance(self.kind(node), types.Array) or not self.is_followed(array_of(node)):
            return []
        self.checks.reaches = True
        name, view = self.emit.fresh("whole", ""), duplicate(node)
        view.ctx = ast.Load()  # type: ignore[attr-defined]
        numbers = self.numbers(node, self.checks.number(ast.unparse(node)), mode)
        text = f"""
            {name} = VIEW
            for {name}_k in range({name}.size):
                {name}_i = _nb_element(
                    {name}, _nb_unraveled({name}.shape, {name}_k), {MEMORY}, _nb_state, _nb_error, {numbers}
                )
            """
        return statements(text, node.lineno, VIEW=self.visit(view))

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
        elif isinstance(node.target, ast.Attribute):
            node.target = self.field(node.target, node.target.attr, BOTH)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self.access(node, READ if isinstance(node.ctx, ast.Load) else WRITE)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return self.field(node, node.attr, READ if isinstance(node.ctx, ast.Load) else WRITE)

    def field(self, node: Any, name: str, mode: int) -> Any:
        """Check the field of a record, `record.name` or `record["name"]`; return other attributes as they are."""
        kind = self.kind(node.value)
        inner = kind.typeof(name) if isinstance(kind, types.Record) and name in kind.fields else None
        if inner is None or isinstance(inner, types.NestedArray) or (isinstance(inner, types.Record) and mode == READ):
            return self.generic_visit(node)
        node.value = self.bytes_of(node.value, node, kind.offset(name), _bytes(inner), mode)
        return node

    def bytes_of(self, record: ast.expr, shown: ast.expr, offset: int, nbytes: int, mode: int) -> Any:
        """Return a record's expression that checks an access to some of the record's bytes."""
        self.checks.reaches = True
        name, line = self.checks.number(ast.unparse(shown)), shown.lineno
        text = f"_nb_field(R, {MEMORY}, _nb_state, _nb_error, ({offset}, {nbytes}), {self.numbers(shown, name, mode)})"
        return expression(text, line, R=self.visit(record))

    def numbers(self, node: ast.expr, name: int, mode: int) -> str:
        """Return the last argument of `reached.element` and `reached.field`."""
        return f"({self.checks.site(node)}, {name}, _nb_t, _nb_block, {mode}, _nb_era, _nb_since, _nb_start, _nb_end)"

    def is_followed(self, array: str) -> bool:
        """Return whether accesses through an array's name are found by address; "" for an expression."""
        base = self.checks.sites.bases.get(array, array)
        if array in self.checks.normal.local or base in self.checks.normal.local:
            return False
        kind = self.emit.kinds.get(base)
        if isinstance(kind, types.Array) and base in self.checks.parameter_arrays:
            return self.checks.follows_all or base in self.checks.tracked or not has_stamps(kind)
        return True

    def reached(self, node: ast.expr, kind: Any, array: str, shown: str, text: str, mode: int) -> str:
        """Return the text of an index that also checks the element by its address.

        Args:
            kind: the array's type.
            array: the array that it is made of; "" for others.
            shown: the array, for errors.
            text: the index.
        """
        if (isinstance(kind.dtype, types.Record) and mode == READ) or not self.is_followed(array):
            return text  # a record's bytes are read later
        self.checks.reaches = True
        numbers = self.numbers(node, self.checks.number(shown), mode)
        return f"_nb_element(ARRAY, {text}, {MEMORY}, _nb_state, _nb_error, {numbers})"

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
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return self.field(node, node.slice.value, mode)
        array, parts = indices(node)
        if is_view(node.value):
            return self.of_view(node, parts, mode)
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
            if len(parts) == kind.ndim:
                text = self.reached(node, kind, array, array, text, mode).replace("ARRAY", array, 1)
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
        shown, flat = ast.unparse(array), isinstance(array, ast.Attribute) and array.attr == "flat"
        array = array.value if flat else array  # type: ignore[attr-defined]
        kind = self.kind(array)
        if not isinstance(kind, types.Array):
            return self.generic_visit(node)
        if any(self.is_slice(p) for p in parts):
            return self.of_slices(node, kind, parts)
        if not all(self.axes(p) for p in parts):
            return self.generic_visit(node)
        count, ndim = sum(self.axes(p) or 0 for p in parts), 1 if flat else kind.ndim
        if not count <= ndim or (len(parts) > 1 and count > len(parts)):
            return self.generic_visit(node)
        site, root = self.checks.site(node), array_of(array)
        fields = any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(array))
        where = f"_nb_error, ({site}, {self.checks.number(shown)}, _nb_t, _nb_block)"
        index: ast.expr = parts[0]
        if len(parts) > 1 or not isinstance(self.kind(index), types.BaseTuple):
            parts = list(index.elts) if isinstance(index, ast.Tuple) else parts
            index = ast.Tuple([expression("_nb_np.int64(I)", line, I=self.visit(p)) for p in parts], ast.Load())
        given = {"A": self.visit(duplicate(array)), "INDEX": index}
        text = f"_nb_inside(A.shape, INDEX, {where})"
        if flat:
            text = f"_nb_unraveled(A.shape, _nb_inside((A.size,), INDEX, {where})[0])"
            given["INDEX"], count = expression(text, line, **given), kind.ndim
            text = "INDEX"
        shadowed = root in self.shadowed and isinstance(self.kinds.get(root), types.Array) and not fields
        if count == kind.ndim and shadowed:
            for k in ("wrote", "read"):
                given[k.upper()] = _Rooted(root, f"_nb_{k}_{root}").visit(self.visit(duplicate(array)))
            base = self.checks.sites.bases.get(root, root)
            text = f"_nb_access(A.shape, INDEX, {where}, WROTE, READ, {self.how(base, mode, site)})"
        elif count == kind.ndim:
            text = self.reached(node, kind, root, shown, text, mode).replace("ARRAY", "A", 1)
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

    def of_view(self, node: ast.Subscript, parts: list[ast.expr], mode: int) -> Any:
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
        if isinstance(view := self.kind(node.value), types.Array):
            text = self.reached(node, view, array, ast.unparse(node.value), text, mode).replace("ARRAY", "VIEW", 1)
        node.slice = expression(text, line, INDEX=index, VIEW=node.value)
        return node

    def offset(self, array: str) -> str:
        """Return the distance in bytes from an address that a GPU aligns to an array's start."""
        arrays = self.checks.parameter_arrays
        return f"_nb_error[{OFFSETS + arrays.index(array)}]" if array in arrays else "0"

    def whole_number(self, node: ast.expr) -> bool:
        """Return whether an index is a number, not a tuple in a variable nor a record's field."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int)
        if isinstance(node, ast.Name):
            return not isinstance(self.emit.kinds.get(node.id), (types.BaseTuple, types.Array))
        return not isinstance(node, ast.Tuple)


def _bytes(kind: types.Type) -> int:
    """Return the bytes of a field."""
    return kind.size if isinstance(kind, types.Record) else int(as_dtype(kind).itemsize)


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
        beside = f" at element {element}" if index else ""
        text = f"{where}: {array}, shared memory, is read{beside} before it is written, in {thread}"
    elif kind == UNARRIVED:
        beside = f" at element {element}" if index else ""
        site = (stamp >> SITE) & 255
        line_of = f" in line {lines[site][1]}" if site < min(len(lines), 255) else ""
        text = (
            f"{where}: {thread} {_VERBS[other & 7]} {array}{beside} before the copy arrived that thread "
            f"{place(stamp & THREAD, block)} began{line_of}: that thread must wait for it first, by cp_async_wait_group"
        )
    elif kind == MISALIGNED:
        text = (
            f"{where}: an access to {other} bytes at element {element} of {array}, in {thread}, starts at an address "
            f"that is not a multiple of {other}: a GPU raises an error there. Make the view begin at such a multiple"
        )
    else:
        subject = f"element {element} of {array}" if index else array
        if not array:  # of a kernel whose arguments hold addresses
            begin, nbytes, size = index
            subject = f"{nbytes} byte{'s' * (nbytes != 1)} from byte {begin:,} of an allocation of {size:,} bytes"
        text = f"{where}: a race on {subject}: {thread} {_VERBS[other & 7]} it, and "
        site = (stamp >> SITE) & 255
        there = "elsewhere"
        if site < min(len(lines), 255):
            there = f"in line {lines[site][1]}" + ("" if lines[site][0] == file else f" of {lines[site][0]}")
        verb = "reads" if other & 8 else "changes" if stamp & STAMP_ATOMIC else "writes"
        blocks = math.prod(grid)
        writer = ((stamp >> (ERA + era_bits(blocks, cooperative))) - 1) % blocks
        first = place(stamp & THREAD, block)
        if other & 16:
            text += f"a thread of another block {verb} it, too"
        elif writer != b:
            text += f"thread {first} of block {place(writer, grid)} {verb} it {there}; blocks run in any order"
        elif other & 8 and stamp & MANY and first == place(t, block):
            text += f"another thread {verb} it {there}; there is no barrier between them"
        else:
            text += f"thread {first} {verb} it {there}; there is no barrier between them"
    return {"message": text, "file": file, "line": line, "block": at, "thread": place(t, block)}


#: How an access uses an element, in words; "changes" for others.
_VERBS = defaultdict(lambda: "changes", {READ: "reads", OBSERVE: "reads", WRITE: "writes"})


#: Accesses that are so many bytes after an allocation are unlikely to be meant for it.
_FAR = 1 << 12


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
    if not name and distance >= size + _FAR:
        return f"{text} at an address that no array of the launch has"
    return f"{text} at byte {distance:,} of {memory}" + (f", which has {size:,} bytes" if name else "")

"""Find phases that cannot go wrong, from the accesses of a kernel.

For each access, `Sites` records its indices, the tests that guard it and the loops around it. From these it makes
statements that compute the smallest and the largest index, once for each block and phase. A phase runs without checks
if all indices are in bounds, all of shared memory has been written, and no two threads share an element that one of
them writes.
"""

from __future__ import annotations

import ast
import copy
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from numba import types

from .analysis import Facts, factor
from .kinds import Kinds
from .normalize import BLOCK_VOTES, SIZES, Normalize
from .syntax import (
    BARRIER,
    EXCHANGE,
    GRID_BARRIER,
    MEETINGS,
    SHAPE,
    array_of,
    called,
    duplicate,
    expression,
    jumps,
    meets,
    named,
    stored,
    walk,
)

_THREADS = {"_nb_tx": "_nb_Dx", "_nb_ty": "_nb_Dy", "_nb_tz": "_nb_Dz"}
_BLOCKS = {"_nb_bx": "_nb_Gx", "_nb_by": "_nb_Gy", "_nb_bz": "_nb_Gz"}
_NEGATED = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
#: The largest number of counters for `injective`: one signature serves all kernels.
_COUNTERS = 8


def indices(node: ast.Subscript) -> tuple[str, list[ast.expr]]:
    """Return the array and the indices of `a[i, j]` or `a[i][j]`; "" if it is not an array in a variable."""
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if isinstance(node.value, ast.Name):
        return node.value.id, parts
    if isinstance(node.value, ast.Subscript):
        array, first = indices(node.value)
        if not any(isinstance(p, ast.Slice) for p in first):
            return array, [*first, *parts]
    return "", parts


def _is_size(node: ast.Subscript) -> bool:
    """Return whether an expression is `x.shape[k]` or `x.strides[k]`."""
    return isinstance(node.value, ast.Attribute) and node.value.attr in ("shape", "strides")


@dataclass
class AccessSite:
    """An access in the kernel.

    Attributes:
        parts: its indices, with recomputed variables replaced by their expressions.
        guards: comparisons (left, operator, right) that are true there.
        loops: the arguments of the ranges around it, by the names of the loops' variables.
        near: the accesses that may happen between the same two barriers.
    """

    array: str
    parts: list[ast.expr]
    writes: bool
    reads: bool
    atomic: bool
    guards: list[tuple[ast.expr, ast.cmpop, ast.expr]]
    loops: dict[str, tuple[ast.expr, ...]]
    node: int = 0
    near: set[int] = field(default_factory=set)

    @property
    def form(self) -> str:
        """The indices as text. If they are injective, threads access different elements."""
        used = named(self.parts)
        loops = sorted((n, *map(ast.dump, r)) for n, r in self.loops.items() if n in used)
        return f"{[ast.dump(p) for p in self.parts]} {loops}"


class Sites:
    """The accesses of a kernel.

    Attributes:
        written: arrays that the kernel may write.
        bases: view -> the array that it is made of.
        mixed: views that are not made of one array only.
        loose: arrays with accesses by expressions, such as `x.T[i, j]` and `x.flat[i]`, which are not among `all`.
    """

    def __init__(self, normal: Normalize, facts: Facts, body: list[ast.stmt], parameters: list[str]):
        self.normal, self.facts = normal, facts
        self.all: list[AccessSite] = []
        self.bases: dict[str, str] = {}
        self.mixed: set[str] = set()
        self.written: set[str] = set()
        self.hidden: set[str] = set()  # arrays used in a way that is not followed
        self.loose: set[str] = set()
        self.parameters = {*parameters}
        self.constant = {*SHAPE, *normal.source.parameters} - facts.assigned
        self.edges: list[set[int]] = []
        self.repeated: set[int] = set()  # nodes that may repeat without a barrier
        self._views(body)
        self._walk(body, [], {})
        self._flow(body, set())
        self._near()
        for site in self.all:
            if site.writes:
                self.written.add(self.bases.get(site.array, site.array))
        self.written |= self.hidden

    # ------------------------------------------------------------ accesses

    def _array(self, name: str) -> Any:
        kind = self.facts.kinds.get(name)
        return kind if isinstance(kind, types.Array) else None

    def _views(self, body: list[ast.stmt]) -> None:
        kinds = Kinds(self.facts.kinds, self.normal.space)
        for n in walk(body):
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and self._array(n.targets[0].id):
                name, root = n.targets[0].id, array_of(n.value)
                root = self.bases.get(root, root)
                if not root or self.bases.get(name, root) != root:
                    self.mixed.add(name)
                    self.hidden |= {self.bases.get(m, m) for m in named(n.value) if self._array(m)}
                    self.hidden |= {self.bases[name]} if name in self.bases else set()
                else:
                    self.bases[name] = root
        for n in walk(body):
            if isinstance(n, ast.For) and isinstance(n.target, ast.Name) and self._array(n.target.id):
                self.mixed.add(n.target.id)
            if isinstance(n, ast.Tuple):  # `for a in (x, y)`, `pair = x, y`
                inner = [array_of(e) for e in n.elts if isinstance(kinds.kind(e), types.Array)]
                self.hidden |= {self.bases.get(m, m) for m in inner if self._array(m)}
            followed = called(n).startswith("_nb_atomic_") or called(n) in ("len", *MEETINGS)
            if isinstance(n, ast.Call) and not followed:
                for a in n.args:
                    if isinstance(a, ast.Name) and self._array(a.id):
                        self.hidden.add(self.bases.get(a.id, a.id))
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store):
                array, parts = indices(n)
                kind = self._array(array)
                if not kind or len(parts) != kind.ndim or any(isinstance(p, ast.Slice) for p in parts):
                    self.hidden |= {self.bases.get(m, m) for m in named(n.value) if self._array(m)}

    def _expand(self, node: Any) -> Any:
        return _Expand(self.facts.again).visit(duplicate(node))

    def _walk(self, body: list[ast.stmt], guards: list[Any], loops: dict[str, Any]) -> None:
        guards = [*guards]
        for s in body:
            if isinstance(s, ast.If):
                self._find(s.test, guards, loops)
                self._walk(s.body, [*guards, *self._tests(s.test, True)], loops)
                self._walk(s.orelse, [*guards, *self._tests(s.test, False)], loops)
                if s.body and isinstance(s.body[-1], (ast.Return, ast.Break, ast.Continue)) and not s.orelse:
                    guards += [g for g in self._tests(s.test, False) if not named([g[0], g[2]]) & self._mutable(loops)]
            elif isinstance(s, ast.While):
                self._find(s.test, guards, loops)
                changed = stored(s.body)
                kept = [g for g in guards if not named([g[0], g[2]]) & changed]
                inner = {k: v for k, v in loops.items() if k not in changed}
                tests = [g for g in self._tests(s.test, True) if not named([g[0], g[2]]) & changed]
                self._walk(s.body, [*kept, *tests], inner)
                guards = kept
            elif isinstance(s, ast.For):
                self._find(s.iter, guards, loops)
                changed = stored(s.body) | stored(s.target)
                guards = [g for g in guards if not named([g[0], g[2]]) & changed]
                inner = {k: v for k, v in loops.items() if k not in changed}
                name = s.target.id if isinstance(s.target, ast.Name) else ""
                uniform = meets(s) and name not in self.facts.divergent
                if called(s.iter) == "range" and name and name not in stored(s.body) and not uniform:
                    given = [self._expand(a) for a in s.iter.args]  # type: ignore[attr-defined]
                    if not named(given) & (stored(s.body) - inner.keys()):
                        inner[name] = tuple(given)
                self._walk(s.body, guards, inner)
                self._walk(s.orelse, guards, inner)
            else:
                self._find(s, guards, loops)
                gone = stored(s) - self.facts.again.keys()
                if gone:
                    guards = [g for g in guards if not named([g[0], g[2]]) & gone]

    def _mutable(self, loops: dict[str, Any]) -> set[str]:
        return self.facts.assigned - self.facts.again.keys() - loops.keys()

    def _tests(self, test: ast.expr, holds: bool) -> list[Any]:
        """Return comparisons that are true if a test is true (or false)."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._tests(test.operand, not holds)
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or):
            return [g for v in test.values for g in self._tests(v, holds)]
        if isinstance(test, ast.Compare) and (holds or len(test.ops) == 1):
            sides = [self._expand(v) for v in (test.left, *test.comparators)]
            out = []
            for a, op, b in zip(sides, test.ops, sides[1:], strict=False):
                if type(op) in _NEGATED:
                    out.append((a, op if holds else _NEGATED[type(op)](), b))
            return out
        return []

    def _find(self, node: Any, guards: list[Any], loops: dict[str, Any]) -> None:
        """Record the accesses of a simple statement or an expression."""
        if isinstance(node, ast.BoolOp):
            holds = isinstance(node.op, ast.And)
            for v in node.values:
                self._find(v, guards, loops)
                guards = [*guards, *self._tests(v, holds)]
            return
        if isinstance(node, ast.IfExp):
            self._find(node.test, guards, loops)
            self._find(node.body, [*guards, *self._tests(node.test, True)], loops)
            self._find(node.orelse, [*guards, *self._tests(node.test, False)], loops)
            return
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            self._note(node.target, guards, loops, True, True, False)
            self._find(node.value, guards, loops)
            return
        if isinstance(node, ast.Call) and called(node).startswith("_nb_atomic_") and isinstance(node.args[0], ast.Name):
            element = ast.Subscript(node.args[0], node.args[1], ast.Load())
            self._note(element, guards, loops, True, True, True)
            node.nb_site = element.nb_site  # type: ignore[attr-defined]
            for a in node.args[2:]:
                self._find(a, guards, loops)
            return
        if isinstance(node, ast.Subscript) and indices(node)[0] and self._array(indices(node)[0]):
            self._note(node, guards, loops, isinstance(node.ctx, ast.Store), isinstance(node.ctx, ast.Load), False)
            return
        if isinstance(node, ast.Attribute) and node.attr in SIZES and isinstance(node.value, ast.Name):
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and self._array(node.id):
            self.loose.add(self.bases.get(node.id, node.id))
        for child in ast.iter_child_nodes(node):
            self._find(child, guards, loops)

    def _note(self, node: Any, guards: Any, loops: Any, writes: bool, reads: bool, atomic: bool) -> None:
        array, parts = indices(node)
        node.nb_site = len(self.all)
        site = AccessSite(array, [self._expand(p) for p in parts], writes, reads, atomic, guards, loops)
        self.all.append(site)
        for p in parts:
            self._find(p, guards, loops)

    # ------------------------------------------------------------ what happens between the same barriers

    def _node(self, nodes: Any, before: set[int]) -> int:
        made = len(self.edges)
        self.edges.append(set())
        for k in self.found(nodes):
            self.all[k].node = made
        for b in before:
            self.edges[b].add(made)
        return made

    @staticmethod
    def found(nodes: Any) -> set[int]:
        """Return the numbers of the accesses in statements."""
        return {n.nb_site for n in walk(nodes) if hasattr(n, "nb_site")}

    def _flow(self, body: list[ast.stmt], before: set[int], loop: Any = None) -> set[int]:
        """Add statements to the graph of accesses without a barrier between them; return the last of them."""
        for s in body:
            value: Any = getattr(s, "value", None)
            if called(value) in (BARRIER, GRID_BARRIER):
                before = set()
            elif isinstance(s, (ast.Break, ast.Continue)):
                if loop is not None:
                    loop[isinstance(s, ast.Break)].update(before)
                before = set()
            elif isinstance(s, ast.If) and (meets(s) or (loop is not None and any(jumps(s)))):
                test = self._node(s.test, before)
                before = self._flow(s.body, {test}, loop) | self._flow(s.orelse, {test}, loop)
            elif isinstance(s, (ast.For, ast.While)) and meets(s):
                head = self._node(s.iter if isinstance(s, ast.For) else s.test, before)
                leaves: tuple[set[int], set[int]] = (set(), set())
                last = self._flow(s.body, {head}, leaves) | leaves[0]
                for b in last:
                    self.edges[b].add(head)
                before = {head} | leaves[1]
            else:
                before = {self._node(s, before)}
                if called(value) == EXCHANGE and value.args[0].value in BLOCK_VOTES:
                    before = set()
        return before

    def _near(self) -> None:
        reach = []
        for k in range(len(self.edges)):
            seen, todo = {k}, [k]
            while todo:
                for n in self.edges[todo.pop()] - seen:
                    seen.add(n)
                    todo.append(n)
            reach.append(seen)
        self.repeated = {k for k, after in enumerate(self.edges) if any(k in reach[n] for n in after)}
        for a in self.all:
            a.near = {k for k, b in enumerate(self.all) if b.node in reach[a.node] or a.node in reach[b.node]}

    # ------------------------------------------------------------ one thread's elements

    def private(self, array: str) -> ast.expr:
        """Return the condition under which no two threads of a launch share an element of a global array."""
        mine = [s for s in self.all if self.bases.get(s.array, s.array) == array]
        followed = array not in self.hidden | self.loose
        simple = followed and all(s.array == array and not s.atomic for s in mine)
        if simple and len({s.form for s in mine}) == 1:
            test = self.injective(mine[0], {**_THREADS, **_BLOCKS}, False)
            if test is not None:
                return test
        never: ast.expr = expression("False")
        return never

    def injective(self, site: AccessSite, counters: dict[str, str], uniform: bool) -> ast.expr | None:
        """Return the condition under which the values of these counters give different indices; None if unknown."""
        tests: list[str] = []
        covered: set[str] = set()
        for part in site.parts:
            form = self.affine(part, site, counters, uniform)
            if form is None:
                return None
            coefficients, extents = [], []
            for name, c in form.items():
                covered.add(name)
                coefficients.append(c)
                extents.append(counters[name] if name in counters else str(1 << 30))
            if len(form) > _COUNTERS:
                return None
            while len(coefficients) < _COUNTERS:
                coefficients.append("0")
                extents.append("1")
            if form:
                simple = [n for n, c in form.items() if _is_one(c)]
                if len(form) == 1 and (simple or _holds(f"0 != {form[next(iter(form))]}")):
                    continue
                pairs = (", ".join(map(_number, each)) for each in (coefficients, extents))
                tests.append("_nb_injective(({}), ({}))".format(*pairs))
        tests = [*(f"({size} == 1)" for name, size in counters.items() if name not in covered), *tests]
        made: ast.expr = expression(" & ".join(tests) or "True")
        return made

    def affine(
        self, node: ast.expr, site: AccessSite, counters: dict[str, str], uniform: bool
    ) -> dict[str, str] | None:
        """Return the coefficient of each counter in an index; None if the index is not a linear combination of them."""
        if self.same(node, counters, site, uniform):
            return {}
        if isinstance(node, ast.Name):
            if node.id in site.loops:
                return self._stepped(node.id, site, counters, uniform)
            return {node.id: "1"} if node.id in counters else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            sides = [self.affine(n, site, counters, uniform) for n in (node.left, node.right)]
            if sides[0] is None or sides[1] is None:
                return None
            sign = "+" if isinstance(node.op, ast.Add) else "-"
            return {n: f"({sides[0].get(n, '0')} {sign} {sides[1].get(n, '0')})" for n in {**sides[0], **sides[1]}}
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for a, b in ((node.left, node.right), (node.right, node.left)):
                if self.same(a, counters, site, uniform):
                    form = self.affine(b, site, counters, uniform)
                    return None if form is None else {n: f"({ast.unparse(a)}) * {c}" for n, c in form.items()}
        return None

    def _stepped(self, name: str, site: AccessSite, counters: dict[str, str], uniform: bool) -> dict[str, str] | None:
        given = site.loops[name]
        start = expression("0") if len(given) == 1 else given[0]
        step = given[2] if len(given) == 3 else expression("1")
        outer = copy.copy(site)
        outer.loops = {n: r for n, r in site.loops.items() if n != name}
        form = self.affine(start, outer, counters, uniform)
        if form is None or not self.same(step, counters, outer, uniform):
            return None
        if len(given) < 3 or not named(given):
            numbers = [n.value for n in given if isinstance(n, ast.Constant) and isinstance(n.value, int)]
            if len(numbers) == len(given):
                trips = len(range(*numbers))
                counters[f"_nb_trip_{name}"] = str(trips)
        return {**form, f"_nb_trip_{name}": ast.unparse(step)}

    def same(self, node: ast.expr, counters: dict[str, str], site: AccessSite, uniform: bool) -> bool:
        """Return whether an expression has one value for all counters."""
        names = named(node)
        if names & (counters.keys() | site.loops.keys() | _THREADS.keys()) or not self.facts.pure(node):
            return False
        if uniform:
            return self.facts.uniform(node)
        return not names & (self.facts.assigned | _BLOCKS.keys() | {"_nb_t", *self.normal.local})

    # ------------------------------------------------------------ phases

    def clean(self, body: list[ast.stmt], emit: Any, tracked: list[str]) -> tuple[list[ast.stmt], ast.expr] | None:
        """Return statements and a condition under which the statements of a phase need no checks."""
        found = sorted(self.found(body))
        if not found:
            return None
        if any(isinstance(n, ast.Attribute) and n.attr == "view" for n in walk(body)):
            return None
        if any(isinstance(n, ast.Subscript) and not indices(n)[0] and not _is_size(n) for n in walk(body)):
            return None  # an element of an array that is an expression
        if any(self._is_field(n) for n in walk(body)):
            return None
        inner = {id(n) for n in walk(body) if isinstance(n, ast.Subscript)}
        if not inner and not found:
            return None
        bounds = _Bounds(self, emit, stored(body))
        tests: list[str] = []
        sites = [self.all[k] for k in found]
        if all(any(isinstance(op, ast.Eq) and named([a, b]) & _THREADS.keys() for a, op, b in s.guards) for s in sites):
            return None  # few threads come here
        for s in sites:
            if s.array in self.bases or s.array in self.hidden or s.array in self.mixed:
                return None
            kind = self._array(s.array)
            if kind is None or len(s.parts) != kind.ndim or isinstance(kind.dtype, types.Record):
                return None
            if s.atomic and (s.array in tracked or s.array in self.normal.shared):
                return None
            spans = [bounds.span(p, s) for p in s.parts]
            for axis, span in enumerate(spans):
                if span is None:
                    return None
                tests += [f"({span[0]} >= 0)", f"({span[1]} < {self._size(s.array, axis)})"]
            bounds.spans[id(s)] = spans
        for array in sorted({s.array for s in sites}):
            if array in tracked:
                tests.append(f"_nb_private_{array}")
            elif array in self.normal.shared:
                apart = self._apart(array, sites, {*found}, bounds)
                if apart is None:
                    return None
                shape = self.normal.shared[array][0]
                size = f"{array}.size" if 0 in shape else str(math.prod(shape))
                tests += [f"(_nb_filled_{array}[0] == {size})", *apart]
        tests = [t for t in dict.fromkeys(tests) if not _holds(t)]
        return bounds.out, expression(" & ".join(tests) or "True", emit.line)

    def _is_field(self, node: ast.AST) -> bool:
        """Return whether an expression may be the field of a record in a variable."""
        if not isinstance(node, (ast.Attribute, ast.Subscript)):
            return False
        return isinstance(node.value, ast.Name) and isinstance(self.facts.kinds.get(node.value.id), types.Record)

    def _size(self, array: str, axis: int) -> str:
        """Return the text of an array's size along an axis, at the level of the block."""
        shape = {**self.normal.shared, **self.normal.local}.get(array, ((0,), None))[0]
        return str(shape[axis]) if 0 not in shape else f"{array}.shape[{axis}]"

    def _apart(self, array: str, sites: list[AccessSite], found: set[int], bounds: _Bounds) -> list[str] | None:
        """Return the conditions under which threads access different elements of a shared array."""
        near = {k for s in sites if s.array == array for k in s.near}
        near = {k for k in near if self.bases.get(self.all[k].array, self.all[k].array) == array}
        if not any(self.all[k].writes for k in near):
            return []
        if not near <= found or any(self.all[k].node in self.repeated for k in near):
            return None
        mine = [s for s in sites if s.array == array]
        out: list[str] = []
        for k, a in enumerate(mine):
            for b in mine[k:]:
                if not (a.writes or b.writes):
                    continue
                if a.form == b.form:
                    if named(a.parts) & bounds.changed - a.loops.keys():
                        return None
                    test = self.injective(a, dict(_THREADS), True)
                    if test is None:
                        return None
                    out.append(f"({ast.unparse(_block_level(test, bounds))})")
                else:
                    pairs = zip(bounds.spans[id(a)], bounds.spans[id(b)], strict=True)
                    out.append("(" + " | ".join(f"({p[1]} < {q[0]}) | ({q[1]} < {p[0]})" for p, q in pairs) + ")")
        return out


def _block_level(node: ast.expr, bounds: _Bounds) -> ast.expr:
    made: ast.expr = bounds.emit.at_block(node)
    return made


class _Bounds:
    """Statements that compute the smallest and the largest value of expressions, for the threads of a block."""

    def __init__(self, sites: Sites, emit: Any, changed: set[str]):
        self.sites, self.emit, self.facts = sites, emit, sites.facts
        self.changed = changed - sites.facts.again.keys()
        self.out: list[ast.stmt] = []
        self.spans: dict[int, Any] = {}
        self.known: dict[Any, tuple[str, str] | None] = {}
        self.names: dict[Any, str] = {}

    def span(self, node: ast.expr, site: AccessSite) -> tuple[str, str] | None:
        """Return the names of an expression's smallest and largest value at a site; None if they are unknown."""
        names = named(node)
        guards = [(ast.dump(a), type(op), ast.dump(b)) for a, op, b in site.guards if named([a, b]) & names]
        loops = [(n, *map(ast.dump, r)) for n, r in site.loops.items()]
        key = ast.dump(node), str(guards), str(loops)
        if key not in self.known:
            self.known[key] = None  # a guard may refer to itself
            self.known[key] = self._guarded(node, site)
        return self.known[key]

    def put(self, low: str, high: str, **parts: Any) -> tuple[str, str]:
        """Return the texts of two values. Long ones are assigned to names."""
        return self._short(low, **parts), self._short(high, **parts)

    def _short(self, text: str, **parts: Any) -> str:
        if not parts:
            try:
                return str(_folded(text))
            except ValueError:
                pass
            if len(text) < 40:
                return text if text.isidentifier() else f"({text})"
        key = (text, *map(ast.dump, parts.values()))
        if key not in self.names:
            name = self.emit.fresh("bound", "")
            self.out += self.emit.make(f"{name} = _nb_np.int64({text})" if parts else f"{name} = {text}", **parts)
            self.names[key] = name
        return self.names[key]

    def _guarded(self, node: ast.expr, site: AccessSite) -> tuple[str, str] | None:
        found = self._plain(node, site)
        dump = ast.dump(node)
        difference = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
        lows, highs = [], []
        for a, op, b in site.guards:
            if named([a, b]) & self.changed - site.loops.keys():
                continue
            if isinstance(op, ast.NotEq):
                continue
            for left, right, turned in ((a, b, False), (b, a, True)):
                strict = isinstance(op, (ast.Lt, ast.Gt))
                above = isinstance(op, (ast.Gt, ast.GtE)) != turned or isinstance(op, ast.Eq)
                below = isinstance(op, (ast.Lt, ast.LtE)) != turned or isinstance(op, ast.Eq)
                if ast.dump(left) == dump:
                    limit = self.span(right, site)
                    if limit and above:
                        lows.append(f"{limit[0]} + {int(strict)}")
                    if limit and below:
                        highs.append(f"{limit[1]} - {int(strict)}")
                elif difference and above and ast.dump(ast.BinOp(left, ast.Sub(), right)) == dump:
                    lows.append(str(int(strict)))
        if not lows and not highs:
            return found
        if found:
            lows, highs = [found[0], *lows], [found[1], *highs]
        if not lows or not highs:
            return None
        low = lows[0] if len(lows) == 1 else f"max({', '.join(lows)})"
        high = highs[0] if len(highs) == 1 else f"min({', '.join(highs)})"
        return self.put(low, high)

    def _plain(self, node: ast.expr, site: AccessSite) -> tuple[str, str] | None:
        names = named(node)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return str(node.value), str(node.value)
        integer = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp)) and self._integer(names)
        if integer and not names & (self.changed | site.loops.keys()) and self.facts.uniform(node):
            if isinstance(node, ast.Name) and node.id in SHAPE:
                return node.id, node.id
            name = self._short("VALUE", VALUE=self.emit.at_block(node))
            return name, name
        if isinstance(node, ast.Name):
            if node.id in _THREADS:
                return self.put("0", f"{_THREADS[node.id]} - 1")
            if node.id in site.loops:
                return self._loop(node.id, site)
            return None
        if not isinstance(node, ast.BinOp):
            return None
        a, b = self.span(node.left, site), self.span(node.right, site)
        if isinstance(node.op, (ast.Mod, ast.BitAnd)) and b and b[0] == b[1]:
            # A remainder by a positive number: from 0 to that number less 1 if the dividend is not negative.
            top = f"{b[0]} - 1" if isinstance(node.op, ast.Mod) else b[0]
            return self.put(f"0 if {b[0]} > 0 else -(1 << 40)", top)
        if not a or not b:
            return None
        if isinstance(node.op, ast.Add):
            return self.put(f"{a[0]} + {b[0]}", f"{a[1]} + {b[1]}")
        if isinstance(node.op, ast.Sub):
            return self.put(f"{a[0]} - {b[1]}", f"{a[1]} - {b[0]}")
        if isinstance(node.op, ast.Mult):
            ends = ", ".join(f"{x} * {y}" for x in dict.fromkeys(a) for y in dict.fromkeys(b))
            return self.put(f"min({ends})", f"max({ends})") if "," in ends else self.put(ends, ends)
        if isinstance(node.op, (ast.FloorDiv, ast.RShift)) and b[0] == b[1]:
            sign = "//" if isinstance(node.op, ast.FloorDiv) else ">>"
            if sign == "//" and not isinstance(node.right, ast.Constant):
                return None
            if isinstance(node.right, ast.Constant) and node.right.value <= 0:  # type: ignore[operator]
                return None
            return self.put(f"{a[0]} {sign} {b[0]}", f"{a[1]} {sign} {b[0]}")
        return None

    def _integer(self, names: Iterable[str]) -> bool:
        """Return whether all of these variables are integers, arrays (through their shapes) or constants."""
        for n in names:
            kind = self.facts.kinds.get(n)
            if kind is not None and not isinstance(kind, (types.Integer, types.Array, types.BaseTuple)):
                return False
            if kind is None and not n.startswith("_nb_"):
                value = self.sites.normal.space.get(n)
                if not isinstance(value, int) or isinstance(value, bool):
                    return False
        return True

    def _loop(self, name: str, site: AccessSite) -> tuple[str, str] | None:
        given = site.loops[name]
        outer = copy.copy(site)
        outer.loops = {n: r for n, r in site.loops.items() if n != name}
        outer.guards = []
        start = self.span(given[0], outer) if len(given) > 1 else ("0", "0")
        stop = self.span(given[1] if len(given) > 1 else given[0], outer)
        step = self.span(given[2], outer) if len(given) == 3 else ("1", "1")
        self.spans[id(outer)] = outer  # keeps it alive, so that its id stays unique
        if not start or not stop or not step:
            return None
        falls = f"({stop[0]} + 1)"
        if (step[0].isdecimal() and int(step[0]) > 0) or (len(given) == 3 and factor(given[2], self.facts)):
            return self.put(start[0], f"{stop[1]} - 1")
        return self.put(
            f"{start[0]} if {step[0]} > 0 else min({start[0]}, {falls})",
            f"{stop[1]} - 1 if {step[0]} > 0 else {start[1]}",
        )


def _folded(text: str) -> int:
    """Return the value of a text of numbers only.

    Raises:
        ValueError: it contains names.
    """
    return _value(ast.parse(text, mode="eval").body)


_SIGNS: dict[type, Any] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_COMPARED: dict[type, Any] = {
    ast.Lt: operator.lt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne
}  # fmt: skip


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return int(_SIGNS[type(node.op)](_value(node.left), _value(node.right)))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        return int(_COMPARED[type(node.ops[0])](_value(node.left), _value(node.comparators[0])))
    if called(node) in ("min", "max"):
        values = [_value(a) for a in node.args]  # type: ignore[attr-defined]
        return min(values) if called(node) == "min" else max(values)
    raise ValueError


def _holds(text: str) -> bool:
    """Return whether a comparison of numbers is true; False if it contains names."""
    try:
        return bool(_folded(text))
    except ValueError:
        return False


def _is_one(text: str) -> bool:
    return _holds(f"({text}) == 1")


def _number(text: str) -> str:
    try:
        return str(_folded(text))
    except ValueError:
        return f"_nb_np.int64({text})"


class _Expand(ast.NodeTransformer):
    """Replace the variables that each phase recomputes by their expressions."""

    def __init__(self, again: dict[str, ast.expr]):
        self.again = again

    def visit_Name(self, node: ast.Name) -> Any:
        value = self.again.get(node.id)
        if value is None:
            return node
        if any(isinstance(n, ast.Subscript) and not isinstance(n.value, ast.Attribute) for n in walk(value)):
            return node
        return self.visit(duplicate(value))

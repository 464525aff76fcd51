"""Emit a kernel as phases: step 4 of the compiled simulator.

A phase is a loop over the threads of a block, between two points where threads meet. A branch or loop that contains a
barrier stays outside of these loops if its condition is uniform. Otherwise it becomes masks: for each thread, a byte
that says whether it takes part.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numba import types

from . import half, matrices, warps
from .analysis import Facts, factor
from .normalize import BLOCK_VOTES, Normalize
from .syntax import (
    BARRIER,
    BLOCK,
    EXCHANGE,
    MEETINGS,
    RAISE,
    SHAPE,
    THREAD,
    WARP_BARRIER,
    assignment,
    called,
    duplicate,
    exposed,
    expression,
    jumps,
    meets,
    named,
    returns,
    statements,
    stored,
    walk,
)
from .variables import Carried

#: The error code of an exception that a thread raised itself.
RAISED = 5


class Checker(Protocol):
    """The statements that checked mode adds to phases."""

    def body(self, body: list[ast.stmt], emit: Phases) -> list[ast.stmt]:
        """Return the statements of a phase with checks."""

    def barrier(self, emit: Phases, kind: str) -> list[ast.stmt]:
        """Return the statements where a phase ends."""

    def enter(self, emit: Phases) -> list[ast.stmt]:
        """Return the statements where a block of a grid that synchronizes begins its part of a phase."""

    def clean(self, body: list[ast.stmt], emit: Phases) -> tuple[list[ast.stmt], ast.expr] | None:
        """Return statements and a condition under which a phase needs no checks."""


@dataclass(frozen=True)
class Masks:
    """The masks of a statement: those of the innermost loop with masks, and of the innermost branch inside it.

    Attributes:
        line: the line of the branch or loop that separated the threads.
    """

    loop: tuple[str, ...] = ()
    side: tuple[str, ...] = ()
    line: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return self.loop + self.side


@dataclass
class _Loop:
    """A loop around the current statement, with masks unless it is a plain loop of the block."""

    runs: str = ""
    turn: str = ""


@dataclass
class Phases:
    """Emit blocks of statements for all threads. The first pass (`carried` is None) only finds the carried variables.

    Attributes:
        returning: whether later phases must know which threads returned.
        carried: the variables that live across phases.
        several: whether there are several phases.
        axes: how many axes a block has; 1 if it is one thread long along y and z.
        peels: whether uniform values are computed outside of phases.
        needed, runs, dead: found by this pass: the values for the next one.
        at: the masks of the current barrier.
    """

    normal: Normalize
    facts: Facts
    returning: bool
    checker: Checker | None = None
    carried: set[str] | None = None
    several: bool = True
    axes: int = 3
    peels: bool = False
    needed: set[str] = field(default_factory=set)
    runs: int = 0
    heads: list[ast.stmt] = field(default_factory=list)
    line: int = 1
    loops: list[_Loop] = field(default_factory=list)
    count: int = 0
    died: bool = False
    dead: bool = False
    at: Masks = field(default_factory=Masks)

    @property
    def kinds(self) -> dict[str, types.Type]:
        return self.facts.kinds

    def make(self, text: str, **parts: Any) -> list[ast.stmt]:
        return statements(text, self.line, **parts)

    def fresh(self, stem: str, dtype: str = "_nb_np.uint8") -> str:
        """Return the name of a new array with an element for each thread; of a new scalar if `dtype` is empty."""
        self.count += 1
        name = f"_nb_{stem}_{self.count}"
        if dtype:
            self.heads += self.make(f"{name} = _nb_zeros(_nb_slots, {dtype})")
        return name

    @property
    def slot(self) -> str:
        """The index of a thread in per-thread arrays."""
        return "_nb_slot" if self.normal.grid else "_nb_t"

    def variable(self, name: str) -> Carried:
        return Carried(name, self.kinds[name], name not in self.facts.divergent, self.normal.source, self.slot)

    # ------------------------------------------------------------ blocks

    def block(self, body: list[ast.stmt], masks: Masks) -> list[ast.stmt]:
        """Return statements for all threads, given the statements of one thread."""
        out: list[ast.stmt] = []
        run: list[ast.stmt] = []

        def flush() -> list[ast.stmt]:
            done = run[:]
            run.clear()
            return self.peeled(done, masks)

        for s in body:
            self.line = s.lineno
            value = getattr(s, "value", None)
            if not self.splits(s):
                run.append(s)
            elif called(value) == EXCHANGE:
                assert isinstance(s, ast.Assign)
                exchange = self.exchange(s, masks)
                self.line = s.lineno
                run += exchange.before
                out += self.phase(run[:], masks, exchange.first)
                run.clear()
                self.line = s.lineno
                out += self.barrier(masks, BARRIER if exchange.uniform else EXCHANGE) + exchange.between
                run += exchange.after
            else:
                out += flush()
                self.line = s.lineno
                out += self.split(s, masks)
        return out + flush()

    def peeled(self, body: list[ast.stmt], masks: Masks) -> list[ast.stmt]:
        """Return a phase without the uniform assignments at its start and end, which are moved before and after it."""
        first, last = 0, len(body)
        if self.peels and not masks.names:
            while first < last and self.same(body[first]):
                first += 1
            while last > first and self.same(body[last - 1]):
                last -= 1
        out = [each for s in body[:first] for each in self.at_once(s)]
        if first < last:
            out += self.phase(body[first:last], masks)
        return out + [each for s in body[last:] for each in self.at_once(s)]

    def same(self, s: ast.stmt) -> bool:
        """Return whether a statement gives one variable one value for all threads."""
        if not isinstance(s, (ast.Assign, ast.AugAssign)):
            return False
        target = s.targets[0] if isinstance(s, ast.Assign) else s.target
        return (
            isinstance(target, ast.Name)
            and target.id not in self.facts.divergent
            and target.id not in self.facts.again
            and isinstance(self.kinds.get(target.id), (types.Number, types.Boolean))
            and self.facts.uniform(s.value)
        )

    def at_once(self, s: ast.stmt) -> list[ast.stmt]:
        """Return a statement for which `same` is true, executed once for all threads."""
        assert isinstance(s, (ast.Assign, ast.AugAssign))
        target = s.targets[0] if isinstance(s, ast.Assign) else s.target
        assert isinstance(target, ast.Name)
        if self.carried is not None and target.id not in self.carried:
            return []  # nothing reads it
        value = self.at_block(s.value)
        self.line = s.lineno
        name = f"_nb_u_{target.id}"
        if isinstance(s, ast.Assign):
            return [assignment(name, value, s.lineno)]
        self.needed.add(target.id)
        made = ast.AugAssign(ast.Name(name, ast.Store()), s.op, value)
        return [ast.fix_missing_locations(ast.copy_location(made, s))]

    def splits(self, s: ast.stmt) -> bool:
        """Return whether a statement cannot be inside a loop over threads."""
        return meets(s) or (bool(self.loops) and any(jumps(s))) or self.strided(s)

    def split(self, s: ast.stmt, masks: Masks) -> list[ast.stmt]:
        value = getattr(s, "value", None)
        if called(value) in MEETINGS:
            return self.barrier(masks, called(value))
        if isinstance(s, ast.If):
            return self.branch(s, masks)
        if isinstance(s, ast.For) and self.strided(s):
            return self.in_step(s, masks)
        if isinstance(s, (ast.For, ast.While)):
            return self.loop(s, masks)
        if isinstance(s, (ast.Break, ast.Continue)):
            return self.leave(s, masks)
        raise self.normal.source.unsupported(s.lineno, f"`{ast.unparse(s)[:60]}` with a barrier in it")

    # ------------------------------------------------------------ phases

    def phase(self, body: list[ast.stmt], masks: Masks, first: list[ast.stmt] | None = None) -> list[ast.stmt]:
        """Return a loop over all threads. `first` comes before the masks."""
        self.runs += 1
        self.dead |= self.died
        read: set[str] = set()
        fresh = (exposed(body, set(), read) or set()) - read  # assigned before they are read
        self.needed |= read
        body = duplicate(body)
        dies = returns(body)
        if dies:
            body = self.returned(body, 0)
            self.died, self.dead = True, self.dead or bool(self.loops) or bool(masks.names)
        mentioned = named(body)
        again: list[ast.stmt] = []
        for name, value in reversed(self.facts.again.items()):
            if name in mentioned:
                mentioned |= named(value)
                if not self.facts.uniform(value):
                    again.insert(0, assignment(name, duplicate(value)))
        body = [r for s in body for r in self.reviewed(s)] or [*self.make("pass")]
        raises = any(called(n) == RAISE for n in walk(body))
        limit, few = (None, body) if first or raises else self.limited(body)
        loads: list[ast.stmt] = []
        stores: list[ast.stmt] = []
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        writes = stored(body)
        for name in sorted((self.carried or set()) & mentioned):
            v = self.variable(name)
            if name not in fresh:
                loads += v.load(self.line)
            if name in writes:
                stores += v.store(self.line)
                before += v.before(self.line)
                after += v.after(self.line)
        for name in self.normal.local:
            if name in mentioned:
                place = self.slot if self.several else "0"
                again[:0] = self.make(f"{name} = _nb_all_{name}[{place}]")  # views of it may be made again
        if self.normal.grid:
            for name in self.normal.shared:
                if name in mentioned:
                    again[:0] = self.make(f"{name} = _nb_all_{name}[_nb_block]")
        clean, unchecked = None, body
        if self.checker:
            clean = self.checker.clean(body, self)
            unchecked = duplicate(few) if clean else body
            body = self.checker.body(body, self)
        else:
            body = few
        guards = [f"{m}[{self.slot}] == 0" for m in [*(["_nb_alive"] if self.returning else []), *masks.names]]
        guard = self.make(f"if {' or '.join(guards)}: continue") if guards else []
        inner = [*(first or []), *guard, *again, *loads, *body, *stores]
        inner = [_Raise(self.make).visit(s) for s in inner] if raises else inner
        run = self.threads_one_by_one(inner) if clean else self.threads(inner, None if self.checker else limit)
        if clean:
            inner = duplicate([*(first or []), *guard, *again, *loads, *unchecked, *stores])
            inner = [_Raise(self.make).visit(s) for s in inner] if raises else inner
            parts = {"CLEAN": self.threads(inner, limit), "CHECKED": run}
            run = [*clean[0], *self.make("if TEST:\n CLEAN\nelse:\n CHECKED", TEST=clean[1], **parts)]
        out = [*before, *run, *after]
        if raises:
            out += self.make("if _nb_error[0] != 0: return")
        if dies and self.returning:
            out += self.make(f"if _nb_living == 0: {self.out_of_here}")
        return out

    @property
    def out_of_here(self) -> str:
        """The jump out of the block's innermost loop, or to the next block."""
        return "break" if self.loops or self.normal.grid else "continue"

    def limited(self, body: list[ast.stmt]) -> tuple[ast.expr | None, list[ast.stmt]]:
        """Return how many threads along x have work to do, and their statements; None if all threads have.

        A lone `if i < n: ...` becomes a loop over the threads with `i < n`. Without the test, LLVM vectorizes it.
        """
        if len(body) != 1 or not isinstance(body[0], ast.If) or body[0].orelse or self.normal.grid:
            return None, body
        test = body[0].test
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        for k, part in enumerate(parts):
            if (limit := self.limit(part)) is None:
                continue
            rest = duplicate([*parts[:k], *parts[k + 1 :]])
            if not rest:
                return limit, body[0].body
            made = copy.copy(body[0])
            made.test = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(ast.And(), rest), test)
            return limit, [made]
        return None, body

    def limit(self, test: ast.expr) -> ast.expr | None:
        """Return n such that `_nb_tx < n` is equivalent to a test; None if no n is."""
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return None
        left, right, op = test.left, test.comparators[0], test.ops[0]
        if isinstance(op, (ast.Gt, ast.GtE)):
            left, right = right, left
        elif not isinstance(op, (ast.Lt, ast.LtE)):
            return None
        todo, terms = [left], []
        while todo:
            node = todo.pop()
            while isinstance(node, ast.Name) and node.id in self.facts.again:
                node = self.facts.again[node.id]
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                todo += [node.left, node.right]
            else:
                terms.append(node)
        own = [n for n in terms if isinstance(n, ast.Name) and n.id == "_nb_tx"]
        others = [n for n in terms if n not in own]
        if len(own) != 1 or not all(self.facts.uniform(n) and self.signed(n) for n in (*others, right)):
            return None
        found = self.at_block(right)
        for n in others:
            found = expression("A - B", self.line, A=found, B=self.at_block(n))
        made: ast.expr = expression("A + 1", self.line, A=found) if isinstance(op, (ast.LtE, ast.GtE)) else found
        return made

    def signed(self, node: ast.expr) -> bool:
        """Return whether an expression consists of signed integers and array sizes, combined by simple arithmetic."""
        if isinstance(node, ast.Constant):
            return type(node.value) is int
        if isinstance(node, ast.BinOp):
            simple = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv))
            return simple and self.signed(node.left) and self.signed(node.right)
        if isinstance(node, ast.Subscript):
            return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
        if isinstance(node, ast.Attribute):
            return node.attr == "size" and isinstance(node.value, ast.Name)
        if not isinstance(node, ast.Name):
            return False
        kind = self.kinds.get(node.id)
        if kind is None:
            return node.id.startswith("_nb_") or type(self.normal.space.get(node.id)) is int
        return isinstance(kind, types.Integer) and kind.signed

    def threads(self, inner: list[ast.stmt], limit: ast.expr | None = None) -> list[ast.stmt]:
        """Return loops over all threads, or over the first `limit` along x."""
        place = ("_nb_tx", "_nb_tx + _nb_Dx * _nb_ty", "_nb_tx + _nb_Dx * (_nb_ty + _nb_Dy * _nb_tz)")[self.axes - 1]
        count = expression("min(_nb_Dx, LIMIT)", self.line, LIMIT=limit) if limit else expression("_nb_Dx", self.line)
        text = f"for _nb_tx in range(COUNT):\n _nb_t = {place}\n INNER"
        inner = [*(self.make("_nb_slot = _nb_block * _nb_T + _nb_t") if self.normal.grid else []), *inner]
        loops = self.make(text, COUNT=count, INNER=inner)
        for axis in "yz"[: self.axes - 1]:
            loops = self.make(f"for _nb_t{axis} in range(_nb_D{axis}):\n INNER", INNER=loops)
        return self.blocks(loops) if self.normal.grid else loops

    def threads_one_by_one(self, inner: list[ast.stmt]) -> list[ast.stmt]:
        """Return one loop over all threads. It compiles faster than `threads`, but runs slower without checks."""
        used = named(inner)
        places = [f"_nb_t{a} = _nb_places_{a}[_nb_t]" for a in "xyz"[: self.axes] if f"_nb_t{a}" in used]
        text = "_nb_tx = _nb_t" if self.axes == 1 else "\n".join(places) or "pass"
        return self.make("for _nb_t in range(_nb_T):\n PLACES\n INNER", PLACES=self.make(text), INNER=inner)

    def blocks(self, inner: list[ast.stmt]) -> list[ast.stmt]:
        """Return a loop over the blocks of a grid that synchronizes."""
        return self.make(
            """
            for _nb_block in range(_nb_first, _nb_last):
                _nb_bx = _nb_block % _nb_Gx
                _nb_by = _nb_block // _nb_Gx % _nb_Gy
                _nb_bz = _nb_block // (_nb_Gx * _nb_Gy)
                INNER
            """,
            INNER=[*(self.checker.enter(self) if self.checker else []), *inner],
        )

    def repeated(self, s: ast.stmt) -> bool:
        return isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and s.targets[0].id in self.facts.again

    def reviewed(self, s: ast.stmt) -> list[ast.stmt]:
        """Return a statement unless phases repeat it. Checked mode keeps a view with indices, to check these here."""
        if not self.repeated(s):
            return [s]
        target, value = s.targets[0].id, s.value  # type: ignore[attr-defined]
        if not self.checker or not isinstance(value, ast.Subscript):
            return []
        parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
        if all(isinstance(p, ast.Slice) for p in parts):
            return []
        return [assignment(f"_nb_seen_{target}", value, s.lineno)]

    def returned(self, body: list[ast.stmt], depth: int) -> list[ast.stmt]:
        """Return statements without `return`: a thread that returns jumps to the end of the phase, and is dead."""
        out: list[ast.stmt] = []
        for s in body:
            if isinstance(s, ast.Return):
                dead = f"_nb_alive[{self.slot}] = 0\n_nb_living -= 1\n" if self.returning else ""
                text = dead + ("_nb_back = True" if depth else "pass")
                jump: ast.stmt = ast.Break() if depth else ast.Continue()
                return [*out, *statements(text, s.lineno), ast.copy_location(jump, s)]
            had = returns(s)
            deeper = depth + isinstance(s, (ast.For, ast.While))
            for part in ("body", "orelse"):
                if getattr(s, part, None):
                    setattr(s, part, self.returned(getattr(s, part), deeper))
            if had and isinstance(s, (ast.For, ast.While)):
                jump = ast.copy_location(ast.Break() if depth else ast.Continue(), s)
                out += [*statements("_nb_back = False", s.lineno), s]
                out += statements("if _nb_back:\n JUMP", s.lineno, JUMP=[jump])
            else:
                out.append(s)
        return out

    # ------------------------------------------------------------ where threads meet

    def barrier(self, masks: Masks, kind: str) -> list[ast.stmt]:
        """Return the statements of a barrier. With masks, they count the threads that reach it."""
        self.at = masks
        step = self.checker.barrier(self, kind) if self.checker else []
        if kind in (WARP_BARRIER, EXCHANGE) or not masks.names:
            return step
        alive = f"_nb_alive[{self.slot}] != 0" if self.returning else "True"
        here = " and ".join(f"{m}[{self.slot}] != 0" for m in masks.names)
        slot = "_nb_slot = _nb_block * _nb_T + _nb_t" if self.normal.grid else "pass"
        count = self.make(
            f"""
            _nb_come, _nb_all = 0, 0
            for _nb_t in range(_nb_T):
                {slot}
                if {alive}:
                    _nb_all += 1
                    if {here}: _nb_come += 1
            if _nb_come != 0 and _nb_come != _nb_all:
                _nb_error[0], _nb_error[1], _nb_error[3] = 4, {self.line}, _nb_come
                _nb_error[4], _nb_error[5], _nb_error[6] = _nb_block, _nb_all, {masks.line}
                return
            """
        )
        return [*(self.blocks(count) if self.normal.grid else count), *step]

    def exchange(self, s: ast.Assign, masks: Masks) -> _Exchange:
        """Return the statements of a shuffle or vote."""
        assert isinstance(s.value, ast.Call) and isinstance(s.targets[0], ast.Name)
        kind_node, *given = s.value.args
        kind: str = kind_node.value  # type: ignore[attr-defined]
        result = s.targets[0].id
        if kind.startswith(("mma", "ldmatrix")):
            return self.of_matrices(kind, result, given, s.lineno)
        board, came = f"_nb_board{result}", f"_nb_came{result}"
        guards = [*(["_nb_alive"] if self.returning else []), *masks.names]
        whole, own = not guards, len(guards) > 1  # all threads reach it; several masks are combined on a board
        if len(guards) == 1:
            came = guards[0]
        value = given[0] if kind in BLOCK_VOTES else given[1] if len(given) > 1 else None
        if self.carried is not None:
            dtype: Any = np.dtype(np.int64)
            if kind in BLOCK_VOTES or kind in warps.VOTES:
                dtype = np.dtype(np.uint8)
            elif isinstance(self.kinds.get(result), types.BaseTuple):
                pass
            elif kind.startswith("shfl"):
                dtype = half.as_dtype(self.kinds[result])
            elif value is not None:
                dtype = np.dtype(np.float64 if self._real(value) else np.int64)
            self.normal.space[f"_nb_dtype{board}"] = dtype
            self.heads += self.make(f"{board} = _nb_zeros(_nb_slots, _nb_dtype{board})")
            if own:
                self.heads += self.make(f"{came} = _nb_zeros(_nb_slots, _nb_np.uint8)")
        if value is not None and (kind in BLOCK_VOTES or kind in warps.VOTES):
            value = expression("1 if VALUE else 0", s.lineno, VALUE=value)
        slot = self.slot
        first = self.make(f"{came}[{slot}] = 0") if own else []
        before = self.make(f"{came}[{slot}] = 1") if own else []
        if kind.startswith("shfl") and isinstance(self.kinds.get(result), types.BaseTuple):
            return self.shuffled(kind, s, given, board, "None" if whole else came, first, before)
        if value is not None:
            before += self.make(f"{board}[{slot}] = VALUE", VALUE=value)
        if kind in BLOCK_VOTES:
            return self.vote(kind, result, board, "" if whole else came, first, before)
        helper = f"_nb_exchange_{kind}"
        self.normal.space[helper] = warps.EXCHANGES[kind]
        part = "[_nb_block * _nb_T:(_nb_block + 1) * _nb_T]" if self.normal.grid else ""
        boards = f"{board}{part}, {'None' if whole else came + part}"
        call = expression(f"{helper}({boards}, _nb_t, _nb_T)", s.lineno)
        mask = given[:1]
        rest = given[2:] if kind.startswith("shfl") else []
        # Literals would compile the function once for each.
        call.args += [expression("_nb_np.int64(A)", s.lineno, A=a) for a in (*mask, *rest)]
        return _Exchange(first, before, [], [assignment(result, call, s.lineno)], False)

    def of_matrices(self, kind: str, result: str, given: list[ast.expr], line: int) -> _Exchange:
        """Return the statements of a product of matrices, or of a load of matrices, by warps."""
        space, slot, board = self.normal.space, self.slot, f"_nb_board{result}"
        if kind.startswith("ldmatrix"):
            numbers = [int(n) for n in kind.split()[1:]]
            name = f"_nb_device_{kind.replace(' ', '_')}"
            space[name] = matrices.load(*numbers)
            if self.carried is not None:
                self.heads += self.make(f"{board} = _nb_zeros(_nb_slots, _nb_np.int64)")
            before = statements(f"{board}[{slot}] = PLACE", line, PLACE=given[0])
            call = expression(f"{name}({board}, {slot}, _nb_t, ARRAYS)", line, ARRAYS=given[1])
            return _Exchange([], before, [], [assignment(result, call, line)], False)
        names = [ast.unparse(each) for each in given]
        sums, a, b = (self.kinds[n] for n in names)
        per_word, dtype = matrices.DEPTHS[kind], half.as_dtype(sums.dtype)
        put, get = f"_nb_put_{kind}", f"_nb_get_{len(sums)}"
        space.update({"_nb_put": matrices.put, "_nb_multiply": matrices.multiply})
        space.update({put: matrices.put_factors(kind), get: matrices.get(len(sums)), f"_nb_dtype{board}": dtype})
        if self.carried is not None:
            for part, count in (("s", len(sums)), ("a", len(a) * per_word), ("b", len(b) * per_word)):
                self.heads += self.make(f"{board}_{part} = _nb_zeros((_nb_slots, {count}), _nb_dtype{board})")
        text = f"_nb_put({board}_s, {slot}, {names[0]})\n{put}({board}_a, {slot}, {names[1]})\n"
        before = statements(f"{text}{put}({board}_b, {slot}, {names[2]})", line)
        text = f"_nb_multiply({board}_s, {board}_a, {board}_b, {slot}, _nb_t, {per_word})\n"
        after = statements(f"{text}{result} = {get}({board}_s, {slot})", line)
        return _Exchange([], before, [], after, False)

    def shuffled(
        self,
        kind: str,
        s: ast.Assign,
        given: list[ast.expr],
        board: str,
        came: str,
        first: list[ast.stmt],
        before: list[ast.stmt],
    ) -> _Exchange:
        """A shuffle of a tuple, which no GPU has: one board for each of its numbers."""
        assert isinstance(s.targets[0], ast.Name)
        result, helper, slot = s.targets[0].id, f"_nb_exchange_{kind}", self.slot
        self.normal.space[helper] = warps.EXCHANGES[kind]
        value = f"_nb_value{result}"
        before = [*before, assignment(value, given[1], s.lineno)]
        part = "[_nb_block * _nb_T:(_nb_block + 1) * _nb_T]" if self.normal.grid else ""
        arguments = ", ".join(map(ast.unparse, (given[0], *given[2:])))
        calls = []
        carried = Carried(value, self.kinds[result], False, self.normal.source, slot)
        self.normal.space.update(carried.helpers())
        for k, (text, dtype) in enumerate(carried.leaves()):
            each = f"{board}_{k}"
            if self.carried is not None:
                self.normal.space[f"_nb_dtype{each}"] = dtype
                self.heads += self.make(f"{each} = _nb_zeros(_nb_slots, _nb_dtype{each})")
            before += self.make(f"{each}[{slot}] = {text}")
            calls.append(f"{helper}({each}{part}, {came}{part if came != 'None' else ''}, _nb_t, _nb_T, {arguments})")
        made = expression(carried._whole(self.kinds[result], iter(calls)), s.lineno)
        return _Exchange(first, before, [], [assignment(result, made, s.lineno)], False)

    def _real(self, value: ast.expr) -> bool:
        kinds = [self.kinds.get(n) for n in named(value)]
        if any(isinstance(k, types.Array) and isinstance(k.dtype, types.Float) for k in kinds):
            return True
        return any(isinstance(k, types.Float) for k in kinds)

    def vote(
        self, kind: str, result: str, board: str, came: str, first: list[ast.stmt], before: list[ast.stmt]
    ) -> _Exchange:
        """Return the statements of a vote of the whole block.

        Its result is uniform, unless the grid synchronizes or a condition separates threads.
        """
        total = {
            "syncthreads_count": "_nb_total",
            "syncthreads_and": "1 if _nb_total == _nb_voters else 0",
            "syncthreads_or": "1 if _nb_total != 0 else 0",
        }[kind]
        slot = "_nb_slot = _nb_block * _nb_T + _nb_t" if self.normal.grid else "pass"
        here = f"{came}[{self.slot}] != 0" if came else "True"
        shared = f"_nb_result{board}" + "[_nb_block]" * self.normal.grid
        uniform = result not in self.facts.divergent
        target = f"_nb_u_{result}" if uniform else shared
        count = self.make(
            f"""
            _nb_total, _nb_voters = 0, 0
            for _nb_t in range(_nb_T):
                {slot}
                if {here}:
                    _nb_voters += 1
                    _nb_total += {board}[{self.slot}]
            {target} = {total}
            """
        )
        if uniform:
            return _Exchange(first, before, count, [], True)
        if self.normal.grid and self.carried is not None:
            self.heads += self.make(f"_nb_result{board} = _nb_zeros(_nb_last, _nb_np.int64)")
        count = self.blocks(count) if self.normal.grid else count
        return _Exchange(first, before, count, self.make(f"{result} = {shared}"), True)

    # ------------------------------------------------------------ branches and loops

    def at_block(self, node: ast.expr) -> ast.expr:
        """Return a uniform expression at the level of the block."""
        self.needed |= named(node)
        node = duplicate(node)
        carried = {n for n in (self.carried or ()) if n not in self.facts.divergent}
        whole: ast.expr = _Whole({n: self.variable(n).whole() for n in named(node) & carried}).visit(node)
        return whole

    def branch(self, s: ast.If, masks: Masks) -> list[ast.stmt]:
        if self.facts.uniform(s.test):
            test = self.at_block(s.test)
            parts = [self.block(part, masks) for part in (s.body, s.orelse)]
            return statements("if TEST:\n BODY\nelse:\n OTHER", s.lineno, TEST=test, BODY=parts[0], OTHER=parts[1])
        line, slot = s.lineno, self.slot
        yes, no = self.fresh("if"), self.fresh("else")
        any_yes, any_no = self.fresh("any", ""), self.fresh("any", "")
        first = self.make(f"{yes}[{slot}] = 0\n{no}[{slot}] = 0")
        body = self.make(
            f"if TEST:\n {yes}[{slot}] = 1\n {any_yes} = 1\nelse:\n {no}[{slot}] = 1\n {any_no} = 1", TEST=s.test
        )
        out = self.make(f"{any_yes} = 0\n{any_no} = 0") + self.phase(body, masks, first)
        for part, side, any_ in ((s.body, yes, any_yes), (s.orelse, no, any_no)):
            if part:
                inner = self.block(part, replace(masks, side=(side,), line=line))
                out += statements(f"if {any_} != 0:\n BODY", line, BODY=inner)
        return out

    def loop(self, s: ast.For | ast.While, masks: Masks) -> list[ast.stmt]:
        condition = s.iter if isinstance(s, ast.For) else s.test
        if self.facts.uniform(condition) and not self.facts.torn(s):
            out = self.plain_loop(s, condition, masks)
        else:
            out = self.masked_loop(s, masks)
        if returns(s) and self.returning:
            out += self.make(f"if _nb_living == 0: {self.out_of_here}")
        return out

    def plain_loop(self, s: ast.For | ast.While, condition: ast.expr, masks: Masks) -> list[ast.stmt]:
        line = s.lineno
        test = self.at_block(condition)
        self.loops.append(_Loop())
        body = self.block(s.body, masks)
        self.loops.pop()
        if isinstance(s, ast.While):
            return statements("while TEST:\n BODY", line, TEST=test, BODY=body)
        assert isinstance(s.target, ast.Name)
        if s.target.id in self.facts.divergent or not self.variable(s.target.id).plain:
            item = self.fresh("item", "")
            self.line = line
            text = f"for {item} in TEST:\n SET\n BODY"
            put = self.phase(self.make(f"{s.target.id} = {item}"), masks)
            return statements(text, line, TEST=test, SET=put, BODY=body)
        return statements(f"for _nb_u_{s.target.id} in TEST:\n BODY", line, TEST=test, BODY=body)

    def masked_loop(self, s: ast.For | ast.While, masks: Masks) -> list[ast.stmt]:
        line, slot = s.lineno, self.slot
        runs, turn, any_ = self.fresh("loop"), self.fresh("turn"), self.fresh("any", "")
        enter = self.phase(self.make(f"{runs}[{slot}] = 1"), masks, self.make(f"{runs}[{slot}] = 0"))
        begin: list[ast.stmt] = []
        if isinstance(s, ast.For):
            assert isinstance(s.target, ast.Name)
            if called(s.iter) != "range":
                raise self.normal.source.unsupported(
                    line, "a loop with a barrier over anything but a range, where threads differ,", "use range"
                )
            at = [self.fresh(n, "_nb_np.int64") for n in ("at", "stop", "step")]
            given: list[ast.expr] = list(s.iter.args)  # type: ignore[attr-defined]
            given = given if len(given) > 1 else [expression("0", line), *given]
            given = given if len(given) == 3 else [*given, expression("1", line)]
            text = "\n".join(f"{a}[{slot}] = {'ABC'[k]}" for k, a in enumerate(at))
            enter += self.phase(self.make(text, **dict(zip("ABC", given, strict=True))), masks)
            a, b, c = (f"{n}[{slot}]" for n in at)
            test = expression(f"{a} < {b} if {c} > 0 else {a} > {b}", line)
            begin = self.make(f"{s.target.id} = {a}\n{a} += {c}")
        else:
            test = s.test
        step = self.make(
            f"if TEST:\n {turn}[{slot}] = 1\n {any_} = 1\n BEGIN\nelse: {runs}[{slot}] = 0", TEST=test, BEGIN=begin
        )
        self.loops.append(_Loop(runs, turn))
        start = self.phase(step, replace(masks, side=(runs,)), self.make(f"{turn}[{slot}] = 0"))
        body = self.block(s.body, Masks((turn,), (), line))
        self.loops.pop()
        text = f"while True:\n {any_} = 0\n BEGIN\n if {any_} == 0: break\n BODY"
        return enter + statements(text, line, BEGIN=start, BODY=body)

    def leave(self, s: ast.Break | ast.Continue, masks: Masks) -> list[ast.stmt]:
        """Return the statements of a `break` or `continue` of a loop around phases."""
        loop = self.loops[-1]
        if not loop.runs:
            return [s]
        text = f"{loop.turn}[{self.slot}] = 0" + (f"\n{loop.runs}[{self.slot}] = 0" if isinstance(s, ast.Break) else "")
        return self.phase(self.make(text), masks)

    # ------------------------------------------------------------ loops in step

    def strided(self, s: ast.stmt) -> bool:
        """Return whether threads stride through memory together. Then running iteration after iteration for all threads
        is faster, because neighbouring threads access neighbouring elements."""
        if not (isinstance(s, ast.For) and called(s.iter) == "range" and isinstance(s.target, ast.Name)) or meets(s):
            return False
        given: list[ast.expr] = s.iter.args  # type: ignore[attr-defined]
        if len(given) != 3 or s.orelse:
            return False
        start, stop, step = given
        facts = self.facts
        return (
            factor(step, facts)
            and facts.pure(start)
            and facts.uniform(stop)
            and not named(start) & (facts.assigned - {*facts.again})
            and not named(stop) & stored(s)
            and s.target.id not in stored(s.body)
            and not any(isinstance(n, (ast.Return, ast.Break, ast.Continue)) for n in ast.walk(s))
        )

    def in_step(self, s: ast.For, masks: Masks) -> list[ast.stmt]:
        start, stop, step = s.iter.args  # type: ignore[attr-defined]
        assert isinstance(s.target, ast.Name)
        trips, trip, i = self.fresh("trips", ""), self.fresh("trip", ""), s.target.id
        parts = {"START": start, "STOP": stop, "STEP": step}
        if origin := self.origin(start):  # the first thread has most iterations
            parts_of_block = {"START": origin, "STOP": self.at_block(stop), "STEP": self.at_block(step)}
            turns = self.make(f"{trips} = (STOP - START + STEP - 1) // STEP", **parts_of_block)
        else:
            count = self.make(f"{trips} = max({trips}, (STOP - START + STEP - 1) // STEP)", **parts)
            turns = self.phase(count, masks)
        one = self.make(f"if START + {trip} * STEP < STOP:\n {i} = START + {trip} * STEP\n BODY", BODY=s.body, **parts)
        self.loops.append(_Loop())
        body = self.phase(one, masks)
        self.loops.pop()
        return statements(f"{trips} = 0\nCOUNT\nfor {trip} in range({trips}):\n BODY", s.lineno, COUNT=turns, BODY=body)

    def origin(self, node: ast.expr) -> ast.expr | None:
        """Return an expression's smallest value, which is the first thread's; None if it is unknown."""
        zero: dict[str, ast.expr] = {n: ast.Constant(0) for n in (*THREAD, *(BLOCK if self.normal.grid else ()))}
        while names := named(node) & self.facts.again.keys():
            node = _Whole({n: self.facts.again[n] for n in names}).visit(duplicate(node))
        grows = all(
            isinstance(n, (ast.Add, ast.Mult, ast.BinOp, ast.Load))
            or (isinstance(n, ast.Name) and n.id in {*THREAD, *BLOCK, *SHAPE})
            or (isinstance(n, ast.Constant) and type(n.value) is int and n.value >= 0)
            for n in ast.walk(node)
        )
        return ast.fix_missing_locations(_Whole(zero).visit(duplicate(node))) if grows else None


class _Raise(ast.NodeTransformer):
    """Store the first exception that a thread raises in the array of errors."""

    def __init__(self, make: Any):
        self.make = make

    def visit_Expr(self, node: ast.Expr) -> Any:
        if called(node.value) != RAISE:
            return node
        number = node.value.args[0].value  # type: ignore[attr-defined]
        return self.make(
            f"""
            if _nb_error[0] == 0:
                _nb_error[0], _nb_error[2], _nb_error[3], _nb_error[4] = {RAISED}, {number}, _nb_t, _nb_block
            """
        )


class _Whole(ast.NodeTransformer):
    """Replace names by expressions."""

    def __init__(self, parts: dict[str, ast.expr]):
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> Any:
        return self.parts.get(node.id, node)


@dataclass
class _Exchange:
    """The statements of a shuffle or vote: before the masks, per thread before and after, and in between."""

    first: list[ast.stmt]
    before: list[ast.stmt]
    between: list[ast.stmt]
    after: list[ast.stmt]
    uniform: bool

"""Give a variable that has several types a name for each of them.

A compiled kernel's variable has one type, because it may live from one phase to another. Numba on a GPU lets each
assignment begin a new variable, unless code reads what two assignments may have written. `split` does the same: the
assignments that some code may read belong together, and each such group has a name of its own. After the types are
known, `unite` gives groups of one type the user's name again.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from numba import types

from .syntax import PREFIX, duplicate, stored, walk

#: The assignments that may have written each variable, by the identities of the assigned names.
_State = dict[str, frozenset[int]]


def _join(*states: _State | None) -> _State | None:
    """Return the state where control comes from several places; None for places that control never reaches."""
    reached = [s for s in states if s is not None]
    if not reached:
        return None
    return {n: frozenset().union(*(s.get(n, frozenset()) for s in reached)) for n in {n for s in reached for n in s}}


@dataclass
class _Jumps:
    """The states at the jumps of a loop."""

    breaks: list[_State | None] = field(default_factory=list)
    continues: list[_State | None] = field(default_factory=list)


class _Assignments:
    """Find the assignments that belong together, by following control through the statements.

    Attributes:
        names: the variables.
        nodes: assigned or read names, by their identities.
    """

    def __init__(self, names: set[str]):
        self.names = names
        self.nodes: dict[int, ast.Name] = {}
        self._same: dict[int, int] = {}

    def group(self, key: int) -> int:
        """Return the assignment that stands for the group of an assigned or read name."""
        while (above := self._same.setdefault(key, key)) != key:
            key = above
        return key

    def _together(self, node: ast.Name, keys: frozenset[int]) -> None:
        for key in keys:  # none where a variable is read before any assignment
            self.nodes[id(node)] = node
            self._same[self.group(key)] = self.group(id(node))

    def _reads(self, nodes: list[ast.AST], state: _State) -> None:
        for node in nodes:
            for n in ast.walk(node):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in self.names:
                    self._together(n, state.get(n.id, frozenset()))

    def _assigned(self, node: ast.AST, state: _State) -> _State:
        made = dict(state)
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in self.names:
                self.nodes[id(n)] = n
                made[n.id] = frozenset({id(n)})
        return made

    def block(self, body: list[ast.stmt], state: _State | None, loop: _Jumps | None = None) -> _State | None:
        """Follow control through a block; return the state at its end."""
        for s in body:
            here = {} if state is None else state
            if isinstance(s, ast.If):
                self._reads([s.test], here)
                state = _join(self.block(s.body, here, loop), self.block(s.orelse, here, loop))
            elif isinstance(s, (ast.For, ast.While)):
                state = self._loop(s, here)
            elif isinstance(s, (ast.Break, ast.Continue)):
                if loop is not None:
                    (loop.breaks if isinstance(s, ast.Break) else loop.continues).append(state)
                state = None
            else:
                self._reads([s], here)
                if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name) and s.target.id in self.names:
                    self._together(s.target, here.get(s.target.id, frozenset()))
                state = None if isinstance(s, ast.Return) else self._assigned(s, here)
        return state

    def _loop(self, s: ast.For | ast.While, before: _State) -> _State | None:
        if isinstance(s, ast.For):
            self._reads([s.iter], before)
        head = before
        while True:
            inside, jumps = head, _Jumps()
            if isinstance(s, ast.For):
                inside = self._assigned(s.target, head)
            else:
                self._reads([s.test], head)
            again = _join(before, self.block(s.body, inside, jumps), *jumps.continues)
            if again == head:
                break
            head = again or {}
        forever = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and bool(s.test.value)
        after = None if forever else self.block(s.orelse, head)
        return _join(after, *jumps.breaks)


def split(body: list[ast.stmt], keeps: set[str]) -> tuple[list[ast.stmt], dict[str, str]]:
    """Return the statements with a name for each group of a variable's assignments.

    Args:
        body: the statements of a kernel.
        keeps: names that stay, such as parameters.

    Returns:
        The statements, and the variables of the new names.
    """
    body = duplicate(body)
    found = _Assignments(stored(body) - keeps)
    found.block(body, {})
    groups: dict[str, list[int]] = {}
    for key, node in found.nodes.items():
        mine = groups.setdefault(node.id, [])
        if found.group(key) not in mine:
            mine.append(found.group(key))
    several = {n: mine for n, mine in groups.items() if len(mine) > 1}
    names: dict[str, str] = {}
    for key, node in found.nodes.items():
        if node.id in several:
            name, node.id = node.id, f"{PREFIX}v{several[node.id].index(found.group(key)) + 1}_{node.id}"
            names[node.id] = name
    return body, names


def unite(body: list[ast.stmt], names: dict[str, str], kinds: dict[str, types.Type]) -> dict[str, types.Type]:
    """Give the groups of one type one name again; a variable's first type has the variable's name.

    Args:
        body: the statements, whose names are changed.
        names: as `split` returns them.
        kinds: the type of each variable.

    Returns:
        The types of the variables that are left.
    """
    first: dict[str, types.Type] = {}
    chosen: dict[tuple[str, types.Type], str] = {}
    new: dict[str, str] = {}
    for each, name in names.items():
        if each in kinds:
            is_first = first.setdefault(name, kinds[each]) == kinds[each]
            new[each] = chosen.setdefault((name, kinds[each]), name if is_first else each)
        else:  # control never reaches it
            new[each] = name
    for n in walk(body):
        if isinstance(n, ast.Name):
            n.id = new.get(n.id, n.id)
    return {new.get(n, n): kind for n, kind in kinds.items()}

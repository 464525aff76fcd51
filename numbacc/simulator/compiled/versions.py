"""Give a variable that has several types a name for each of them.

A compiled kernel's variable has one type, because it may live from one phase to another. Numba on a GPU lets each
assignment begin a new variable. `split` does so where that is simple: in blocks that assign a variable before they read
it, if no code outside of them reads what they assigned, and from one assignment to the next in a block.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

from .syntax import exposed, stored, walk


class _Naming(ast.NodeTransformer):
    def __init__(self, old: str, new: str):
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == self.old:
            node.id = self.new
        return node


def _bodies(s: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Return the blocks in a statement."""
    for part in ("body", "orelse"):
        if getattr(s, part, None):
            yield getattr(s, part)


def _mentions(nodes: ast.AST | list[ast.stmt], name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in walk(nodes))


def _header(s: ast.stmt, name: str) -> bool:
    """Return whether a statement names a variable outside of its blocks."""
    if not any(True for _ in _bodies(s)):
        return _mentions(s, name)
    parts = [part for part in (getattr(s, each, None) for each in ("test", "iter", "target")) if part is not None]
    return any(_mentions(part, name) for part in parts)


def _reads_first(body: list[ast.stmt], name: str) -> bool:
    """Return whether a block may read a variable before it assigns it."""
    found: set[str] = set()
    exposed(body, set(), found)
    return name in found


def _assigns(s: ast.stmt, name: str) -> bool:
    """Return whether a statement is an assignment of a variable."""
    return isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and s.targets[0].id == name


def _split(body: list[ast.stmt], name: str, fresh: Callable[[], str]) -> None:
    """Rename a variable that no code outside of a block reads, and that the block assigns before it reads it."""
    naming = [s for s in body if _mentions(s, name)]
    if not any(_header(s, name) for s in naming):
        inner = [each for s in naming for each in _bodies(s) if _mentions(each, name)]
        if not any(_reads_first(each, name) for each in inner):
            for each in inner:
                _split(each, name, fresh)
            return
    now = name
    for k, s in enumerate(body):
        if _assigns(s, name):
            assert isinstance(s, ast.Assign)
            s.value = _Naming(name, now).visit(s.value)
            now = fresh()
            s.targets = [_Naming(name, now).visit(s.targets[0])]
        elif _mentions(s, name) and _own(s, name) and not _reads_first(body[k + 1 :], name):
            for each in _bodies(s):
                if _mentions(each, name):
                    _split(each, name, fresh)
        else:
            _Naming(name, now).visit(s)


def _own(s: ast.stmt, name: str) -> bool:
    """Return whether a statement names a variable only in blocks that assign it before they read it."""
    return not _header(s, name) and not any(_reads_first(each, name) for each in _bodies(s))


def split(body: list[ast.stmt], keeps: set[str]) -> list[ast.stmt]:
    """Return the statements with a separate name for each value of a variable, where that is simple.

    Args:
        body: the statements of a kernel.
        keeps: names that stay, such as parameters.
    """
    body = copy.deepcopy(body)
    count = 0
    for name in sorted(stored(body) - keeps):
        if _reads_first(body, name):
            continue

        def fresh(name: str = name) -> str:
            nonlocal count
            count += 1
            return f"_nb_v{count}_{name.removeprefix('_nb_')}"

        _split(body, name, fresh)
    return body

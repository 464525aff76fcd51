"""Make statements from templates, and inspect syntax trees.

All names that the simulator generates begin with `_nb_`; `source` rejects kernels with such names.
"""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

Nodes = ast.AST | Sequence[ast.AST]

#: The prefix of generated names.
PREFIX = "_nb_"
#: A thread's indices, and its number in the block.
THREAD = ("_nb_tx", "_nb_ty", "_nb_tz", "_nb_t")
#: A block's indices.
BLOCK = ("_nb_bx", "_nb_by", "_nb_bz")
#: The shape of a block and of the grid.
SHAPE = ("_nb_Dx", "_nb_Dy", "_nb_Dz", "_nb_Gx", "_nb_Gy", "_nb_Gz")
CONTEXT = (*THREAD, *BLOCK, *SHAPE)

#: Calls that stand for a barrier of the grid, the block or the warp, and for an exchange between threads.
GRID_BARRIER, BARRIER, WARP_BARRIER, EXCHANGE = "_nb_syncgrid", "_nb_syncthreads", "_nb_syncwarp", "_nb_exchange"
#: The call that records an exception.
RAISE = "_nb_raise"
MEETINGS = (GRID_BARRIER, BARRIER, WARP_BARRIER, EXCHANGE)


_Tree = TypeVar("_Tree")


def duplicate(tree: _Tree) -> _Tree:
    """Return a copy of a node or of a list of nodes. `copy.deepcopy` takes longer."""
    if isinstance(tree, list):
        return [duplicate(each) for each in tree]  # type: ignore[return-value]
    if not isinstance(tree, ast.AST) or isinstance(tree, ast.expr_context):
        return tree
    made = type(tree).__new__(type(tree))
    for name, value in vars(tree).items():
        setattr(made, name, duplicate(value) if isinstance(value, (ast.AST, list)) else value)
    return made


class _Put(ast.NodeTransformer):
    """Replace names by expressions and statements."""

    def __init__(self, parts: dict[str, Any]):
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> Any:
        return duplicate(self.parts[node.id]) if node.id in self.parts else node

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Name) and isinstance(self.parts.get(node.value.id), list):
            return self.parts[node.value.id] or ast.Pass()
        return self.generic_visit(node)


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.Module:
    return ast.parse(textwrap.dedent(text))


def statements(text: str, line: int = 1, **parts: Any) -> list[ast.stmt]:
    """Return the statements of a template, all with one line number.

    A name that is a keyword argument is replaced: by the given expression, or alone on a line by a list of statements.
    """
    tree = duplicate(_parsed(text))
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    body: list[ast.stmt] = _Put(parts).visit(tree).body
    for each in body:
        ast.fix_missing_locations(each)
    return body


def expression(text: str, line: int = 1, **parts: Any) -> Any:
    """Return the expression of a template."""
    (made,) = statements(text, line, **parts)
    assert isinstance(made, ast.Expr)
    return made.value


def assignment(name: str, value: ast.expr, line: int | None = None) -> ast.Assign:
    """Return `name = value`, at the value's line."""
    made = ast.Assign([ast.Name(name, ast.Store())], value)
    made.lineno = made.end_lineno = value.lineno if line is None else line
    made.col_offset = made.end_col_offset = 0
    return ast.fix_missing_locations(made)


def function(name: str, parameters: Iterable[str], body: list[ast.stmt]) -> ast.Module:
    """Return the tree of a function."""
    tree = ast.parse(f"def {name}({', '.join(parameters)}): pass")
    tree.body[0].body = body or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.fix_missing_locations(tree)


def called(node: Any) -> str:
    """Return the name of the function that a call names; "" for other nodes."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def array_of(node: ast.AST) -> str:
    """Return the name of the array that a view is made of; "" if it is not a view, or not one that can be followed."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript):
        return array_of(node.value)
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return array_of(node.value)
    func = getattr(node, "func", None)
    if isinstance(func, ast.Attribute) and func.attr in ("reshape", "ravel", "transpose"):
        return array_of(func.value)
    return ""


def walk(nodes: Nodes) -> Iterator[ast.AST]:
    """Return all nodes below these nodes."""
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        yield from ast.walk(node)


def stored(nodes: Nodes) -> set[str]:
    """Return the names that statements assign."""
    return {n.id for n in walk(nodes) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def named(nodes: Nodes) -> set[str]:
    """Return all names in statements or expressions."""
    return {n.id for n in walk(nodes) if isinstance(n, ast.Name)}


def jumps(nodes: Nodes) -> Iterator[ast.AST]:
    """Return the breaks and continues that belong to a loop around these statements."""
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        if isinstance(node, (ast.Break, ast.Continue)):
            yield node
        elif not isinstance(node, (ast.For, ast.While, ast.expr)):
            yield from jumps(list(ast.iter_child_nodes(node)))


class Rewriter(ast.NodeTransformer):
    """Rewrite the statements of a block in order, those of its branches and loops too."""

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            if not isinstance(s, (ast.If, ast.For, ast.While)):
                out += self.simple(s)
                continue
            head = "iter" if isinstance(s, ast.For) else "test"
            out += self.ahead(getattr(s, head))
            for part in ("body", "orelse"):
                if inner := getattr(s, part):
                    setattr(s, part, self.block(inner))
            setattr(s, head, self.visit(getattr(s, head)))
            out.append(s)
        return out

    def ahead(self, head: ast.expr) -> list[ast.stmt]:
        """Return the statements before a branch or a loop, given its condition or what it iterates over."""
        return []

    def simple(self, s: ast.stmt) -> list[ast.stmt]:
        """Return what replaces a statement that is neither a branch nor a loop."""
        raise NotImplementedError


class _Pruned(ast.NodeTransformer):
    """Evaluate the tests `x is None` and `x is not None`, and keep only the branches that run."""

    def __init__(self, are_none: Mapping[str, bool]):
        self.are_none = are_none

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        with_none = isinstance(node.comparators[-1], ast.Constant) and node.comparators[-1].value is None
        known = self.are_none.get(node.left.id) if isinstance(node.left, ast.Name) else None
        if with_none and known is not None and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return ast.copy_location(ast.Constant(isinstance(node.ops[0], ast.Is) is known), node)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Constant):
            return ast.copy_location(ast.Constant(not node.operand.value), node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        first = node.values[0]
        if not isinstance(first, ast.Constant):
            return node
        if bool(first.value) != isinstance(node.op, ast.And):
            return first  # the first operand decides
        rest = node.values[1:]
        return rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(node.op, rest), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return (node.body if node.test.value else node.orelse) if isinstance(node.test, ast.Constant) else node

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        if not isinstance(node.test, ast.Constant):
            return node
        return (node.body if node.test.value else node.orelse) or ast.copy_location(ast.Pass(), node)


def pruned(body: list[ast.stmt], are_none: Mapping[str, bool]) -> list[ast.stmt]:
    """Return the statements of a function, given which of its parameters are None and which are not."""
    tree = _Pruned(are_none).visit(ast.Module(duplicate(body), []))
    kept: list[ast.stmt] = tree.body
    return kept


def returns(nodes: Nodes) -> bool:
    """Return whether the nodes contain a `return`."""
    return any(isinstance(n, ast.Return) for n in walk(nodes))


def meets(nodes: Nodes) -> bool:
    """Return whether threads meet in the nodes: at a barrier, a shuffle or a vote."""
    return any(called(n) in MEETINGS for n in walk(nodes))


def exposed(body: Sequence[ast.stmt], known: set[str], found: set[str]) -> set[str] | None:
    """Add to `found` the names that the statements may read before they assign them.

    Returns:
        The names that are certainly assigned, with `known`; None if control never reaches the end.
    """
    for s in body:
        if isinstance(s, ast.If):
            found |= named(s.test) - known
            ways = [exposed(part, set(known), found) for part in (s.body, s.orelse)]
            ends = [way for way in ways if way is not None]
            if not ends:
                return None
            known = set.intersection(*ends)
        elif isinstance(s, ast.For):
            found |= named(s.iter) - known
            exposed(s.body, known | stored(s.target), found)
            exposed(s.orelse, set(known), found)
        elif isinstance(s, ast.While):
            found |= named(s.test) - known
            exposed(s.body, set(known), found)
            exposed(s.orelse, set(known), found)
        elif isinstance(s, (ast.Return, ast.Break, ast.Continue)):
            return None
        else:
            loads = {n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
                loads.add(s.target.id)
            found |= loads - known
            known = known | stored(s)
    return known

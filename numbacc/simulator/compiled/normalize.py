"""Simplify a kernel's syntax: step 1 of the compiled simulator.

Names of CUDA become generated names and calls of helpers. A device function with barriers or shuffles is inlined. Other
device functions become CPU functions with the thread's indices as extra arguments. Each barrier, shuffle or vote
becomes a separate statement.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import operator
from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
from numba import types

from . import atomics, by_address, functions, half, matrices, warps
from .intrinsics import is_opaque, is_scalar, mark, scalar_function
from .loops import hide_trips
from .source import Source, is_device, own, plain
from .syntax import (
    BARRIER,
    CONTEXT,
    EXCHANGE,
    GRID_BARRIER,
    RAISE,
    WARP_BARRIER,
    assignment,
    called,
    duplicate,
    expression,
    function,
    meets,
    named,
    pruned,
    returns,
    statements,
    stored,
    walk,
)
from .warps import of_word, word_of

#: Votes of a whole block.
BLOCK_VOTES = ("syncthreads_count", "syncthreads_and", "syncthreads_or")
#: Calls where threads wait for each other.
_MEETING = {*BLOCK_VOTES, "syncthreads", "syncwarp", "sync"}
_INDICES = {"threadIdx": "t", "blockIdx": "b", "blockDim": "D", "gridDim": "G"}
_IGNORED = ("threadfence", "threadfence_block", "threadfence_system", "nanosleep")
#: Loads and stores with a cache hint.
_LOADS = {f"cuda.{name}" for name in ("ldca", "ldcg", "ldcs", "ldlu", "ldcv")}
_STORES = {f"cuda.{name}" for name in ("stcg", "stcs", "stwb", "stwt")}

#: Attributes of arrays that are not memory.
SIZES = ("shape", "strides", "size", "ndim", "itemsize")

_SIMPLE = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.Expr,
    ast.Return,
    ast.Break,
    ast.Continue,
    ast.Pass,
)


def element(array: ast.expr, index: ast.expr, context: ast.expr_context) -> ast.Subscript:
    """Return `array[index]`."""
    return ast.fix_missing_locations(ast.copy_location(ast.Subscript(array, index, context), array))


class Normalize(ast.NodeTransformer):
    """Rewrite the statements of a kernel.

    Attributes:
        space: the values of names that the result uses.
        shared, local: shape and dtype of arrays by name; a shape with a zero is dynamic shared memory.
        pure: names of functions that read no memory.
        texts: the text of device functions, part of the disk cache's key.
        raised: the exceptions that the kernel raises: the class, its arguments, the file and the line.
        grid: whether the kernel synchronizes the grid.
        inlines: whether all device functions are inlined, so that their accesses can be checked.
        options: Numba's, for scalar functions.
        opaque: names of functions whose code no text tells.
        written: the users' names of variables of inlined functions.
        by_address: whether the kernel accesses memory by addresses, with functions of `numbacc.device`.
        addressed: the shared arrays that have addresses, in the order of their numbers.
    """

    def __init__(
        self,
        source: Source,
        compile_: Callable[[ast.Module, str, dict[str, Any], Source], Any],
        *,
        inlines: bool = False,
        options: dict[str, Any] | None = None,
    ):
        self.source, self.compile, self.inlines, self.options = source, compile_, inlines, options or {}
        self.space: dict[str, Any] = dict(source.names)
        self.shared: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self.local: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self.pure: set[str] = set()
        self.texts: list[str] = []
        self.raised: list[tuple[type[Exception], tuple[Any, ...], str, int]] = []
        self.grid = False
        self.hoisted: list[ast.stmt] = []
        self.grids: set[str] = set()
        self._count = [0]
        self.written: dict[str, str] = {}
        self._locals = {*source.parameters, *stored(source.body)}
        self._stores = _counted(source.body)
        self._inside: list[Any] = [source.function]
        self._devices: dict[int, tuple[str, list[str]]] = {}
        self._scalars: dict[int, str] = {}
        self.opaque: list[str] = []
        self._numbers: dict[int, int] = {}
        self.by_address = False
        self.addressed: list[str] = []

    def fresh(self, stem: str) -> str:
        """Return a new name."""
        self._count[0] += 1
        return f"_nb_{stem}_{self._count[0]}"

    def global_(self, value: Any, stem: str) -> str:
        """Return a new name for a value."""
        name = self.fresh(stem)
        self.space[name] = value
        return name

    # ------------------------------------------------------------ statements

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the simplified statements."""
        out: list[ast.stmt] = []
        for s in body:
            outer, self.hoisted = self.hoisted, []
            new = self.statement(s)
            out += self.hoisted + new
            self.hoisted = outer
        return out

    def statement(self, s: ast.stmt) -> list[ast.stmt]:
        if isinstance(s, ast.If) and (known := self.decided(s.test)) is not None:
            return self.block(s.body if known else s.orelse)
        if isinstance(s, (ast.If, ast.While, ast.For)):
            return self.compound(s)
        if isinstance(s, ast.Assert):
            error = expression("AssertionError(MESSAGE)" if s.msg else "AssertionError()", s.lineno, MESSAGE=s.msg)
            body: list[ast.stmt] = [ast.copy_location(ast.Raise(error), s)]
            return self.block(statements("if not TEST:\n BODY", s.lineno, TEST=s.test, BODY=body))
        if isinstance(s, ast.Raise):
            return self.raising(s)
        if not isinstance(s, _SIMPLE):
            raise self.source.unsupported(s.lineno, f"`{ast.unparse(s).splitlines()[0][:60]}`")
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) and isinstance(s.targets[0], ast.Name):
            path = self.source.path(s.value.func)
            if path in ("cuda.shared.array", "cuda.local.array"):
                name = s.targets[0].id
                if self._stores[name] == 1:
                    self.array(name, s.value, path)
                    return []
                made = self.fresh(name)  # the variable is another array or a number elsewhere
                self.written[made] = self.written.get(name, name)
                self.array(made, s.value, path)
                return [assignment(name, expression(made, s.lineno))]
            if path == "cuda.cg.this_grid":
                self.grids.add(s.targets[0].id)
                return []
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Tuple) and isinstance(s.value, ast.Tuple):
            self.without_grids(s.targets[0], s.value)
        if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and self.source.path(s.value.func) in _STORES:
            array, index, value = self.positional(s.value, "array", "i", "value")
            s = ast.copy_location(ast.Assign([element(array, index, ast.Store())], value), s)
        if isinstance(s, ast.AnnAssign) and s.value is not None:
            s = ast.copy_location(ast.Assign([s.target], s.value), s)
        if isinstance(s, ast.AnnAssign) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)):
            return []
        s = self.visit(s)
        if isinstance(s, ast.Expr) and isinstance(s.value, (ast.Constant, ast.Name)):
            return []  # its call was hoisted
        if isinstance(s, ast.Assign) and len(s.targets) > 1:
            return self.chained(s)
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], (ast.Tuple, ast.List)):
            return self.unpacked(s, s.targets[0].elts, s.value)
        return [s]

    def without_grids(self, target: ast.Tuple, value: ast.Tuple) -> None:
        """Replace `cuda.cg.this_grid()` in `i, grid = cuda.grid(1), cuda.cg.this_grid()` by a number."""
        for k, (name, each) in enumerate(zip(target.elts, value.elts, strict=False)):
            is_grid = isinstance(each, ast.Call) and self.source.path(each.func) == "cuda.cg.this_grid"
            if is_grid and isinstance(name, ast.Name) and len(target.elts) == len(value.elts):
                self.grids.add(name.id)
                value.elts[k] = ast.copy_location(ast.Constant(0), each)

    def decided(self, test: ast.expr) -> bool | None:
        """Return the value of a condition that bools of globals or of a closure decide; None of others."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            known = self.decided(test.operand)
            return None if known is None else not known
        if isinstance(test, ast.BoolOp):
            decisive = isinstance(test.op, ast.Or)
            for each in test.values:
                if (known := self.decided(each)) is None or known is decisive:
                    return known
            return not decisive
        value = self.source.names.get(test.id) if isinstance(test, ast.Name) else None
        return value if isinstance(value, bool) and test.id not in self._locals else None  # type: ignore[attr-defined]

    def raising(self, s: ast.Raise) -> list[ast.stmt]:
        """Rewrite `raise`: the thread records its exception and ends."""
        call = s.exc.func if isinstance(s.exc, ast.Call) else s.exc
        kind = self.source.value(call) if call is not None else None
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise self.source.unsupported(s.lineno, f"`{ast.unparse(s)[:60]}`", "raise an exception by its class")
        given = tuple(self.source.value(a) for a in s.exc.args) if isinstance(s.exc, ast.Call) else ()
        self.raised.append((kind, given, self.source.file, s.lineno))
        return statements(f"{RAISE}({len(self.raised) - 1})\nreturn", s.lineno)

    def positional(self, call: ast.Call, *names: str) -> list[ast.expr]:
        """Return the arguments of a call of CUDA's function with these parameters."""
        given = dict(zip(names, call.args, strict=False)) | {k.arg or "**": k.value for k in call.keywords}
        if given.keys() != {*names} or len(call.args) > len(names):
            raise self.source.unsupported(call.lineno, f"`{ast.unparse(call)}`", f"give it ({', '.join(names)})")
        return [given[n] for n in names]

    def compound(self, s: ast.If | ast.While | ast.For) -> list[ast.stmt]:
        if isinstance(s, ast.For):
            s.iter = self.visit(s.iter)
        else:
            s.test = self.visit(s.test)
        hoisted, self.hoisted = self.hoisted, []
        s.body, s.orelse = self.block(s.body), self.block(s.orelse)
        if isinstance(s, (ast.While, ast.For)) and s.orelse and meets(s):
            raise self.source.unsupported(s.lineno, "`else` after a loop with a barrier", "use a flag")
        if hoisted and isinstance(s, ast.While):  # threads meet in the condition, so test it in the body
            s.body = [*hoisted, *statements("if not TEST: break", s.lineno, TEST=s.test), *s.body]
            hoisted, s.test = [], ast.copy_location(ast.Constant(True), s)
        self.hoisted = hoisted
        if isinstance(s, ast.For) and not isinstance(s.target, ast.Name):  # `for a, b in ...`
            target = ast.copy_location(ast.Name(self.fresh("item"), ast.Store()), s)
            value = ast.copy_location(ast.Name(target.id, ast.Load()), s)
            s.body = [ast.copy_location(ast.Assign([s.target], value), s), *s.body]
            s.target = target
        return [s]

    def chained(self, s: ast.Assign) -> list[ast.stmt]:
        """Split `a = b = value`."""
        name = self.fresh("value")
        out: list[ast.stmt] = [assignment(name, s.value)]
        for target in s.targets:
            each = ast.copy_location(ast.Assign([target], expression(name, s.lineno)), s)
            out += self.unpacked(each, target.elts, each.value) if isinstance(target, ast.Tuple) else [each]
        return out

    def unpacked(self, s: ast.Assign, targets: list[ast.expr], value: ast.expr) -> list[ast.stmt]:
        """Split an assignment to several targets into one assignment for each."""
        if any(isinstance(t, ast.Starred) for t in targets):
            raise self.source.unsupported(s.lineno, "an assignment with *", "name each element")
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            parts = [expression(f"a[{k}]", s.lineno, a=value) for k in range(len(targets))]
        elif isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
            parts = value.elts
            simple = all(isinstance(t, ast.Name) for t in targets)
            if not simple or named(value) & stored(targets):  # all are computed before the first is assigned
                names = [self.fresh("part") for _ in parts]
                out: list[ast.stmt] = [assignment(n, p, s.lineno) for n, p in zip(names, parts, strict=True)]
                for t, n in zip(targets, names, strict=True):
                    out.append(ast.copy_location(ast.Assign([t], expression(n, s.lineno)), s))
                return out
        else:
            name = self.fresh("tuple")
            out = [assignment(name, value, s.lineno)]
            for k, t in enumerate(targets):
                each = ast.copy_location(ast.Assign([t], expression(f"{name}[{k}]", s.lineno)), s)
                out += self.unpacked(each, t.elts, each.value) if isinstance(t, ast.Tuple) else [each]
            return out
        return [ast.copy_location(ast.Assign([t], p), s) for t, p in zip(targets, parts, strict=True)]

    def array(self, name: str, call: ast.Call, path: str) -> None:
        """Record a shared or local array."""
        given = dict(zip(("shape", "dtype"), call.args, strict=False)) | {k.arg or "": k.value for k in call.keywords}
        if not {"shape", "dtype"} <= given.keys():
            raise self.source.unsupported(call.lineno, f"`{ast.unparse(call)}`", "give its shape and dtype")
        shape = self.source.value(given["shape"])
        dtype = self.source.value(given["dtype"])
        table = self.shared if path == "cuda.shared.array" else self.local
        kept = half.as_dtype(dtype)
        try:
            sizes = tuple(map(operator.index, shape if isinstance(shape, tuple) else (shape,)))
        except TypeError:
            what = f"the shape `{ast.unparse(given['shape'])}`, which is not known when the kernel is compiled,"
            raise self.source.unsupported(call.lineno, what, "write a number, or a global name") from None
        table[name] = sizes, kept
        self.space[f"_nb_dtype_{name}"] = kept

    # ------------------------------------------------------------ expressions

    def generic_visit(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.expr):
            return super().generic_visit(node)
        places: list[tuple[Any, Any]] = []  # (a node, a field) or (a list, an index)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                places.append((node, name))
            for k, each in enumerate(value if isinstance(value, list) else ()):
                if isinstance(each, (ast.expr, ast.keyword)):
                    places.append((each, "value") if isinstance(each, ast.keyword) else (value, k))
        parts = [at[key] if isinstance(at, list) else getattr(at, key) for at, key in places]
        for (at, key), part in zip(places, self.in_order(parts, isinstance(node, ast.Call)), strict=True):
            if isinstance(at, list):
                at[key] = part
            else:
                setattr(at, key, part)
        return node

    def in_order(self, nodes: Sequence[ast.expr], calls: bool = False) -> list[Any]:
        """Return the rewritten expressions, whose values are those that Python's order of evaluation gives.

        A part that may change is computed before the statements that later parts put first.

        Args:
            calls: whether the first one is a function to call.
        """
        outer, made, hoisted = self.hoisted, [], []
        for node in nodes:
            self.hoisted = []
            made.append(self.visit(node))
            hoisted.append(self.hoisted)
        self.hoisted = outer
        for k, node in enumerate(made):
            self.hoisted += hoisted[k]
            later = [s for each in hoisted[k + 1 :] for s in each]
            if later and not (calls and k == 0) and self.changes(later, node):
                made[k] = self.saved(node)
        return made

    def saved(self, node: ast.expr) -> Any:
        """Return a new variable that has an expression's value from here on."""
        name = self.fresh("early")
        self.hoisted.append(assignment(name, node, node.lineno))
        return expression(name, node.lineno)

    def changes(self, body: list[ast.stmt], node: ast.expr) -> bool:
        """Return whether statements may change an expression's value, or do what must come after it."""
        if isinstance(node, (ast.Constant, ast.Slice, ast.Starred)):
            return False
        if named(node) & stored(body) or any(self.acts(n) for n in ast.walk(node)):
            return True
        writes = any(isinstance(getattr(n, "ctx", None), ast.Store) and not isinstance(n, ast.Name) for n in walk(body))
        acts = writes or meets(body) or any(self.acts(n) for n in walk(body))
        return acts and any(self.reads(n) for n in ast.walk(node))

    def acts(self, node: ast.AST) -> bool:
        """Return whether a call may write memory."""
        name = called(node)
        return name.startswith("_nb_atomic_") or (
            (name.startswith("_nb_device_") or name in self.opaque) and name not in self.pure
        )

    def reads(self, node: ast.AST) -> bool:
        """Return whether an expression reads memory itself."""
        if isinstance(node, ast.Subscript):
            return not (isinstance(node.value, ast.Attribute) and node.value.attr in SIZES)
        if isinstance(node, ast.Attribute):
            return node.attr not in SIZES and not inspect.ismodule(self.known(node.value))
        return False

    def visit_Assign(self, node: ast.Assign) -> Any:
        node.value, *targets = self.in_order([node.value, *node.targets])
        node.targets = targets
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """Rewrite `y[i] += value`, which reads y[i] before it computes the value."""
        node.target = self.visit(node.target)
        outer, self.hoisted = self.hoisted, []
        node.value = self.visit(node.value)
        later, self.hoisted = self.hoisted, outer
        read: Any = duplicate(node.target)
        read.ctx = ast.Load()
        made: ast.stmt = node
        if self.changes(later, read):
            if isinstance(node.target, ast.Subscript):
                index = node.target.slice
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                parts = [self.saved(p) if self.changes(later, p) else p for p in parts]
                node.target.slice = ast.copy_location(ast.Tuple(parts, ast.Load()), index) if parts[1:] else parts[0]
                read.slice = duplicate(node.target.slice)
            value = ast.copy_location(ast.BinOp(self.saved(read), node.op, node.value), node)
            made = ast.copy_location(ast.Assign([node.target], value), node)
        self.hoisted += later
        return made

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Rewrite `a and b`; as statements if threads meet in a part that may be skipped."""
        parts = []
        for k, each in enumerate(node.values):
            outer, self.hoisted = self.hoisted, []
            value = self.visit(each)
            mine, self.hoisted = self.hoisted, outer
            parts.append((value, mine))
            if k == 0:
                self.hoisted += mine
        if not any(mine for _, mine in parts[1:]):
            node.values = [value for value, _ in parts]
            return node
        name, line = self.fresh("logic"), node.lineno
        test = name if isinstance(node.op, ast.And) else f"not {name}"
        inner: list[ast.stmt] = []
        for k, (value, mine) in reversed([*enumerate(parts)]):
            here: list[ast.stmt] = [assignment(name, value, line), *inner]
            if k == 0:
                self.hoisted += here
            else:
                inner = statements(f"if {test}:\n BODY", line, BODY=[*mine, *here])
        return expression(name, line)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Rewrite `a if c else b`; as statements if threads meet in a or b."""
        if (known := self.decided(node.test)) is not None:
            return self.visit(node.body if known else node.orelse)
        node.test = self.visit(node.test)
        sides = []
        for part in (node.body, node.orelse):
            outer, self.hoisted = self.hoisted, []
            sides.append((self.visit(part), self.hoisted))
            self.hoisted = outer
        (a, first), (b, second) = sides
        if not first and not second:
            node.body, node.orelse = a, b
            return node
        name, line = self.fresh("choice"), node.lineno
        self.hoisted += statements(
            "if TEST:\n FIRST\nelse:\n SECOND", line, TEST=node.test,
            FIRST=[*first, assignment(name, a, line)], SECOND=[*second, assignment(name, b, line)],
        )  # fmt: skip
        return expression(name, line)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        """Rewrite `(n := value)`: put an assignment first."""
        self.hoisted.append(assignment(node.target.id, self.visit(node.value), node.lineno))
        return expression(node.target.id, node.lineno)

    def visit_Lambda(self, node: ast.expr) -> Any:
        raise self.source.unsupported(node.lineno, f"`{ast.unparse(node)[:60]}`", "write a loop or a device function")

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda

    def visit_Name(self, node: ast.Name) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return node
        if self.source.path(node):
            return self.visit_Attribute(node)
        if node.id not in self._locals and is_device(target := self.source.names.get(node.id)):
            return expression(self.argument(node, target), node.lineno)
        if node.id not in self._locals and is_opaque(self.source.names.get(node.id)):
            self.opaque.append(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute | ast.Name) -> Any:
        path, line = self.source.path(node), node.lineno
        if not path:
            return self.generic_visit(node)
        _, *rest = path.split(".")
        if rest and rest[0] in _INDICES and rest[1:]:
            return expression(f"_nb_{_INDICES[rest[0]]}{rest[1]}", line)
        if path == "cuda.laneid":
            return expression("_nb_t % 32", line)
        if path == "cuda.warpsize":
            return expression("32", line)
        if path in functions.FUNCTIONS:
            name = "_nb_f_" + path.replace(".", "_")
            self.space[name] = functions.FUNCTIONS[path]
            self.pure.add(name)
            return expression(name, line)
        value = own(self.source.value(node))
        if isinstance(value, (types.Type, int, float, np.generic)):
            return expression(self.global_(value, "constant"), line)
        raise self.source.unsupported(line, path)

    def visit_Call(self, node: ast.Call) -> Any:
        path, line = self.source.path(node.func), node.lineno
        if not path:
            return self.other_call(node)
        name = path.split(".")[-1]
        if path in ("cuda.shared.array", "cuda.local.array"):
            made = self.fresh("array")
            self.array(made, node, path)
            return expression(made, line)
        if path == "cuda.const.array_like":
            return self.constant(node)
        if path in _LOADS:
            array, index = self.positional(node, "array", "i")
            return self.visit(element(array, index, ast.Load()))
        if path == "cuda.clz" and len(node.args) == 1 and self.source.is_index(node.args[0]):  # it has 32 bits
            node.args = [expression("_nb_np.int32(INDEX)", line, INDEX=node.args[0])]
        arguments = self.in_order(node.args)
        if path == "cuda.syncthreads" or path == "cuda.syncwarp":
            self.hoisted += statements(f"{BARRIER if name == 'syncthreads' else WARP_BARRIER}()", line)
            return expression("None", line)
        if path.startswith("cuda.") and name in _IGNORED:
            return expression("None", line)
        if path == "cuda.lanemask_lt":
            return expression("_nb_np.uint32((1 << (_nb_t & 31)) - 1)", line)
        if path in ("cuda.grid", "cuda.gridsize"):
            each = "_nb_b{0} * _nb_D{0} + _nb_t{0}" if name == "grid" else "_nb_G{0} * _nb_D{0}"
            parts = [each.format(a) for a in "xyz"[: self.source.value(node.args[0])]]
            return expression(parts[0] if len(parts) == 1 else f"({', '.join(parts)})", line)
        if path.startswith("cuda.atomic."):
            return self.atomic(name, arguments, node)
        exchange = name.removesuffix("_sync")
        if name in BLOCK_VOTES or exchange in warps.EXCHANGES:
            result = self.fresh("met")
            self.hoisted += statements(f"{result} = {EXCHANGE}({exchange!r}, ARGUMENTS)", line)
            made_call = self.hoisted[-1].value  # type: ignore[attr-defined]
            given = [*arguments, *(self.visit(k.value) for k in node.keywords)]
            made_call.args[1:] = given
            return expression(result, line)
        node.func, node.args = self.visit(node.func), arguments
        return node

    def other_call(self, node: ast.Call) -> Any:
        """Rewrite a call of a function that is not CUDA's."""
        func, line = node.func, node.lineno
        target = self.known(func)
        for each in (by_address, matrices):
            if each.is_known(target):
                return each.rewritten(self, node, target.__name__)
        if (how := mark(target, "numbacc_board")) is not None:
            return self.on_board(node, how)
        if is_device(target):
            return self.device(node, target)
        if isinstance(func, ast.Attribute) and is_opaque(target):  # a scalar function of `numbacc.device`
            name = f"_nb_of_device_{func.attr}"
            self.space[name] = target
            self.opaque.append(name)
            self.pure.add(name)
            node.func, node.args = expression(name, line), self.in_order(node.args)
            return node
        if isinstance(func, ast.Attribute) and func.attr == "sync":
            owner = func.value
            if self.source.path(getattr(owner, "func", owner)) == "cuda.cg.this_grid" or (
                isinstance(owner, ast.Name) and owner.id in self.grids
            ):
                self.grid = True
                self.hoisted += statements(f"{GRID_BARRIER}()", line)
                return expression("None", line)
        made = half.constructor(self.known(func))
        if made is not None:
            name = self.global_(made, "convert")
            self.pure.add(name)
            node.func = expression(name, line)
            node.args = self.in_order(node.args)
            return node
        return self.generic_visit(node)

    def known(self, node: ast.AST) -> Any:
        """Return the value of a global name, or of an attribute of a module; None for other expressions."""
        return self.source.meaning(node)

    def on_board(self, node: ast.Call, how: str) -> Any:
        """Rewrite a call that stores a value for the other threads of the block, or that reads one ("put", "get")."""
        self.shared[BOARD] = (_SLOTS,), np.dtype(np.int64)
        self.space.update({f"_nb_dtype_{BOARD}": np.dtype(np.int64), "_nb_word_of": word_of, "_nb_of_word": of_word})
        self.written[BOARD] = "the board of numbacc.device"
        slot, value = self.in_order(node.args)
        if how == "get":
            return expression(f"_nb_of_word({BOARD}[SLOT], LIKE)", node.lineno, SLOT=slot, LIKE=value)
        self.hoisted += statements(f"{BOARD}[SLOT] = _nb_word_of(VALUE)", node.lineno, SLOT=slot, VALUE=value)
        return expression("None", node.lineno)

    def constant(self, node: ast.Call) -> Any:
        """Rewrite `cuda.const.array_like(array)`: return the array as a constant."""
        value = np.asanyarray(self.source.value(node.args[0]), order="C")
        return expression(self.global_(value, "constant"), node.lineno)

    def atomic(self, name: str, arguments: list[ast.expr], node: ast.Call) -> Any:
        array = arguments[0]
        mine = isinstance(array, ast.Name) and array.id in self.shared
        table = atomics.SHARED if mine else atomics.GLOBAL
        if name not in table:
            raise self.source.unsupported(node.lineno, f"cuda.atomic.{name}")
        made = f"_nb_atomic_{name}_{'shared' if mine else 'global'}"
        self.space[made] = table[name]
        if name == "compare_and_swap":  # works on element 0
            arguments = [array, ast.copy_location(ast.Constant(0), node), *arguments[1:]]
        return ast.copy_location(ast.Call(ast.Name(made, ast.Load()), arguments, []), node)

    # ------------------------------------------------------------ device functions

    def bound(self, node: ast.Call, inner: Source, functions: Container[str] = ()) -> list[ast.expr]:
        """Return a call's arguments in the order of the function's parameters. `functions` are not evaluated."""
        try:
            given = inspect.signature(inner.function).bind(
                *node.args, **{k.arg or "**": k.value for k in node.keywords}
            )
        except TypeError as error:
            raise self.source.unsupported(node.lineno, f"the call `{ast.unparse(node)}` ({error})") from None
        out = []
        for name, parameter in inspect.signature(inner.function).parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                continue  # nothing reads it
            if name in functions:
                out.append(ast.copy_location(ast.Constant(0), node))
            elif name in given.arguments:
                out.append(given.arguments[name])
            else:
                value = own(parameter.default)
                out.append(expression(self.global_(value, "default"), node.lineno))
        return self.in_order(out)

    def argument(self, node: ast.Name, target: Any) -> str:
        """Return the name of a device function that is an argument of an intrinsic."""
        if is_scalar(target):
            return self.scalar(target)
        inner = Source(target)
        if self.must_inline(inner, [inner.function]):
            raise self.source.unsupported(node.lineno, f"{inner.name} as an argument, where threads meet,")
        name, context = self.device_function(inner)
        if context:
            raise self.source.unsupported(node.lineno, f"{inner.name} as an argument, which uses a thread's index,")
        return name

    def scalar(self, target: Any) -> str:
        """Return the name of a scalar function of numbacc."""
        function = plain(target)
        name = self._scalars.get(id(function))
        if name is None:
            name = self._scalars[id(function)] = f"_nb_scalar_{len(self._scalars)}_{function.__name__}"
            self.pure.add(name)
        self.opaque.append(name)
        self.space[name] = scalar_function(function, self.options)
        return name

    def device(self, node: ast.Call, target: Any) -> Any:
        """A call of a device function."""
        if is_scalar(target):
            name = self.scalar(target)
            given = self.in_order(node.args)
            return ast.copy_location(ast.Call(expression(name, node.lineno), given, []), node)
        inner = Source(target)
        if inner.function in self._inside:
            raise self.source.unsupported(node.lineno, f"recursion ({inner.name} calls itself)", "write it as a loop")
        if self.must_inline(inner, [inner.function]) or self.inlines or self.functions_in(node, inner):
            return self.inline(node, inner)
        name, context = self.device_function(inner)
        arguments = [*self.bound(node, inner), *(ast.Name(c, ast.Load()) for c in context)]
        call = ast.copy_location(ast.Call(ast.Name(name, ast.Load()), arguments, []), node)
        return ast.fix_missing_locations(call)

    def functions_in(self, node: ast.Call, inner: Source) -> dict[str, Any]:
        """Return the arguments of a call that are device functions, by the names of the parameters."""
        try:
            given = inspect.signature(inner.function).bind(
                *node.args, **{k.arg or "**": k.value for k in node.keywords}
            )
        except TypeError:  # `bound` raises the error
            return {}
        found = {n: self.known(a) for n, a in given.arguments.items() if isinstance(a, (ast.Name, ast.Attribute))}
        return {n: value for n, value in found.items() if is_device(value)}

    def must_inline(self, inner: Source, stack: list[Any]) -> bool:
        """Return whether threads meet in a device function, or it has shared or local arrays."""
        local = {*inner.parameters, *stored(inner.body)}
        for n in walk(inner.body):
            if isinstance(n, (ast.Assert, ast.Raise)) or (isinstance(n, ast.Attribute) and n.attr == "sync"):
                return True
            path = inner.path(n) if isinstance(n, (ast.Attribute, ast.Name)) else ""
            last = path.split(".")[-1]
            if path and (last in _MEETING or last.removesuffix("_sync") in warps.EXCHANGES):
                return True
            if path in ("cuda.shared.array", "cuda.local.array"):
                return True
            shadowed = isinstance(n, ast.Name) and n.id in local
            value = None if path or shadowed else inner.meaning(n)
            if mark(value, "numbacc_board") is not None or by_address.is_known(value) or matrices.is_known(value):
                return True
            if is_device(value):
                below, value_line = Source(value), getattr(n, "lineno", inner.line)
                if below.function in stack:
                    raise inner.unsupported(value_line, f"recursion ({below.name} calls itself)", "write it as a loop")
                if self.must_inline(below, [*stack, below.function]):
                    return True
        return False

    def device_function(self, inner: Source) -> tuple[str, list[str]]:
        """Return the name of a device function compiled for the CPU, and the names of its extra arguments."""
        if id(inner.function) not in self._devices:
            normal = Normalize(inner, self.compile, options=self.options)
            normal._count, normal._devices, normal.texts = self._count, self._devices, self.texts
            normal._scalars, normal.opaque, normal._numbers = self._scalars, self.opaque, self._numbers
            normal._inside = [*self._inside, inner.function]
            normal.space.update({n: v for n, v in self.space.items() if n.startswith("_nb_device_")})
            body = normal.block(duplicate(inner.body))
            hide_trips(body, normal.space)
            used = named(body)
            context = [c for c in CONTEXT if c in used]
            tree = function("_nb_device", [*inner.parameters, *context], body)
            text = ast.unparse(tree) + constants(used, normal.space, self._numbers)
            self.texts.append(text)
            # Its name is unique, because the machine code of several kernels is linked together.
            name = f"_nb_device_{inner.name}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
            tree.body[0].name = name  # type: ignore[attr-defined]
            self.space.update({n: v for n, v in normal.space.items() if n.startswith("_nb_")})
            self.space[name] = self.compile(tree, name, normal.space, inner)
            self._devices[id(inner.function)] = (name, context)
            called_names = {called(n) for n in walk(body)}
            if not any(isinstance(n, ast.Subscript) for n in walk(body)) and not any(
                "_nb_atomic" in n or ("_nb_device" in n and n not in self.pure) for n in called_names
            ):
                self.pure.add(name)
        return self._devices[id(inner.function)]

    def inline(self, node: ast.Call, inner: Source) -> Any:
        """Put the statements of a device function before the statement that calls it."""
        suffix = self.fresh(inner.name)
        assigned = stored(inner.body)
        local = {n: f"{suffix}_{n}" for n in {*inner.parameters, *assigned}}
        body: list[ast.stmt] = []
        renamed: dict[str, ast.expr] = {}
        are_none: dict[str, bool] = {}
        source = _Inlined(inner)
        given_functions = self.functions_in(node, inner)
        for parameter, target in given_functions.items():
            if parameter not in inner.parameters:  # it is assigned
                raise self.source.unsupported(node.lineno, f"{inner.name}, which assigns a parameter, {parameter},")
            name = self.fresh("function")
            source.names[name], renamed[parameter] = target, ast.Name(name, ast.Load())
        for parameter, value in zip(inner.parameters, self.bound(node, inner, given_functions), strict=True):
            if parameter in given_functions:
                continue
            if parameter not in assigned and isinstance(value, (ast.Name, ast.Constant)):
                renamed[parameter] = value
                if isinstance(value, ast.Constant):
                    are_none[parameter] = value.value is None
            else:
                body.append(assignment(local[parameter], value, node.lineno))
        statements_ = pruned(inner.body, are_none)
        for each in walk(statements_):
            each.nb_file = inner.file  # type: ignore[attr-defined]
        source.names.update({local[n]: value for n, value in inner.constants.items()})
        for n in sorted(named(statements_) & inner.names.keys() - local.keys()):
            if n in self._locals or (n in self.space and self.space[n] is not inner.names[n]):
                # The kernel has a variable or another global of this name.
                other = self.global_(inner.names[n], f"global_{n}")
                statements_ = [_Rename({n: other}, {}).visit(s) for s in statements_]
                source.names[other] = inner.names[n]
            else:
                self.space[n] = inner.names[n]
        result = f"{suffix}_result"
        self.written.update({new: old for old, new in local.items()}, **{result: f"{inner.name}(...)"})
        statements_ = _Returns(self, result).whole(statements_, node.lineno)
        statements_ = [_Rename(local, renamed).visit(s) for s in statements_]
        self._stores.update(_counted(statements_))
        outer, outer_inside = self.source, self._inside
        self.source, self._inside = source, [*outer_inside, inner.function]
        body += self.block(statements_)
        self.source, self._inside = outer, outer_inside
        self.hoisted += body
        if result not in stored(body) and result not in self.shared and result not in self.local:
            return expression("None", node.lineno)
        return expression(result, node.lineno)


def _counted(body: list[ast.stmt]) -> Counter[str]:
    """Return how many times statements assign each name."""
    return Counter(n.id for n in walk(body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def free_numbers(body: list[ast.stmt], space: dict[str, Any]) -> None:
    """Give a variable a type that fits all its values if one of them is a global number."""
    counts = _counted(body)
    for s in walk(body):
        if not (isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and isinstance(s.value, ast.Name)):
            continue
        number = isinstance(space.get(s.value.id), (bool, int, float, complex, np.bool_, np.number))
        if counts[s.targets[0].id] > 1 and s.value.id not in counts and number:
            s.value = expression("_nb_number(VALUE)", s.lineno, VALUE=s.value)


def constants(names: set[str], space: dict[str, Any], numbers: dict[int, int] | None = None) -> str:
    """Return a text of the values that these names have, for the key of the disk cache.

    Args:
        numbers: the numbers of intrinsics, by id. Different ones may have one name.
    """
    found = []
    numbers = {} if numbers is None else numbers
    for name in sorted(names & space.keys()):
        value = space[name]
        if isinstance(value, np.ndarray):
            value = (value.dtype, value.shape, hashlib.sha256(value.tobytes()).hexdigest())
        elif is_opaque(value):
            value = numbers.setdefault(id(value), len(numbers))
        elif inspect.ismodule(value) or (callable(value) and not isinstance(value, types.Type)):
            value = getattr(value, "__qualname__", getattr(value, "__name__", type(value).__name__))
        found.append(f"{name}={value!r}")
    return "\n".join(found)


#: The shared array that functions of `numbacc.device` exchange values through, and its slots.
BOARD, _SLOTS = "_nb_board", 1024


class _Inlined(Source):
    """The source of a device function to be inlined; some of its globals have other names."""

    def __init__(self, inner: Source):
        self.__dict__.update(inner.__dict__)
        self.names, self.constants = dict(inner.names), {}


class _Rename(ast.NodeTransformer):
    """Rename variables, and replace parameters by expressions."""

    def __init__(self, names: dict[str, str], values: dict[str, ast.expr]):
        self.names, self.values = names, values

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.values:
            return ast.copy_location(duplicate(self.values[node.id]), node)
        node.id = self.names.get(node.id, node.id)
        return node


class _Returns:
    """Replace `return value` by an assignment of the result, and a jump to the end if statements follow."""

    def __init__(self, normal: Normalize, result: str):
        self.normal, self.result = normal, result

    def whole(self, body: list[ast.stmt], line: int) -> list[ast.stmt]:
        if not returns(body):
            return body
        if isinstance(body[-1], ast.Return) and not returns(body[:-1]):
            return [*body[:-1], *self.assigned(body[-1])]
        return statements(f"for {self.normal.fresh('once')} in range(1):\n BODY", line, BODY=self.block(body, 0))

    def assigned(self, s: ast.Return) -> list[ast.stmt]:
        return [] if s.value is None else [assignment(self.result, s.value, s.lineno)]

    def block(self, body: list[ast.stmt], depth: int) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            if isinstance(s, ast.Return):
                flag = statements(f"{self.result}_back = True", s.lineno) if depth else []
                return [*out, *self.assigned(s), *flag, ast.copy_location(ast.Break(), s)]
            had = returns(s)
            deeper = depth + isinstance(s, (ast.For, ast.While))
            for part in ("body", "orelse"):
                if getattr(s, part, None):
                    setattr(s, part, self.block(getattr(s, part), deeper))
            if had and isinstance(s, (ast.For, ast.While)):
                out += [*statements(f"{self.result}_back = False", s.lineno), s]
                out += statements(f"if {self.result}_back: break", s.lineno)
            else:
                out.append(s)
        return out

"""Compile functions of 64-bit integers to LLVM code, statement by statement.

The helpers of checked and traced kernels compute with integers, and with memory at addresses. Numba takes seconds for
them. This translates them in milliseconds, because there is nothing to infer: each variable is an int64, and a test is
true if it is not 0. Supported are assignments, `if`, `while`, `for` over a `range`, `break`, `continue`, `return`,
Python's operators of integers, `min`, `max`, global integers, and calls of other such functions.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import pickle
import textwrap
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from llvmlite import ir
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from ...runtime import disk_cache

__all__ = ["Translation", "addresses", "call", "load", "store"]

_WORD = ir.IntType(64)
_COMPARED: dict[type, str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_METHODS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.LShift: "shl", ast.RShift: "ashr", ast.BitAnd: "and_",
    ast.BitOr: "or_", ast.BitXor: "xor",
}  # fmt: skip


def load(address: int) -> int:
    """Return the 64-bit number at an address."""
    raise NotImplementedError


def store(address: int, value: int) -> None:
    """Write a 64-bit number to an address."""
    raise NotImplementedError


def call(function: int, *args: int) -> int:
    """Call a C function of 64-bit numbers, given its address."""
    raise NotImplementedError


class Translation:
    """The functions of a module that were translated from Python."""

    def __init__(self, module: ir.Module):
        self.module = module
        self._made: dict[Any, ir.Function] = {}

    @staticmethod
    def of(module: Any) -> Translation:
        """Return the translation that belongs to a module."""
        if not hasattr(module, "numbacc_translation"):
            module.numbacc_translation = Translation(module)
        found: Translation = module.numbacc_translation
        return found

    def function(self, function: Any, name: str = "") -> ir.Function:
        """Return a Python function in LLVM's code.

        Args:
            name: under which the machine code can be found; by default, only this module sees the function.
        """
        if function not in self._made:
            parameters, body = _parsed(function)
            own = self.module.get_unique_name(name or f"_nb_int_{function.__name__}")
            kind = ir.FunctionType(_WORD, [_WORD] * len(parameters))
            self._made[function] = made = ir.Function(self.module, kind, own)
            if not name:
                made.linkage = "internal"
            _Body(self, function, made).whole(parameters, body)
        return self._made[function]


@functools.cache
def _parsed(function: FunctionType) -> tuple[list[str], list[ast.stmt]]:
    tree: Any = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    return [a.arg for a in tree.args.args], tree.body


class _Body:
    """Translate the statements of one function."""

    def __init__(self, translation: Translation, function: FunctionType, made: ir.Function):
        self.translation, self.space = translation, function.__globals__
        self.made, self.builder = made, ir.IRBuilder(made.append_basic_block("entry"))
        self.variables: dict[str, Any] = {}
        self.loops: list[tuple[Any, Any]] = []

    def whole(self, parameters: list[str], body: list[ast.stmt]) -> None:
        names = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for name in [*parameters, *sorted(names - {*parameters})]:
            self.variables[name] = self.builder.alloca(_WORD, name=name)
        for name, value in zip(parameters, self.made.args, strict=True):
            self.builder.store(value, self.variables[name])
        self.block(body)
        if not self.builder.block.is_terminated:
            self.builder.ret(_WORD(0))

    # ------------------------------------------------------------ statements

    def block(self, body: list[ast.stmt]) -> None:
        for s in body:
            if self.builder.block.is_terminated:
                return
            self.statement(s)

    def statement(self, s: ast.stmt) -> None:
        builder = self.builder
        if isinstance(s, ast.Assign):
            for target in s.targets:
                self.assign(target, s.value)
        elif isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            made = ast.BinOp(ast.Name(s.target.id, ast.Load()), s.op, s.value)
            builder.store(self.value(made), self.variables[s.target.id])
        elif isinstance(s, ast.Expr):
            if not isinstance(s.value, ast.Constant):
                self.value(s.value)
        elif isinstance(s, ast.If):
            self.branch(self.test(s.test), lambda: self.block(s.body), lambda: self.block(s.orelse))
        elif isinstance(s, ast.While):
            self.loop(lambda: self.test(s.test), s.body, lambda: None)
        elif isinstance(s, ast.For):
            self.counted(s)
        elif isinstance(s, (ast.Break, ast.Continue)):
            builder.branch(self.loops[-1][isinstance(s, ast.Break)])
        elif isinstance(s, ast.Return):
            builder.ret(_WORD(0) if s.value is None else self.value(s.value))
        elif not isinstance(s, ast.Pass):
            raise NotImplementedError(ast.unparse(s))

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            found = [self.value(v) for v in value.elts]
            for t, v in zip(target.elts, found, strict=True):
                self.builder.store(v, self.variables[t.id])  # type: ignore[attr-defined]
        else:
            self.builder.store(self.value(value), self.variables[target.id])  # type: ignore[attr-defined]

    def branch(self, test: Any, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Emit code for both results of a test."""
        blocks = [self.made.append_basic_block(n) for n in ("then", "else", "end")]
        self.builder.cbranch(test, blocks[0], blocks[1])
        for block, work in zip(blocks, (yes, no), strict=False):
            self.builder.position_at_end(block)
            work()
            if not self.builder.block.is_terminated:
                self.builder.branch(blocks[2])
        self.builder.position_at_end(blocks[2])

    def loop(self, test: Callable[[], Any], body: list[ast.stmt], step: Callable[[], None]) -> None:
        builder = self.builder
        head, inside, after, end = (self.made.append_basic_block(n) for n in ("head", "body", "step", "end"))
        builder.branch(head)
        builder.position_at_end(head)
        builder.cbranch(test(), inside, end)
        builder.position_at_end(inside)
        self.loops.append((after, end))
        self.block(body)
        self.loops.pop()
        if not builder.block.is_terminated:
            builder.branch(after)
        builder.position_at_end(after)
        step()
        builder.branch(head)
        builder.position_at_end(end)

    def counted(self, s: ast.For) -> None:
        """Translate a loop over a range. Its step must be a number."""
        builder, given = self.builder, [self.value(a) for a in s.iter.args]  # type: ignore[attr-defined]
        start, stop = (_WORD(0), given[0]) if len(given) == 1 else given[:2]
        step = ast.literal_eval(s.iter.args[2]) if len(given) == 3 else 1  # type: ignore[attr-defined]
        with builder.goto_entry_block():
            at = builder.alloca(_WORD)
        builder.store(start, at)

        def goes_on() -> Any:
            here = builder.load(at)
            return builder.icmp_signed("<" if step > 0 else ">", here, stop)

        def next_one() -> None:
            builder.store(builder.add(builder.load(at), _WORD(step)), at)

        name = s.target.id  # type: ignore[attr-defined]
        self.variables[f"{name} {s.lineno}"] = at
        first = ast.Assign([ast.Name(name, ast.Store())], ast.Name(f"{name} {s.lineno}", ast.Load()))
        self.loop(goes_on, [first, *s.body], next_one)

    # ------------------------------------------------------------ expressions

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression, an int64."""
        builder = self.builder
        if isinstance(node, ast.Constant):
            return _WORD(int(node.value))  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            found = self.variables.get(node.id)
            return _WORD(int(self.space[node.id])) if found is None else builder.load(found)
        if isinstance(node, ast.BinOp):
            return self.operation(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return builder.neg(self.value(node.operand))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            return builder.not_(self.value(node.operand))
        if isinstance(node, ast.IfExp):
            return self.chosen(self.test(node.test), lambda: self.value(node.body), lambda: self.value(node.orelse))
        if isinstance(node, ast.BoolOp):
            first = self.value(node.values[0])
            left = node.values[1] if len(node.values) == 2 else ast.BoolOp(node.op, node.values[1:])
            test = builder.icmp_signed("!=", first, _WORD(0))
            sides = (lambda: self.value(left)), (lambda: first)
            return self.chosen(test, *(sides if isinstance(node.op, ast.And) else sides[::-1]))
        if isinstance(node, ast.Call):
            return self.called(node)
        return builder.zext(self.test(node), _WORD)

    def chosen(self, test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        with self.builder.goto_entry_block():
            at = self.builder.alloca(_WORD)
        self.branch(test, lambda: self.builder.store(yes(), at), lambda: self.builder.store(no(), at))
        return self.builder.load(at)

    def test(self, node: ast.expr) -> Any:
        """Return whether an expression is not 0, as a bit."""
        builder = self.builder
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return builder.not_(self.test(node.operand))
        if not isinstance(node, ast.Compare):
            return builder.icmp_signed("!=", self.value(node), _WORD(0))
        found, left = None, self.value(node.left)
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, (ast.In, ast.NotIn)):
                bit = ir.Constant(ir.IntType(1), 0)
                for each in right.elts:  # type: ignore[attr-defined]
                    bit = builder.or_(bit, builder.icmp_signed("==", left, self.value(each)))
                bit = bit if isinstance(op, ast.In) else builder.not_(bit)
            else:
                value = self.value(right)
                bit, left = builder.icmp_signed(_COMPARED[type(op)], left, value), value
            found = bit if found is None else builder.and_(found, bit)
        return found

    def operation(self, op: ast.operator, a: Any, b: Any) -> Any:
        builder = self.builder
        if type(op) in _METHODS:
            return getattr(builder, _METHODS[type(op)])(a, b)
        quotient, rest = builder.sdiv(a, b), builder.srem(a, b)
        differ = builder.icmp_signed("<", builder.xor(rest, b), _WORD(0))
        below = builder.and_(builder.icmp_signed("!=", rest, _WORD(0)), differ)
        if isinstance(op, ast.FloorDiv):
            return builder.sub(quotient, builder.zext(below, _WORD))
        if isinstance(op, ast.Mod):
            return builder.add(rest, builder.select(below, b, _WORD(0)))
        raise NotImplementedError(type(op).__name__)

    def called(self, node: ast.Call) -> Any:
        builder, name = self.builder, node.func.id  # type: ignore[attr-defined]
        args, target = [self.value(a) for a in node.args], self.space.get(name)
        if target is None and name in ("min", "max"):
            made = args[0]
            for each in args[1:]:
                first = builder.icmp_signed("<=" if name == "min" else ">=", made, each)
                made = builder.select(first, made, each)
            return made
        if target is load:
            return builder.load(builder.inttoptr(args[0], _WORD.as_pointer()))
        if target is store:
            builder.store(args[1], builder.inttoptr(args[0], _WORD.as_pointer()))
            return _WORD(0)
        if target is call:
            kind = ir.FunctionType(_WORD, [_WORD] * (len(args) - 1))
            return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return builder.call(self.translation.function(target), args)


def addresses(functions: Mapping[int, Any], name: str) -> tuple[dict[int, int], Any]:
    """Return the addresses of functions in machine code, which is kept on disk, and an object that keeps it alive.

    Args:
        functions: Python functions, by their numbers.
        name: of the file. It must change whenever the functions do.
    """
    with global_compiler_lock:
        codegen = cpu_target.target_context.codegen()
        target = hashlib.sha256(repr(codegen.magic_tuple()).encode()).hexdigest()[:16]
        made: list[Any] = []

        def compiled() -> bytes:
            made.append(codegen.create_library(name))
            module = made[0].create_ir_module(name)
            for number, function in functions.items():
                Translation.of(module).function(function, f"_nb_function_{number}_{name}")
            made[0].enable_object_caching()
            made[0].add_ir_module(module)
            made[0].finalize()
            return pickle.dumps(made[0].serialize_using_object_code())

        data = disk_cache.kept(f"simulate/{name}-{target}", compiled)
        library = made[0] if made else codegen.unserialize_library(pickle.loads(data))
        found = {n: library.get_pointer_to_function(f"_nb_function_{n}_{name}") for n in functions}
    return found, library

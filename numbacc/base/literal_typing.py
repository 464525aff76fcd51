"""The numbers that are written in a formula, and those that it counts with, in Numba's form of its code.

Numba takes every number that is written for one of 64 bits, and what a float32 meets of 64 bits drags it up to float64.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ._numba import SIMULATED

if not SIMULATED:
    from ._numba import Rewrite, numba_ir, register_rewrite, types

__all__ = ["with_numbers"]


def with_numbers(function: Callable[..., Any], convert: Callable[[Any], Any]) -> Callable[..., Any]:
    """`function`, to be compiled with `convert(number)` in the place of each Python number written in it.

    What counts stays an integer: indices, right sides of shifts, arguments of `range`, the numbers that these are
    computed from or that counters meet; of powers whole floats become such. A counter, or another integer, that meets
    a number of what `convert` makes becomes one of those.
    """
    function._numbacc_convert = convert  # type: ignore[attr-defined]
    return function


if not SIMULATED:
    _POWERS = (operator.pow, operator.ipow)
    #: Operators whose right side is a count.
    _COUNTED = (*_POWERS, operator.lshift, operator.rshift, operator.ilshift, operator.irshift)
    _COMPARED = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
    _ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
    #: Of integers they make integers.
    _WHOLE = (*_ARITHMETIC, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
    _UNARY = (operator.neg, operator.pos, operator.invert)
    _LARGEST_POWER = 64

    @register_rewrite("before-inference")
    class _Numbers(Rewrite):  # type: ignore[misc]
        """See `with_numbers`."""

        def __init__(self, state: Any):
            self._arguments = tuple(getattr(state, "args", None) or ())

        def match(self, func_ir: Any, block: Any, typemap: Any, calltypes: Any) -> bool:
            convert = getattr(func_ir.func_id.func, "_numbacc_convert", None)
            if convert is not None and not hasattr(func_ir, "_numbacc_done"):
                func_ir._numbacc_done = True
                code = _Code(func_ir, type(convert(1)), self._arguments)
                code.write(convert)
                code.meet()
            return False

    class _Code:
        """A function's code, and which of its variables are what.

        Attributes:
            kind: the type that numbers take.
            kept: names of what is an index, a count, or a number that stays an integer with these.
            powers: of these, the whole powers.
            integers: names of variables that hold integers, whatever is done to them.
        """

        def __init__(self, func_ir: Any, kind: type, arguments: Sequence[Any]):
            self._ir, self.kind = func_ir, kind
            self._is_real = issubclass(kind, np.floating)
            # Of uint64 and the int64 that counters are Numba makes floats. Other integers meet each other as integers.
            self._meets = self._is_real or kind is np.uint64
            self._arguments = arguments if self._meets else ()
            self.kept, self.powers = self._counts()
            self._keep_what_makes(self.kept - self.powers)
            self.integers = self._integers()
            self.kept |= self._met_by_integers()

        # -------------------------------------------------------- looking

        def _made(self, variable: Any) -> Any:
            """The value of a variable, None where there are several."""
            try:
                return self._ir.get_definition(variable)
            except KeyError:
                return None

        def _through(self, variable: Any, *ops: str) -> Any:
            """The value of a variable, behind nested expressions of these kinds."""
            for op in ops:
                made = self._made(variable)
                if getattr(made, "op", "") != op:
                    return None
                variable = made.value
            return self._made(variable)

        def _expressions(self) -> Iterator[Any]:
            for block in self._ir.blocks.values():
                yield from block.find_exprs()

        def _called(self, expression: Any) -> Any:
            """The function that is called, None where that is not known."""
            made = self._made(expression.func)
            return _constant_of_module(self._ir, made) if isinstance(made, numba_ir.Expr) else _value(made)

        def _counts(self) -> tuple[set[str], set[str]]:
            """The names of what is an index, a count or a whole power, and of those the powers."""
            kept: set[str] = set()
            powers: set[str] = set()
            for expression in self._expressions():
                if expression.op in ("getitem", "static_getitem"):
                    index = expression.index if expression.op == "getitem" else expression.index_var
                    if index is not None:
                        kept.add(index.name)
                elif expression.op == "call" and self._called(expression) is range:
                    kept |= {argument.name for argument in expression.args}
                elif _operator(expression) in _COUNTED and isinstance(expression.rhs, numba_ir.Var):
                    if _operator(expression) not in _POWERS:
                        kept.add(expression.rhs.name)
                    elif _is_whole(self._ir, expression.rhs):
                        powers.add(expression.rhs.name)
            return kept | powers, powers

        def _keep_what_makes(self, names: set[str]) -> None:
            """Keep what counts are computed from: the 1 of t[k + 1]."""
            names = set(names)
            while names:
                for made in self._ir._definitions.get(names.pop(), ()):
                    if isinstance(made, numba_ir.Var):
                        parts = [made]
                    elif _operator(made) in _WHOLE:
                        parts = [made.lhs, made.rhs]
                    else:
                        parts = [made.value] if getattr(made, "op", "") in ("unary", "cast") else []
                    more = {part.name for part in parts} - self.kept
                    self.kept |= more
                    names |= more

        def _integers(self) -> set[str]:
            """All variables, less those that are made of anything else but integers."""
            found, before = set(self._ir._definitions), -1
            while len(found) != before:
                before = len(found)
                for name in sorted(found):
                    if not all(self._is_integer(made, name, found) for made in self._ir._definitions[name]):
                        found.discard(name)
            return found

        def _is_integer(self, made: Any, name: str, found: set[str]) -> bool:
            if isinstance(made, numba_ir.Var):
                return made.name in found
            if isinstance(made, numba_ir.Arg):
                known = next(iter(self._arguments[made.index : made.index + 1]), None)
                return isinstance(known, types.Integer) and (self._is_real or known != types.uint64)
            if not isinstance(made, numba_ir.Expr):
                return name in self.kept and type(_value(made)) is int
            if made.op == "pair_first":  # the next of what is iterated over
                range_of = self._through(made.value, "iternext", "getiter")
                return getattr(range_of, "op", "") == "call" and self._called(range_of) is range
            if made.op == "unary":
                return made.fn in _UNARY and made.value.name in found
            if made.op == "call":
                called = self._called(made)
                return called in (int, len) or (called in (abs, min, max) and self._are_integers(made.args, found))
            return _operator(made) in _WHOLE and self._are_integers((made.lhs, made.rhs), found)

        def _are_integers(self, parts: Sequence[Any], found: set[str]) -> bool:
            """True where integers meet integers, or such as are written here."""
            return any(part.name in found for part in parts) and all(
                part.name in found or self._is_written(part.name) for part in parts
            )

        def _is_written(self, name: str) -> bool:
            made = self._ir._definitions.get(name, ())
            return len(made) == 1 and type(_value(made[0])) is int

        def _met_by_integers(self) -> set[str]:
            met: set[str] = set()
            for expression in self._expressions():
                parts: Sequence[Any] = ()
                if _operator(expression) in (*_WHOLE, *_COMPARED):
                    parts = (expression.lhs, expression.rhs)
                elif expression.op == "call" and self._called(expression) in (abs, min, max):
                    parts = expression.args
                if self._are_integers(parts, self.integers):
                    met |= {part.name for part in parts} - self.integers
            return met

        # -------------------------------------------------------- writing

        def write(self, convert: Callable[[Any], Any]) -> None:
            """Convert the numbers that are written."""
            for block in self._ir.blocks.values():
                for statement in block.find_insts(numba_ir.Assign):
                    value, name = statement.value, statement.target.name
                    constant = _constant_of_module(self._ir, value)
                    if type(constant) in (int, float):  # math.pi
                        statement.value = numba_ir.Const(convert(constant), value.loc)
                        self._ir._definitions[name] = [statement.value]
                    elif isinstance(value, (numba_ir.Const, numba_ir.Global, numba_ir.FreeVar)):
                        number = value.value
                        if name in self.powers and type(number) is float and number == int(number):
                            value.value = int(number)
                        elif name not in self.kept:
                            # In place: the function's definitions hold the same object.
                            value.value = convert(number)

        def meet(self) -> None:
            """Convert integers where they meet other numbers."""
            if not self._meets:
                return
            for block in self._ir.blocks.values():
                body: list[Any] = []
                for statement in block.body:
                    value = statement.value if isinstance(statement, numba_ir.Assign) else None
                    name = "" if value is None else statement.target.name
                    if isinstance(value, numba_ir.Var) and self._counts_here(value) and name not in self.integers:
                        statement.value = self._cast(block, body, value)  # it holds other numbers, too
                    elif isinstance(value, numba_ir.Expr) and name not in self.kept:
                        if value.op in ("binop", "inplace_binop"):
                            left, right = self._meeting(_operator(value), value.lhs, value.rhs)
                            value.lhs = self._cast(block, body, value.lhs) if left else value.lhs
                            value.rhs = self._cast(block, body, value.rhs) if right else value.rhs
                        elif value.op == "call" and self._is_of_numbers(value):
                            cast = [self._cast(block, body, a) if self._counts_here(a) else a for a in value.args]
                            value.args = tuple(cast)
                    body.append(statement)
                block.body = body

        def _counts_here(self, variable: Any) -> bool:
            return variable.name in self.integers

        def _meeting(self, fn: Any, *sides: Any) -> tuple[bool, bool]:
            """Which sides of an operator are integers that are to become numbers."""
            left, right = map(self._counts_here, sides)
            if fn in _ARITHMETIC or (fn in _COMPARED and self._is_real):
                whole = [side.name in self.integers or side.name in self.kept for side in sides]
                return left and not whole[1], right and not whole[0]
            if fn in (operator.truediv, *_POWERS) and self._is_real:
                return left, right and sides[1].name not in self.powers
            return False, False

        def _is_of_numbers(self, call: Any) -> bool:
            """True for a call that makes a float of an integer, or meets one with a number."""
            called = self._called(call)
            if called in (min, max):
                return not self._are_integers(call.args, self.integers)
            return self._is_real and getattr(called, "__module__", "") == math.__name__

        def _cast(self, block: Any, body: list[Any], number: Any) -> Any:
            """A variable that holds an integer as a number, once what is appended to `body` is done."""
            loc = number.loc
            kind, cast = (block.scope.redefine(name, loc) for name in ("$kind", "$number"))
            call = numba_ir.Expr.call(kind, (number,), (), loc)
            for target, value in ((kind, numba_ir.Global(self.kind.__name__, self.kind, loc)), (cast, call)):
                body.append(numba_ir.Assign(value, target, loc))
                self._ir._definitions[target.name] = [value]
            return cast

    def _operator(value: Any) -> Any:
        """The operator of an expression of two numbers, that of `+=` too; None of all else."""
        op = getattr(value, "op", "")
        return value.fn if op == "binop" else value.immutable_fn if op == "inplace_binop" else None

    def _value(made: Any) -> Any:
        """The constant or the global that a variable is, None where it is neither."""
        return made.value if isinstance(made, (numba_ir.Const, numba_ir.Global, numba_ir.FreeVar)) else None

    def _constant_of_module(func_ir: Any, value: Any) -> Any:
        """The constant that `module.name` stands for, None where a value is not such an expression."""
        if not isinstance(value, numba_ir.Expr) or value.op != "getattr":
            return None
        try:
            return getattr(func_ir.get_definition(value.value).value, value.attr, None)
        except Exception:  # no name of a module
            return None

    def _is_whole(func_ir: Any, variable: Any) -> bool:
        """True for a constant without a fraction, small enough to be multiplied out."""
        try:
            number = func_ir.infer_constant(variable)
        except Exception:  # it is none
            return False
        return type(number) in (int, float) and abs(number) <= _LARGEST_POWER and number == int(number)

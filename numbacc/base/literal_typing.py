"""Types of the numeric constants and counters of a formula, in Numba's intermediate representation of its code.

Numba treats every numeric constant as 64-bit, and promotes float32 operands that are combined with it to float64.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ._numba import SIMULATED, types

if not SIMULATED:
    from ._numba import Rewrite, numba_ir, register_rewrite

__all__ = ["convert_numbers", "with_numbers"]


def with_numbers(function: Callable[..., Any], convert: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return `function`, to be compiled with `convert(number)` instead of each Python number in it.

    Counting stays integer: indices, right operands of shifts, arguments of `range`, and the numbers that these are
    computed from or that counters are combined with. Whole floats as exponents become integers. A counter, or another
    integer, is converted to the type of `convert` when it is combined with a number of that type.
    """
    function._numbacc_convert = convert  # type: ignore[attr-defined]
    return function


def convert_numbers(func_ir: Any, arguments: Sequence[Any], numba_ir: Any) -> None:
    """Change the code of a function as `with_numbers` says; do nothing to other functions.

    Args:
        func_ir: the function's code, before types are inferred.
        arguments: the types of its arguments.
        numba_ir: the module with the classes of the code: Numba's own, or that of its CUDA target.
    """
    convert = getattr(func_ir.func_id.func, "_numbacc_convert", None)
    if convert is not None and not hasattr(func_ir, "_numbacc_done"):
        func_ir._numbacc_done = True
        code = _code_class(numba_ir)(func_ir, type(convert(1)), arguments)
        code.write(convert)
        code.meet()


if not SIMULATED:

    @register_rewrite("before-inference")
    class _Numbers(Rewrite):  # type: ignore[misc]
        """The rewrite that implements `with_numbers` on a GPU."""

        def __init__(self, state: Any):
            self._arguments = tuple(getattr(state, "args", None) or ())

        def match(self, func_ir: Any, block: Any, typemap: Any, calltypes: Any) -> bool:
            convert_numbers(func_ir, self._arguments, numba_ir)
            return False


_POWERS = (operator.pow, operator.ipow)
#: Operators with a count as their right operand.
_COUNTED = (*_POWERS, operator.lshift, operator.rshift, operator.ilshift, operator.irshift)
_COMPARED = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
#: Operators that give integers for integers.
_WHOLE = (*_ARITHMETIC, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
_UNARY = (operator.neg, operator.pos, operator.invert)
_LARGEST_POWER = 64


@lru_cache(maxsize=2)
def _code_class(numba_ir: Any) -> Any:
    """Return the class `_Code` for the classes of a module."""

    class _Code:
        """A function's code, and the role of each of its variables.

        Attributes:
            kind: the type that numbers are converted to.
            kept: names of indices, counts, and numbers that stay integers because of these.
            powers: the names among these that are whole exponents.
            integers: names of variables that always hold integers.
        """

        def __init__(self, func_ir: Any, kind: type, arguments: Sequence[Any]):
            self._ir, self.kind = func_ir, kind
            self._is_real = issubclass(kind, np.floating)
            # Numba combines uint64 with a counter's int64 to a float. Other integers are combined as integers.
            self._meets = self._is_real or kind is np.uint64
            self._arguments = arguments if self._meets else ()
            self.kept, self.powers = self._counts()
            self._keep_what_makes(self.kept - self.powers)
            self.integers = self._integers()
            self.kept |= self._met_by_integers()

        # -------------------------------------------------------- analysis

        def _made(self, variable: Any) -> Any:
            """Return the value of a variable, or None if it has several."""
            try:
                return self._ir.get_definition(variable)
            except KeyError:
                return None

        def _through(self, variable: Any, *ops: str) -> Any:
            """Return the value of a variable, inside nested expressions of these kinds."""
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
            """Return the function that is called, or None if it is not known."""
            made = self._made(expression.func)
            return _constant_of_module(self._ir, made) if isinstance(made, numba_ir.Expr) else _value(made)

        def _counts(self) -> tuple[set[str], set[str]]:
            """Return the names of indices, counts and whole exponents, and the names of the exponents alone."""
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
            """Keep the numbers that counts are computed from, such as the 1 in t[k + 1]."""
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
            """Return all variables except those that are computed from anything but integers."""
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
            if made.op == "pair_first":  # the next value of an iteration
                range_of = self._through(made.value, "iternext", "getiter")
                return getattr(range_of, "op", "") == "call" and self._called(range_of) is range
            if made.op == "unary":
                return made.fn in _UNARY and made.value.name in found
            if made.op == "call":
                called = self._called(made)
                return called in (int, len) or (called in (abs, min, max) and self._are_integers(made.args, found))
            return _operator(made) in _WHOLE and self._are_integers((made.lhs, made.rhs), found)

        def _are_integers(self, parts: Sequence[Any], found: set[str]) -> bool:
            """Return True if integers are combined with integers or with integer constants."""
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

        # -------------------------------------------------------- changes

        def write(self, convert: Callable[[Any], Any]) -> None:
            """Convert the numeric constants."""
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
                            # Change it in place: the function's definitions hold the same object.
                            value.value = convert(number)

        def meet(self) -> None:
            """Convert integers that are combined with other numbers."""
            if not self._meets:
                return
            for block in self._ir.blocks.values():
                body: list[Any] = []
                for statement in block.body:
                    value = statement.value if isinstance(statement, numba_ir.Assign) else None
                    name = "" if value is None else statement.target.name
                    if isinstance(value, numba_ir.Var) and self._counts_here(value) and name not in self.integers:
                        statement.value = self._cast(block, body, value)  # the variable also holds other numbers
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
            """Return which operands of an operator are integers that must be converted."""
            left, right = map(self._counts_here, sides)
            if fn in _ARITHMETIC or (fn in _COMPARED and self._is_real):
                whole = [side.name in self.integers or side.name in self.kept for side in sides]
                return left and not whole[1], right and not whole[0]
            if fn in (operator.truediv, *_POWERS) and self._is_real:
                return left, right and sides[1].name not in self.powers
            return False, False

        def _is_of_numbers(self, call: Any) -> bool:
            """Return True for a call that makes a float of an integer, or combines an integer with a number."""
            called = self._called(call)
            if called in (min, max):
                return not self._are_integers(call.args, self.integers)
            return self._is_real and getattr(called, "__module__", "") == math.__name__

        def _cast(self, block: Any, body: list[Any], number: Any) -> Any:
            """Return a variable for an integer converted to a number; `body` gets the statements that do this."""
            loc = number.loc
            kind, cast = (block.scope.redefine(name, loc) for name in ("$kind", "$number"))
            call = numba_ir.Expr.call(kind, (number,), (), loc)
            for target, value in ((kind, numba_ir.Global(self.kind.__name__, self.kind, loc)), (cast, call)):
                body.append(numba_ir.Assign(value, target, loc))
                self._ir._definitions[target.name] = [value]
            return cast

    def _operator(value: Any) -> Any:
        """Return the operator of a binary expression, also of an in-place one such as `+=`; None for other values."""
        op = getattr(value, "op", "")
        return value.fn if op == "binop" else value.immutable_fn if op == "inplace_binop" else None

    def _value(made: Any) -> Any:
        """Return the constant or the global of a variable; None if it is neither."""
        return made.value if isinstance(made, (numba_ir.Const, numba_ir.Global, numba_ir.FreeVar)) else None

    def _constant_of_module(func_ir: Any, value: Any) -> Any:
        """Return the constant of an expression `module.name`; None for other values."""
        if not isinstance(value, numba_ir.Expr) or value.op != "getattr":
            return None
        try:
            return getattr(func_ir.get_definition(value.value).value, value.attr, None)
        except Exception:  # not a name of a module
            return None

    def _is_whole(func_ir: Any, variable: Any) -> bool:
        """Return True for a constant without a fraction, small enough to be expanded into products."""
        try:
            number = func_ir.infer_constant(variable)
        except Exception:  # not a constant
            return False
        return type(number) in (int, float) and abs(number) <= _LARGEST_POWER and number == int(number)

    return _Code

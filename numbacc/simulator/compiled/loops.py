"""Change the loops of the finished function so that they compile quickly and can be stopped."""

from __future__ import annotations

import ast
import ctypes
import functools
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .kinds import Kinds
from .reached import unraveled
from .syntax import assignment, called, duplicate, expression, stored, walk

__all__ = ["STOP", "STOPPED", "by_index", "goes_on", "hide_trips", "interruptible", "make_stoppable", "without_flat"]

#: The index in the array of errors that makes loops end, and the error code of a stopped launch.
STOP, STOPPED = 15, 7
#: Indices in the array of errors: after how many iterations a loop calls a function (0: never), and its address.
_COUNT, _FUNCTION = 13, 14
#: How many seconds lie between two such calls, at most and at least. The first call comes after few iterations.
_MOST_SECONDS, _LEAST_SECONDS, _FIRST_COUNT = 0.1, 0.02, 64
#: LLVM unrolls loops of fewer iterations without problems.
_FEW = 16


def hide_trips(body: list[ast.stmt], space: dict[str, Any]) -> None:
    """Hide the iteration counts of loops with a comparison from LLVM.

    Args:
        space: the values of global names.

    All threads may compute the same `for i in range(64): largest = max(largest, s[i])`. If LLVM unrolls that loop
    inside the loop over threads, its vectorizer takes twice as long for each further iteration, and never ends.
    """
    assigned = stored(body)
    for loop in walk(body):
        if isinstance(loop, ast.For) and called(loop.iter) == "range" and _compares(loop):
            given: list[ast.expr] = loop.iter.args  # type: ignore[attr-defined]
            numbers = [_constant(a, space, assigned) for a in given]
            if all(type(n) is int for n in numbers) and len(range(*numbers)) > _FEW:
                stop = min(1, len(numbers) - 1)
                given[stop] = expression("STOP + (_nb_Dx >> 40)", loop.lineno, STOP=given[stop])  # which adds 0


def _constant(node: ast.expr, space: dict[str, Any], assigned: set[str]) -> Any:
    if isinstance(node, ast.Name) and node.id not in assigned:
        return space.get(node.id)
    return node.value if isinstance(node, ast.Constant) else None


def _compares(loop: ast.For) -> bool:
    return any(isinstance(n, ast.Compare) or called(n) in ("max", "min") for n in walk(loop.body))


def by_index(body: list[ast.stmt], kinds: dict[str, Any], space: dict[str, Any]) -> list[ast.stmt]:
    """Turn loops over the elements of arrays into loops over their indices, so that checks see the accesses.

    Args:
        kinds: the type of each variable; the types of new variables are added.
        space: the values of global names; the values of new names are added.
    """
    return _ByIndex(kinds, space).block(body)


class _Flat(ast.NodeTransformer):
    """Let variables that hold `x.flat` hold `x`."""

    def __init__(self, names: set[str]):
        self.names = names

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id in self.names:
            assert isinstance(node.value, ast.Attribute)
            node.value = node.value.value
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Attribute(node, "flat", ast.Load()), node)


def without_flat(body: list[ast.stmt], kinds: dict[str, Any]) -> list[ast.stmt]:
    """Let variables that hold `x.flat` hold `x`, which can live across barriers and be checked.

    Args:
        kinds: the type of each variable, which are changed.
    """
    names = {n for n, kind in kinds.items() if isinstance(kind, types.NumpyFlatType)}
    if not names:
        return body
    kinds.update({n: kinds[n].array_type for n in names})
    return [_Flat(names).visit(s) for s in body]


class _ByIndex(Kinds):
    def __init__(self, kinds: dict[str, Any], space: dict[str, Any]):
        super().__init__(kinds, space)
        self.variables, self.globals, self.count = kinds, space, 0
        self.before: list[ast.stmt] = []

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            for part in ("body", "orelse"):
                if inner := getattr(s, part, None):
                    setattr(s, part, self.block(inner))
            if isinstance(s, ast.For):
                out += self.loop(s)
            out.append(s)
        return out

    def loop(self, s: ast.For) -> list[ast.stmt]:
        """Change one loop, and return the statements before it."""
        self.count += 1
        self.before = []
        at = f"_nb_at_{self.count}"
        found = self.items(s.iter, at, stored(s))
        if found is None:
            return []
        self.variables[at] = types.int64
        length, item = found
        assert isinstance(s.target, ast.Name)
        s.body = [assignment(s.target.id, item, s.lineno), *s.body]
        s.target = ast.copy_location(ast.Name(at, ast.Store()), s.target)
        s.iter = expression("range(LENGTH)", s.lineno, LENGTH=length)
        return self.before

    def items(self, node: ast.expr, at: str, changes: set[str]) -> tuple[ast.expr, ast.expr] | None:
        """Return how many elements a loop has, and the current one; None if it is not a loop over arrays.

        Args:
            at: the variable that counts.
            changes: the variables that the loop assigns.
        """
        name, line = called(node), node.lineno
        given: list[ast.expr] = getattr(node, "args", [])
        if isinstance(kind := self.kind(node), types.Array):
            array = self.kept(node, kind, changes)
            return expression("ARRAY.shape[0]", line, ARRAY=array), expression(f"ARRAY[{at}]", line, ARRAY=array)
        if isinstance(node, ast.Attribute) and node.attr == "flat" and isinstance(self.kind(node.value), types.Array):
            array = self.kept(node.value, self.kind(node.value), changes)
            return expression("ARRAY.size", line, ARRAY=array), expression(f"ARRAY.flat[{at}]", line, ARRAY=array)
        if getattr(getattr(node, "func", None), "attr", "") == "ndenumerate" and len(given) == 1:
            found = self.items(ast.copy_location(ast.Attribute(given[0], "flat", ast.Load()), node), at, changes)
            if found is None:
                return None
            self.globals["_nb_unraveled"] = unraveled
            text = f"(_nb_unraveled(ARRAY.shape, {at}), ELEMENT)"
            return found[0], expression(text, line, ARRAY=found[0].value, ELEMENT=found[1])  # type: ignore[attr-defined]
        if name == "enumerate" and given and (found := self.items(given[0], at, changes)):
            start = given[1] if len(given) > 1 else expression("0", line)
            return found[0], expression(f"(START + {at}, ELEMENT)", line, START=start, ELEMENT=found[1])
        if name == "zip" and given:
            parts = [self.items(each, at, changes) for each in given]
            if all(parts):
                lengths, elements = zip(*(part for part in parts if part), strict=True)
                length = lengths[0]
                for each in lengths[1:]:
                    length = expression("min(LENGTH, EACH)", line, LENGTH=length, EACH=each)
                item: ast.expr = ast.copy_location(ast.Tuple([*elements], ast.Load()), node)
                return length, ast.fix_missing_locations(item)
        return None

    def kept(self, array: ast.expr, kind: types.Array, changes: set[str]) -> ast.expr:
        """Return a variable that holds an array during a loop."""
        if isinstance(array, ast.Name) and array.id not in changes:
            return array
        name = f"_nb_over_{self.count}_{len(self.before)}"
        self.before.append(assignment(name, duplicate(array), array.lineno))
        self.variables[name] = kind
        made: ast.expr = expression(name, array.lineno)
        return made


@intrinsic
def goes_on(typingctx: Any, error: Any, line: Any, block: Any) -> Any:
    """Return True unless somebody has stopped the launch; in that case, record the line and the block."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.int64)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data

        def at(k: int) -> Any:
            return builder.gep(data, [word(k)])

        # An atomic load is repeated in each iteration.
        stops = builder.icmp_signed("!=", builder.load_atomic(at(STOP), "monotonic", 8), word(0))
        with builder.if_then(stops, likely=False):
            is_first = builder.icmp_signed("==", builder.load(at(0)), word(0))
            with builder.if_then(is_first, likely=False):
                for k, value in ((0, word(STOPPED)), (1, args[1]), (4, args[2])):
                    builder.store(value, at(k))
        count = builder.load(at(_COUNT))
        with builder.if_then(builder.icmp_signed("!=", count, word(0))):
            builder.store(builder.sub(count, word(1)), at(_COUNT))
            with builder.if_then(builder.icmp_signed("==", count, word(1)), likely=False):
                kind = ir.FunctionType(ir.VoidType(), []).as_pointer()
                builder.call(builder.inttoptr(builder.load(at(_FUNCTION)), kind), [])
        return builder.select(stops, cgutils.false_bit, cgutils.true_bit)

    return types.boolean(error, types.int64, types.int64), codegen


def make_stoppable(body: list[ast.stmt], block: str) -> None:
    """Make each `while` end when somebody has stopped the launch. Loops over a range end without this.

    Args:
        block: the number of the block, as an expression.
    """
    for loop in walk(body):
        if isinstance(loop, ast.While):
            text = f"_nb_goes_on(_nb_error, {loop.lineno}, {block}) and TEST"
            loop.test = expression(text, loop.lineno, TEST=loop.test)


class _Signals:
    """Handle signals on the main thread while it runs compiled code.

    The loops of the code call a function now and then. It is a generator, because Python calls signal handlers where a
    generator continues, inside its `try`. It would call them at the start of a function, outside of any `try`, and
    ctypes drops exceptions.
    """

    def __init__(self) -> None:
        self._error: Any = None
        self._caught: BaseException | None = None
        self._count, self._called = 0, 0.0
        self._begin()

    def _begin(self) -> None:
        self._steps: Any = self._handle()
        next(self._steps)
        self._function = ctypes.CFUNCTYPE(None)(self._steps.__next__)
        self._address = ctypes.cast(self._function, ctypes.c_void_p).value

    def _handle(self) -> Generator[None, None, None]:
        while True:
            try:
                yield
                now = time.perf_counter()
                seconds, self._called = now - self._called, now
                if seconds < _LEAST_SECONDS:
                    self._count *= 2
                elif seconds > _MOST_SECONDS:
                    self._count = max(1, self._count // 2)
                self._error[_COUNT] = self._count
            except GeneratorExit:
                return
            except BaseException as caught:
                self._error[STOP] = 1
                self._caught = caught

    def run(self, work: Callable[[], None], error: Any) -> bool:
        """Run a launch, and raise what a signal handler raises. Return False if its handlers cannot run here now."""
        if threading.current_thread() is not threading.main_thread() or self._error is not None:
            return False
        if self._steps.gi_frame is None:  # a second signal came while it handled the first one
            self._begin()
        try:
            self._error, self._count, self._called = error, _FIRST_COUNT, time.perf_counter()
            error[_COUNT], error[_FUNCTION] = _FIRST_COUNT, self._address
            work()
        finally:
            caught, self._error, self._caught = self._caught, None, None
        if caught is not None:
            raise caught
        return True


@functools.cache
def _signals() -> _Signals:
    return _Signals()


def interruptible(run: Callable[[], None], error: Any, alone: bool = False) -> None:
    """Run a launch so that Ctrl-C and the stop button of notebooks end its loops.

    Args:
        error: the array of errors.
        alone: whether `run` uses the calling thread only, and only a `while` may take long. Then it starts no thread.
    """
    if alone and _signals().run(run, error):
        return
    _on_another_thread(run, error)


def _on_another_thread(run: Callable[[], None], error: Any) -> None:
    """Run a launch on another thread, while the calling thread waits for it and for signals."""
    failed: list[BaseException] = []
    ended = threading.Event()  # after Ctrl-C, a join may report a running thread as ended

    def work() -> None:
        try:
            if not error[STOP]:
                run()
        except BaseException as caught:
            failed.append(caught)
        finally:
            ended.set()

    thread = threading.Thread(target=work, name="numbacc-launch")
    try:
        thread.start()  # Ctrl-C may come here, too
        while not ended.wait(0.2):  # on Windows, Ctrl-C is seen between waits
            pass
    except BaseException:
        error[STOP] = 1
        if thread.ident is not None:  # without one it does not run, or will see STOP first
            ended.wait()
        raise
    if failed:
        raise failed[0]

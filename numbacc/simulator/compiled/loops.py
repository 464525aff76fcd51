"""Change the loops of the finished function so that they compile quickly and can be stopped."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .syntax import called, expression, stored, walk

__all__ = ["STOP", "STOPPED", "goes_on", "hide_trips", "interruptible", "make_stoppable"]

#: The index in the array of errors that makes loops end, and the error code of a stopped launch.
STOP, STOPPED = 15, 7
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


def interruptible(run: Callable[[], None], error: Any) -> None:
    """Run a launch on another thread, so that Ctrl-C and the stop button of notebooks end its loops."""
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

"""The puzzles of 08-puzzles.ipynb: their inputs, their expected results, and limits of their memory accesses.

`check(name, kernel)` compiles a kernel for the CPU, traces it, and reports a mistake, or that the puzzle is solved. If
the values are right, it also compiles the kernel for a GPU; this needs no GPU.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import numbacc
from numbacc.simulator.compiled.launches import in_notebook
from numbacc.tracing import compile_errors

Array = Any

#: Kinds of access, as the trace's records number them.
READ, WRITE = range(2)


@dataclass(frozen=True)
class Limit:
    """The most that a count of the trace may be.

    Attributes:
        array, access: the arguments of `Trace.counts`; None for all arrays or accesses.
        count: a field of `Counts`.
        most: the largest allowed count.
        words: advice for a larger count.
    """

    array: str | None
    access: str | None
    count: str
    most: int
    words: str


@dataclass(frozen=True)
class Puzzle:
    """One puzzle.

    Attributes:
        shapes: the shapes of the inputs, then of the output, which is the kernel's last argument, `y`.
        grid, block: the launch configuration of the kernel.
        answer: computes the expected y from the inputs in float64.
        limits: the limits of the counts.
        wrong: message -> the result of a common mistake.
        unwritten: the message if elements of y are not written.
        shift: a number that is added to the random inputs.
    """

    shapes: tuple[Any, ...]
    grid: Any
    block: Any
    answer: Callable[..., Array]
    limits: tuple[Limit, ...] = ()
    wrong: dict[str, Callable[..., Array]] = field(default_factory=dict)
    unwritten: str = "does every thread have an index of its own, and does every element have a thread?"
    shift: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """The result of a check.

    Attributes:
        solved: whether the puzzle is solved.
        words: the message.
        trace: the trace, which has the counts.
        note: why the kernel was not compiled for a GPU; empty if it was.
    """

    solved: bool
    words: str
    trace: Any
    note: str = ""

    def __repr__(self) -> str:
        rows = self.trace.table().rows
        return "\n\n".join([self.words, *[str(self.trace.table())] * bool(rows), *[self.note] * bool(self.note)])


#: No solution of a puzzle needs more accesses, even if it wastes many.
_MOST_ACCESSES = 200_000
#: Words in the message of the error that stopped a kernel -> the advice.
REMEDIES = {
    "out of bounds": ". Threads that have no element there must do nothing: put an `if` around it.",
    "stopped in this loop": ". Does it never end?",
    "reach this barrier": ": move it out of the branch.",
    "accesses arrays": ". Does a loop never end?",
    "OverflowError": ". On a GPU exp overflows to infinity here: subtract the largest of the row first.",
    "'TracedArray'": ". Do you compute with a whole array? A thread takes one element of it, x[i].",
}


def check(name: str, kernel: Any) -> Verdict:
    """Run a kernel with the inputs of a puzzle, and report the first mistake, or that the puzzle is solved."""
    puzzle = PUZZLES[name]
    rng = np.random.default_rng(0)
    *inputs, y = (rng.standard_normal(shape).astype(np.float32) + np.float32(puzzle.shift) for shape in puzzle.shapes)
    y[...] = np.nan
    given = [x.copy() for x in inputs]
    compile_errors.prepare()
    with numbacc.trace(max_accesses=_MOST_ACCESSES) as t:
        try:
            with np.errstate(all="ignore"):
                kernel[puzzle.grid, puzzle.block](*inputs, y)
        except Exception as error:
            return Verdict(False, f"{name}: not yet. {why_stopped(error, t)}", t)
    words, note = wrong_values(puzzle, t, given, inputs, y), ""
    if not words:
        try:
            words = "".join(f"The values are right, but {each}" for each in t.compile_errors[:1])
        except numbacc.errors.UnsupportedError as error:  # this machine lacks a compiler
            note = str(error)
    words = words or wasted(puzzle, t)
    return Verdict(not words, f"{name}: not yet. {words}" if words else f"{name}: solved", t, note)


def why_stopped(error: Exception, t: Any) -> str:
    """Return a message about the error that stopped a kernel."""
    if isinstance(error.__context__, numbacc.KernelError):  # its message has the line
        error = error.__context__
    text = f"The kernel stopped: {type(error).__name__}: {in_line(error)}"
    remedy = next((remedy for words, remedy in REMEDIES.items() if words in text), "")
    if isinstance(error, numbacc.errors.UnsupportedError) and not remedy:  # a GPU compiler's message is clearer
        try:
            return str((t.compile_errors or [text])[0])
        except numbacc.errors.UnsupportedError:
            return text
    return text + remedy


def in_line(error: Exception) -> str:
    """Return an error's text with "line 3" instead of "12345.py:3", the name of a cell's temporary file."""
    return re.sub(r"^[^\s:]+:(\d+): ", r"line \1: ", str(error))


def wrong_values(puzzle: Puzzle, t: Any, given: list[Array], inputs: list[Array], y: Array) -> str:
    """Return a message about wrong results, or about mistakes that make them depend on chance; "" if all is right."""
    if any((x != before).any() for x, before in zip(inputs, given, strict=True)):
        return "An input was changed: only y is to be written."
    if np.isnan(y).all() and not t.table().rows:
        return "y is as it was: the kernel does nothing yet."
    if t.races:
        race = t.races[0]
        if race.blocks[0] != race.blocks[1]:
            return (
                f"{race}. Do threads of different blocks have the same index? cuda.grid(1) counts through all blocks."
            )
        if race.array == "y":
            return f"{race}. Does every thread have an element of its own? Sums of many threads need shared memory."
        return f"{race}. Put cuda.syncthreads() where all must have come before any goes on."
    if t.split_barriers:
        place, _, came, threads = t.split_barriers[0]
        return f"Only {came} of {threads} threads come to the barrier in line {place.line}: move it out of the branch."
    if t.unwritten:
        return f"{in_line(t.unwritten[0])}."
    expected = puzzle.answer(*(x.astype(np.float64) for x in given))
    tolerance = 1e-4 * np.abs(expected).max()
    right = np.isclose(y, expected, rtol=1e-4, atol=tolerance)
    return "" if right.all() else first_wrong(puzzle, t, given, y, expected, right)


def wasted(puzzle: Puzzle, t: Any) -> str:
    """Return a message about the first limit that the kernel exceeds, or ""."""
    for limit in puzzle.limits:
        found = getattr(t.counts(limit.array, limit.access), limit.count) if known(t, limit.array) else 0
        if found > limit.most:
            did = "written" if limit.access == "write" else "read"
            unit = {"bytes": f"bytes of {limit.array} are {did}", "sectors": f"sectors of {limit.array} are {did}"}
            what = unit.get(limit.count, f"{limit.count} in {limit.array or 'shared memory'}")
            return f"The values are right, but {found:,} {what}, where {limit.most:,} would do: {limit.words}"
    return ""


def first_wrong(puzzle: Puzzle, t: Any, given: list[Array], y: Array, expected: Array, right: Array) -> str:
    """Return a message about the first wrong value."""
    for words, answer in puzzle.wrong.items():
        guess = answer(*given)
        if np.isclose(y, guess, rtol=1e-3, atol=1e-3 * np.abs(expected).max(), equal_nan=True).all():
            return words
    where = tuple(int(i) for i in np.argwhere(~right)[0])
    element = f"y[{', '.join(map(str, where))}]"
    touched = t.records[np.isin(t.records["array"], [k for k, each in enumerate(t.arrays) if each.name == "y"])]
    accesses = [kind for kind, index in zip(touched["access"], t.elements("y"), strict=True) if index == where]
    if all(kind == READ for kind in accesses):
        return f"{element} is not written, and {int((~right).sum())} of {y.size} elements are wrong: {puzzle.unwritten}"
    if np.isnan(y[where]) and accesses[0] != WRITE:
        return f"{element} is NaN, as it was: before anything is added to it, something must be written to it."
    if np.isnan(y[where]):
        large = " exp of numbers above 88 is inf: subtract the largest of the row first. It changes nothing else."
        return f"{element} is NaN, as inf - inf and inf / inf are.{large * bool(puzzle.shift)}"
    return (
        f"{element} is {y[where]:.4g} and should be {expected[where]:.4g}; {int((~right).sum())} of {y.size} are wrong."
    )


def known(t: Any, array: str | None) -> bool:
    """Return whether a kernel accessed an array of that name, or any array for None."""
    return any(array in (None, row.array) for row in t.table().rows)


def once(array: str, elements: int, words: str) -> Limit:
    """Return the limit that every element of an array is read once."""
    return Limit(array, "read", "bytes", 4 * elements, words)


def dense(array: str, access: str, elements: int) -> Limit:
    """Return the limit that all bytes of the sectors are used."""
    words = "let threads with neighbouring threadIdx.x touch neighbouring elements, along the last axis."
    return Limit(array, access, "sectors", elements // 8, words)


def sigmoid(b: Array) -> Array:
    return 1 / (1 + np.exp(-b))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def pooled(x: Array) -> Array:
    return np.convolve(x, np.ones(3))[: x.size]


def pooled_without_neighbours(x: Array) -> Array:
    """Pool each block of 64 separately."""
    return np.concatenate([pooled(part) for part in x.reshape(-1, 64)])


def transposed_in_place(x: Array) -> Array:
    """Transpose each tile, but leave it at its position."""
    return x.reshape(2, 32, 2, 32).transpose(0, 3, 2, 1).reshape(64, 64)


KEEP = "keep what a thread has read in a variable, or let the block share it."

PUZZLES: dict[str, Puzzle] = {
    "map": Puzzle((32, 32), 1, 32, lambda x: x + 10),
    "guard": Puzzle((50, 50), 2, 32, lambda x: x + 10),
    "map 2d": Puzzle(
        ((40, 40), (40, 40)), (3, 3), (16, 16), lambda x: 2 * x, (dense("x", "read", 1600), dense("y", "write", 1600)),
        {"y is 2 x transposed: write to the element that was read.": lambda x: 2 * x.T},
    ),
    "broadcast": Puzzle(
        (32, 32, (32, 32)), (1, 8), (32, 4), lambda a, b: a[:, None] + b, (dense("y", "write", 1024),),
        {
            "a and b are exchanged: a runs down the rows of y, b along its columns.": lambda a, b: b[:, None] + a,
            "both have the row's index: b runs along the columns.": lambda a, b: (a + b)[:, None] + 0 * b,
        },
    ),
    "strided loop": Puzzle(
        (1024, 1024), 2, 64, lambda x: x * x, (dense("x", "read", 1024), dense("y", "write", 1024)),
        unwritten="128 threads have 1,024 elements: let each go on, cuda.gridsize(1) further, until the end.",
    ),
    "shared": Puzzle(
        (128, 128), 2, 64, lambda x: (x.reshape(2, 64) + np.roll(x.reshape(2, 64), -1, axis=1)).ravel(),
        (once("x", 128, "each element is wanted by two threads: put it in shared memory, and read it there."),),
        {
            "the last thread of a block takes the next block's element: its neighbour is the block's first.":
                lambda x: x + np.roll(x, -1),
        },
    ),
    "pooling": Puzzle(
        (128, 128), 2, 64, pooled,
        (once("x", 130, "let each thread put one element in shared memory, and two of them the two before."),),
        {
            "the first two of each block miss their neighbours, which lie in the block before: two threads must "
            "read them, too.": pooled_without_neighbours,
            "the first two sums have the last elements in them: a negative index counts from the end, on a GPU, too.":
                lambda x: x + np.roll(x, 1) + np.roll(x, 2),
        },
    ),
    "dot product": Puzzle(
        (256, 256, 1), 1, 64, lambda a, b: np.array([a @ b]),
        (
            Limit("y", "atomic", "conflicts", 0, "threads wait for each other at one address: sum in shared memory "
                  "and write once."),
            Limit("y", None, "accesses", 1, "sum in shared memory, and let one thread write the result."),
        ),
        {"only the first 64 products are in it: 64 threads have 256 elements, so each must take four.":
            lambda a, b: np.array([a[:64] @ b[:64]])},
    ),
    "prefix sum": Puzzle(
        (64, 64), 1, 64, np.cumsum,
        (
            once("x", 64, "each thread reads all before it. Read each element once, and double the distance in shared "
                 "memory, step by step."),
        ),
        {"y is one late: the sum includes the thread's own element.": lambda x: np.cumsum(x) - x},
    ),
    "transpose": Puzzle(
        ((64, 64), (64, 64)), (2, 2), (32, 32), lambda x: x.T,
        (
            dense("x", "read", 4096), dense("y", "write", 4096),
            Limit(None, None, "conflicts", 0, "a column of the tile lies in one bank: make its rows one longer."),
        ),
        {"each tile is turned, but lies where it was: exchange the block's indices, too.": transposed_in_place},
    ),
    "softmax": Puzzle(
        ((8, 64), (8, 64)), 8, 64, softmax, (once("x", 512, KEEP), dense("y", "write", 512)),
        {
            "the sum is of all rows, or of one thread: y does not add up to 1.":
                lambda x: np.exp(x - x.max(axis=1, keepdims=True)),
        },
        shift=1000.0,
    ),
    "fused gate": Puzzle(
        ((8, 192), (8, 96)), 3, 64, lambda x: x[:, :96] * x[:, 96:] * sigmoid(x[:, 96:]),
        (once("x", 8 * 192, KEEP), dense("y", "write", 768)),
        {
            "the halves are exchanged: the second one is the gate.":
                lambda x: x[:, 96:] * x[:, :96] * sigmoid(x[:, :96]),
            "neighbours are paired: a is the first half of a row, b the second.":
                lambda x: x[:, ::2] * x[:, 1::2] * sigmoid(x[:, 1::2]),
            "the gate is sigmoid(b) alone: swish is b sigmoid(b).": lambda x: x[:, :96] * sigmoid(x[:, 96:]),
        },
    ),
}  # fmt: skip


@numbacc.cuda.jit
def _nothing(x, y):
    i = numbacc.cuda.grid(1)
    if i < y.size:
        y[i] = x[i]


if in_notebook():  # load both compilers while the user reads, so that the first answer takes less than a second
    threading.Thread(target=check, args=("map", _nothing), name="puzzles").start()

"""The puzzles of 10-tensor-puzzles.ipynb, numbered 13 to 18: their inputs, their expected results and their limits.

`check(name, kernel)` runs a kernel of `device.jit` in Python, and reports a mistake, or that the puzzle is solved. If
the values are right, it also compiles the kernel for Hopper; this needs no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from puzzles import Verdict  # the file beside this one

import numbacc

Array = Any


@dataclass(frozen=True)
class Puzzle:
    """One puzzle.

    Attributes:
        inputs: makes the inputs, given a random generator.
        shape: of the output y, the kernel's last argument.
        grid, block, shared, cluster: the launch configuration.
        answer: computes the expected y from the inputs.
        wrong: message -> the result of a common mistake.
        tolerance: the largest allowed error, relative to the largest expected value.
        conflicts: advice if `ldmatrix` has bank conflicts; empty if they do not matter.
    """

    inputs: Callable[[Any], tuple[Array, ...]]
    shape: tuple[int, ...]
    grid: int
    block: int
    shared: int
    answer: Callable[..., Array]
    wrong: dict[str, Callable[..., Array]] = field(default_factory=dict)
    tolerance: float = 1e-3
    conflicts: str = ""
    cluster: int = 1


#: Words in the message of the error that stopped a kernel -> the advice.
REMEDIES = {
    "math range error": ". exp overflows here: subtract the largest element so far.",
    "outside every device array": ". Threads that have no element there must do nothing.",
}


def check(name: str, kernel: Any) -> Verdict:
    """Run a kernel with the inputs of a puzzle, and report the first mistake, or that the puzzle is solved."""
    puzzle = PUZZLES[name]
    inputs = puzzle.inputs(np.random.default_rng(0))
    y = np.full(puzzle.shape, np.nan, np.float32)
    given = [x.copy() for x in inputs]
    words, note = "", ""
    with numbacc.simulate(), numbacc.trace() as t:
        try:
            with np.errstate(all="ignore"):
                kernel[puzzle.grid, puzzle.block, None, puzzle.shared, puzzle.cluster](*inputs, y)
        except Exception as error:
            remedy = next((remedy for said, remedy in REMEDIES.items() if said in str(error)), "")
            return Verdict(False, f"{name}: not yet. The kernel stopped: {error}{remedy}", t)
    words = wrong_values(puzzle, given, inputs, y)
    if not words and puzzle.conflicts and (found := t.counts("ldmatrix").conflicts):
        words = f"The values are right, but ldmatrix has {found} bank conflicts: {puzzle.conflicts}"
    if not words:
        words, note = compiled(kernel, inputs, y, puzzle.block)
    return Verdict(not words, f"{name}: not yet. {words}" if words else f"{name}: solved", t, note)


def compiled(kernel: Any, inputs: Any, y: Array, block: int) -> tuple[str, str]:
    """Compile a kernel for a GPU. Return (what is wrong, why it could not be compiled)."""
    try:
        kernel.compile(*inputs, y, block=block)
    except numbacc.errors.UnsupportedError as error:  # this machine lacks a compiler
        return "", str(error)
    except Exception as error:
        line = next((each for each in str(error).splitlines() if each.strip()), type(error).__name__)
        return f"The values are right, but a GPU cannot run it: {line}", ""
    return "", ""


def wrong_values(puzzle: Puzzle, given: list[Array], inputs: Any, y: Array) -> str:
    """Return a message about wrong results; "" if all is right."""
    if any((x != before).any() for x, before in zip(inputs, given, strict=True)):
        return "An input was changed: only y is to be written."
    if np.isnan(y).all():
        return "y is as it was: the kernel does nothing yet."
    expected = puzzle.answer(*given)
    tolerance = puzzle.tolerance * np.abs(expected).max()
    right = np.isclose(y, expected, rtol=0, atol=tolerance)
    if right.all():
        return ""
    for words, answer in puzzle.wrong.items():
        if np.isclose(y, answer(*given), rtol=0, atol=tolerance, equal_nan=True).all():
            return words
    where = tuple(int(i) for i in np.argwhere(~right)[0])
    element = f"y[{', '.join(map(str, where))}]"
    if np.isnan(y[where]):
        return f"{element} is not written, or NaN, and {int((~right).sum())} of {y.size} elements are wrong."
    return f"{element} is {y[where]:g} and should be {expected[where]:g}; {int((~right).sum())} of {y.size} are wrong."


def halves(*shape: int) -> Callable[[Any], Array]:
    return lambda rng: rng.integers(-4, 5, shape).astype(np.float16)


def floats(*shape: int, shift: float = 0.0) -> Callable[[Any], Array]:
    return lambda rng: (rng.standard_normal(shape) + shift).astype(np.float32)


def product(a: Array, b: Array) -> Array:
    return a.astype(float) @ b.astype(float).T


def words_of_matrices(x: Array) -> Array:
    """Return the upper halves of the registers that ldmatrix loads: (step, register, lane)."""
    lane, found = np.arange(32), np.empty((4, 4, 32))
    for step in range(4):
        for k in range(4):
            found[step, k] = x[lane // 4 + k % 2 * 8, 16 * step + k // 2 * 8 + lane % 4 * 2 + 1]
    return found


def log_sum_exp(x: Array) -> Array:
    x = x.astype(float)
    top = x.max(axis=1)
    return top + np.log(np.exp(x - top[:, None]).sum(axis=1))


def weighted(x: Array) -> Array:
    return (np.arange(1, 9)[:, None] * x.astype(float)).sum(axis=0)


PUZZLES: dict[str, Puzzle] = {
    "warp product": Puzzle(
        lambda rng: (halves(16, 16)(rng), halves(16, 16)(rng)), (16, 16), 1, 32, 1024, product,
        {
            "the rows of b are taken for its columns: b's fragments are those of rows, without a transposition.":
                lambda a, b: a.astype(float) @ b.astype(float),
            "the second tile of columns repeats the first one: sums 4 to 7 belong to columns 8 to 15.":
                lambda a, b: np.tile(product(a, b)[:, :8], 2),
        },
    ),
    "swizzle": Puzzle(
        lambda rng: (halves(16, 64)(rng),), (4, 4, 32), 1, 32, 2048, words_of_matrices,
        conflicts="let column c of row r lie at c ^ (r % 8), where it is stored and where it is loaded.",
    ),
    "two stages": Puzzle(
        lambda rng: (floats(8, 256)(rng),), (256,), 1, 256, 2064, weighted,
        {
            "all tiles count once: tile k has the weight k + 1.": lambda x: x.astype(float).sum(axis=0),
        },
    ),
    "online softmax": Puzzle(
        lambda rng: (floats(8, 96, shift=1000.0)(rng),), (8,), 8, 32, 0, log_sum_exp,
        {
            "exp overflows: subtract the largest element so far.": lambda x: np.full(8, np.inf),
            "the lanes are not combined, and y has the sum of one: warp_reduce gives all of them the largest element.":
                lambda x: log_sum_exp(x[:, ::32]),
        },
        tolerance=2e-6,
    ),
    "persistent loop": Puzzle(
        lambda rng: (floats(7, 64)(rng),), (7,), 2, 64, 0, lambda x: x.astype(float).sum(axis=1),
        {
            "each block does one tile only: let it go on, cuda.gridDim.x further, until the end.":
                lambda x: np.where(np.arange(7) < 2, x.astype(float).sum(axis=1), np.nan),
        },
    ),
    "cluster sum": Puzzle(
        lambda rng: (rng.integers(0, 1000, 256).astype(np.int32),), (4,), 4, 64, 1024,
        lambda x: np.full(4, x.sum()),
        {
            "each block has the sum of its own elements: exchange them.": lambda x: x.reshape(4, 64).sum(axis=1),
        },
        cluster=4,
    ),
}  # fmt: skip

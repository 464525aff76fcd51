"""Draws: the function of cuRAND, the formula that is applied to its output, and the number of outputs used."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base.layout import Layout, round_up, row_major_strides
from ..libraries.curand import CHEAP, SequenceKind, rounds


class Draw(NamedTuple):
    """A draw, without its size and its target.

    Attributes:
        formula: the formula that turns memory into values: a key of `kernels.random.draws.FORMULAS` and
            `reference.random.FORMULAS`.
        function: cuRAND's function that fills the memory.
        arguments: its last arguments.
        words: 32-bit words of memory per value.
        makes: elements that `function` makes per value.
        round: number of values that are made together; a draw begins and ends with a whole round.
        outputs: outputs of the sequence per value.
        parameters: (u, v, a, b) of the formula.
        direct: the dtype of the values that `function` itself writes, or "".
        own: the formula of `reference.random` and `kernels.random.draws` that makes the values from Philox's words; ""
            if none does.
        in_turns: whether it uses the words in the order of cuRAND's float64 normals.
        whole: True if one call must fill the memory: quasi-random points, which are stored by dimension.
    """

    formula: str
    function: str
    arguments: tuple[float, ...]
    words: int
    makes: int
    round: int
    outputs: int
    parameters: tuple[int, int, float, float]
    direct: str = ""
    own: str = ""
    in_turns: bool = False
    whole: bool = False

    @property
    def pads(self) -> bool:
        """True if it is cheaper to generate the whole last round than to enter the sequence again."""
        return self.round * self.outputs <= CHEAP

    def start(self, position: int) -> int:
        """Return the first start of a round at or after `position`."""
        return round_up(position, self.round * self.outputs)

    def length(self, count: int) -> int:
        """Return the number of the sequence's outputs that `count` values use."""
        return round_up(count, self.round) * self.outputs


def of_words(
    sequence: SequenceKind,
    formula: str,
    words: int,
    dtype: np.dtype[Any],
    parameters: tuple[int, int, float, float] = (0, 0, 0.0, 0.0),
) -> Draw:
    """Describe values that `formula` makes of `words` random words each, or of one output of a quasi-random kind."""
    kind = sequence.row
    outputs = 1 if kind.quasi else words
    memory = kind.bits // 32 if kind.quasi else words
    own = formula if sequence.kind == "philox" else ""
    return Draw(
        formula=formula,
        function="curandGenerateLongLong" if kind.bits == 64 else "curandGenerate",
        arguments=(),
        words=memory,
        makes=outputs,
        round=1,
        outputs=outputs,
        parameters=parameters,
        direct=dtype.name if formula == "bits" and 4 * memory == dtype.itemsize else "",
        own=own,
        whole=kind.quasi,
    )


def of_values(sequence: SequenceKind, function: str, arguments: tuple[float, ...], native: str, own: str) -> Draw:
    """Describe values that cuRAND makes in dtype `native`; for philox, the formula `own` makes the same values."""
    double = native == "float64"
    each = rounds(sequence, double)
    own = own if sequence.kind == "philox" else ""
    return Draw(
        formula="stored",
        function=function,
        arguments=arguments,
        words=2 if double else 1,
        makes=1,
        round=each.values,
        outputs=each.outputs,
        parameters=(0, 0, arguments[0], arguments[1]) if own else (0, 0, 0.0, 0.0),
        direct=native,
        own=own,
        in_turns=double,
        whole=sequence.row.quasi,
    )


def in_order(made: Layout) -> bool:
    """Return whether an array's elements are contiguous in C order."""
    return made.size <= 1 or made.strides == row_major_strides(made.shape, made.itemsize)

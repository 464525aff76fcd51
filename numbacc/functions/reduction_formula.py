"""Formulas of several elements: reductions, row operations and scans."""

from __future__ import annotations

import copyreg
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .formula import Formula, digest, reduced


class Chunk(NamedTuple):
    """Functions that compute the parts of several rows together. This costs less than computing and merging each row's.

    Attributes:
        first, merge_first: `first` makes a tuple for each row, like `ReductionFormula.function`; `merge_first` combines
            two of these tuples.
        middle: (the merged tuple, the number of rows) -> a tuple.
        second, merge_second: `second` makes a tuple from the numbers of a row, its index if the reduction is indexed,
            the result of `middle`, and the parts of no rows; `merge_second` combines two of these tuples.
        finish: (the result of `middle`, the merged result of `second`, the number of rows) -> the parts.
    """

    first: Callable[..., tuple[Any, ...]]
    merge_first: Callable[..., tuple[Any, ...]]
    middle: Callable[..., tuple[Any, ...]]
    second: Callable[..., tuple[Any, ...]]
    merge_second: Callable[..., tuple[Any, ...]]
    finish: Callable[..., tuple[Any, ...]]


class Place(NamedTuple):
    """Functions that find the first of the best elements of several rows. The parts are a number and its index.

    Attributes:
        best: (a, b) -> (the better one,), or NaN if one is NaN.
        later: the same as the reduction's `merge`, if the second index is larger or the first index is that of nothing.
        instruction: "max" or "min": the instruction that does this for pairs of 16-bit floats.
    """

    best: Callable[..., tuple[Any, ...]]
    later: Callable[..., tuple[Any, ...]]
    instruction: str


class ReductionFormula(Formula):
    """A formula that reduces all rows of a column to one element.

    Attributes:
        function: its parameters are the numbers of one row, the row's index if `indexed`, and the scalar arguments. It
            returns a tuple of the parts that the row contributes.
        start: the parts of no rows, as Python numbers. For integers, an infinity stands for the smallest or largest
            one.
        merge: (parts, other parts) -> the parts of both together. It is associative, apart from rounding.
        finish: (parts, the number of rows, scalar arguments) -> a tuple of results.
        parts: the dtypes of the parts: names, or "" for the compute dtype, "real" for the dtype of a complex number's
            parts, "index" for the dtype of indices.
        indexed: True if the function takes the row's index. If several axes are reduced, it counts in C order.
        chunk: functions that compute the parts of several rows together; None to compute each row's parts.
        place: the same if the parts are a number and its index.
    """

    __slots__ = ("chunk", "finish", "indexed", "merge", "parts", "place", "start")

    def __init__(
        self,
        name: str,
        function: Callable[..., tuple[Any, ...]],
        *,
        start: tuple[float, ...],
        merge: Callable[..., tuple[Any, ...]],
        finish: Callable[..., tuple[Any, ...]],
        reference: Callable[..., tuple[Any, ...]] | None = None,
        parts: tuple[str, ...] | None = None,
        indexed: bool = False,
        chunk: Chunk | None = None,
        place: Place | None = None,
    ):
        super().__init__(name, function, reference)
        self.chunk, self.place = chunk, place
        self.start, self.merge, self.finish = start, merge, finish
        self.parts, self.indexed = ("",) * len(start) if parts is None else parts, indexed

    def results(self, scalars: int = 0) -> int:
        """Return how many results `finish` returns, given the number of scalar arguments."""
        with np.errstate(all="ignore"):
            return len(self.finish(*[np.float64(1)] * (len(self.start) + 1 + scalars)))

    def digest(self, compute: str, narrow: bool) -> str:
        """Return the digest of all its functions, like `Formula.digest`."""
        functions = (self.function, self.merge, self.finish, *(self.chunk or ()), *(self.place or ())[:2])
        digests = [digest(function, compute, narrow) for function in functions]
        more = self.start, self.parts, self.indexed, *(self.place or ())[2:]
        return hashlib.sha256(f"{digests} {more!r}".encode()).hexdigest()


class RowFormula(Formula):
    """A formula of the elements of a row and of values that are reduced from the whole row.

    Attributes:
        function: its parameters are the numbers at one position of a row, the results of all stages, and the scalar
            arguments. It returns a tuple.
        stages: reductions of the row, one after the other. After the numbers, the function of each stage takes the
            results of the earlier stages.
        fewer: the same formula with fewer stages, for rows that are read again in each stage; the formula itself if no
            such version exists.
        shared: merges the results of blocks that share a row. Each block runs both stages on its piece of the row; it
            provides a number of elements, the result of the first stage, and the parts of the second. The function
            takes the number of elements, these values, and the scalar arguments; it makes the results of both stages
            from its parts. None if the blocks exchange the parts of each stage instead.
        row, chosen: functions for rows with an index and a factor, see `RowSpec.factor`; None for other rows. Both take
            the results of all stages, the factor, the index, the number n of elements, 1 / n and the scalar arguments;
            `chosen` first takes the element at the index. `row` returns what `function` takes after the numbers, in
            place of the results and the scalar arguments. `chosen` returns (the row's own result, the first output at
            the index).
    """

    __slots__ = ("chosen", "fewer", "row", "shared", "stages")

    def __init__(
        self,
        name: str,
        function: Callable[..., tuple[Any, ...]],
        stages: tuple[ReductionFormula, ...],
        fewer: RowFormula | None = None,
        shared: ReductionFormula | None = None,
        row: Callable[..., tuple[Any, ...]] | None = None,
        chosen: Callable[..., tuple[Any, ...]] | None = None,
    ):
        super().__init__(name, function)
        self.stages, self.fewer, self.shared, self.row, self.chosen = stages, fewer or self, shared, row, chosen

    def digest(self, compute: str, narrow: bool) -> str:
        """Return the digest of all its functions, like `Formula.digest`."""
        reductions = self.stages if self.shared is None else (*self.stages, self.shared)
        functions = (self.function, self.row, self.chosen)
        digests = [digest(each, compute, narrow) for each in functions if each is not None]
        digests += [each.digest(compute, narrow) for each in reductions]
        return hashlib.sha256(repr(digests).encode()).hexdigest()


class Scan(Formula):
    """A formula that merges, for each element of a row, all elements up to it.

    Attributes:
        function: its parameters are the numbers of one element. It returns a tuple of the parts that this element
            contributes.
        start: the parts of no elements, as Python numbers.
        merge: (parts, parts of later elements) -> the parts of both together. It is associative, apart from rounding.
        finish: its parameters are the parts of all elements before one, and the numbers of that element. It returns a
            tuple of results. None if the result is the last of the parts of all elements up to it.
    """

    __slots__ = ("finish", "merge", "start")

    def __init__(
        self,
        name: str,
        function: Callable[..., tuple[Any, ...]],
        *,
        start: tuple[float, ...],
        merge: Callable[..., tuple[Any, ...]],
        finish: Callable[..., tuple[Any, ...]] | None = None,
    ):
        super().__init__(name, function)
        self.start, self.merge, self.finish = start, merge, finish

    def digest(self, compute: str, narrow: bool) -> str:
        """Return the digest of all its functions, like `Formula.digest`."""
        functions = (self.function, self.merge, *([] if self.finish is None else [self.finish]))
        digests = [digest(function, compute, narrow) for function in functions]
        return hashlib.sha256(f"{digests} {self.start!r}".encode()).hexdigest()


copyreg.pickle(ReductionFormula, reduced)

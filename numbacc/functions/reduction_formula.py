"""Formulas of several elements: of reductions, of rows, and of scans."""

from __future__ import annotations

import copyreg
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from .formula import Formula, digest, reduced


class Chunk(NamedTuple):
    """How the parts of several rows are made together: cheaper than of each row, and merged.

    Attributes:
        first, merge_first: of each row a tuple, as `ReductionFormula.function`, and of two of these one.
        middle: (these of all rows, their number) -> a tuple.
        second, merge_second: (the numbers of a row, its index where there is one, what `middle` returned, the parts of
            no rows) -> a tuple, and of two of these one.
        finish: (what `middle` returned, what `merge_second` did, the number of rows) -> the parts.
    """

    first: Callable[..., tuple[Any, ...]]
    merge_first: Callable[..., tuple[Any, ...]]
    middle: Callable[..., tuple[Any, ...]]
    second: Callable[..., tuple[Any, ...]]
    merge_second: Callable[..., tuple[Any, ...]]
    finish: Callable[..., tuple[Any, ...]]


class Place(NamedTuple):
    """How the first of the best of several rows is found, and where: the parts are a number and its index.

    Attributes:
        best: (a, b) -> (the better one,), NaN if one is.
        later: as the reduction's `merge` where the second index is larger, or the first that of nothing.
        instruction: "max" or "min", which does so with pairs of 16-bit floats.
    """

    best: Callable[..., tuple[Any, ...]]
    later: Callable[..., tuple[Any, ...]]
    instruction: str


class ReductionFormula(Formula):
    """A formula that makes one element of all rows of a column.

    Attributes:
        function: of the numbers of one row, its index where that is asked for, and the scalar arguments: a tuple of the
            parts that it adds.
        start: the parts of no rows at all, as Python numbers; of integers an infinity stands for the outermost.
        merge: (parts, other parts) -> their parts together: associative, but for rounding.
        finish: (parts, the number of rows, scalar arguments) -> a tuple of results.
        parts: the parts' dtypes: names, "" for what is computed in, "real" for that of a complex number's parts,
            "index" for that of indices.
        indexed: True if the function is given the row's index, counted in C order where several axes are reduced.
        chunk: how the parts of several rows are made together, None for one by one.
        place: the same where the parts are a number and its index.
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

    def digest(self, compute: str, narrow: bool) -> str:
        """As `Formula.digest`, of all its functions."""
        functions = (self.function, self.merge, self.finish, *(self.chunk or ()), *(self.place or ())[:2])
        digests = [digest(function, compute, narrow) for function in functions]
        more = self.start, self.parts, self.indexed, *(self.place or ())[2:]
        return hashlib.sha256(f"{digests} {more!r}".encode()).hexdigest()


class RowFormula(Formula):
    """A formula of the elements of a row, and of what is reduced from all of it.

    Attributes:
        function: of the numbers at one place of a row, the results of all stages, and the scalar arguments: a tuple.
        stages: reductions of the row, one after the other: their functions are given the results of those before,
            behind the numbers.
        fewer: the same with fewer stages, for rows that are read anew in each of them; itself where there is none.
        shared: how blocks that share a row bring together what they have found, each in both stages of what it has of
            the row: a number, the first stage's result, and the parts of the second. None where they exchange what they
            have of each stage. Its function is given how many elements that is of, these, and the scalar arguments; it
            makes the results of both stages of its parts.
    """

    __slots__ = ("fewer", "shared", "stages")

    def __init__(
        self,
        name: str,
        function: Callable[..., tuple[Any, ...]],
        stages: tuple[ReductionFormula, ...],
        fewer: RowFormula | None = None,
        shared: ReductionFormula | None = None,
    ):
        super().__init__(name, function)
        self.stages, self.fewer, self.shared = stages, fewer or self, shared

    def digest(self, compute: str, narrow: bool) -> str:
        """As `Formula.digest`, of all its functions."""
        reductions = self.stages if self.shared is None else (*self.stages, self.shared)
        digests = [digest(self.function, compute, narrow), *(each.digest(compute, narrow) for each in reductions)]
        return hashlib.sha256(repr(digests).encode()).hexdigest()


class Scan(Formula):
    """A formula that merges all elements of a row up to each.

    Attributes:
        function: of the numbers of one element: a tuple of the parts that it adds.
        start: the parts of no elements at all, as Python numbers.
        merge: (parts, parts of what lies behind) -> their parts together: associative, but for rounding.
        finish: of the parts of all elements before one, and of its numbers: a tuple of results. None where the result
            is the last of the parts of all up to it.
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
        """As `Formula.digest`, of all its functions."""
        functions = (self.function, self.merge, *([] if self.finish is None else [self.finish]))
        digests = [digest(function, compute, narrow) for function in functions]
        return hashlib.sha256(f"{digests} {self.start!r}".encode()).hexdigest()


copyreg.pickle(ReductionFormula, reduced)

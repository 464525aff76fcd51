"""The spec of the kernel for lists of arrays, kept apart from the kernel: plans need it without Numba or a GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from ...base.dtypes import TABLE
from ...functions.formula import Formula, digest
from ...runtime.launch_order import VECTOR_BYTES, Spec

#: Number of fields of a row in the table of arrays, after the addresses: the arrays' size, the number of their first
#: chunk, how many elements, from the first on, are read and written 16 bytes at a time, and the row's own scalar.
ROW_FIELDS = 4
#: The most bytes of all arrays that a thread reads at once. With 112, a step of AdamW spilled 116 bytes.
_MOST_BYTES = 96


class ListFormula(Formula):
    """A formula of one element of each of several arrays, and of parameters that each thread computes once.

    Attributes:
        function: (elements, parameters) -> a tuple of results.
        numbers: (elements of single-element arrays, scalar arguments) -> a tuple of parameters; None if the parameters
            are the scalar arguments.
        row: (parameters, the row's own scalar) -> the parameters for a row of arrays; None if all rows have the same.
        idle: parameters -> (1 if nothing changes, so that blocks end at once, else 0,); None if they never do.
    """

    __slots__ = ("idle", "numbers", "row")

    def __init__(
        self,
        name: str,
        function: Callable[..., tuple[Any, ...]],
        numbers: Callable[..., tuple[Any, ...]] | None = None,
        row: Callable[..., tuple[Any, ...]] | None = None,
        idle: Callable[..., tuple[float]] | None = None,
    ):
        super().__init__(name, function)
        self.numbers, self.row, self.idle = numbers, row, idle

    def digest(self, compute: str, narrow: bool) -> str:
        """Return the digest of all functions, see `Formula.digest`."""
        functions = (self.function, self.numbers, self.row, self.idle)
        digests = ["" if function is None else digest(function, compute, narrow) for function in functions]
        return hashlib.sha256(repr(digests).encode()).hexdigest()


class _ListFields(NamedTuple):
    formula: ListFormula
    operands: tuple[str, ...]
    written: tuple[int, ...]
    singles: tuple[str, ...]
    compute: str
    scalars: tuple[str, ...]
    sources: int


class ListSpec(_ListFields, Spec):
    """Everything that determines the code of a kernel of `list_maps`, which applies a formula to lists of arrays.

    Attributes:
        formula: the computation.
        operands: name of the dtype of each list's arrays.
        written: the numbers of the lists that the results are written to, in the formula's order.
        singles: names of the dtypes of single-element arrays.
        compute, scalars: as in `specs.KernelSpec`.
        sources: number of lists, counted from the first, that the formula reads; the others are only written.
    """

    __slots__ = ()
    module = "kernels/elementwise/multi_tensor"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes of all operands."""
        return (*self.operands, *self.singles)

    @property
    def narrow(self) -> bool:
        """True if all written arrays are narrower than the compute dtype."""
        return all(self.operands[k] != self.compute for k in self.written)

    @property
    def width(self) -> int:
        """Consecutive elements that a thread handles together: 16 bytes of the narrowest dtype.

        Registers hold fewer if most arrays have a wider dtype, or if the compute dtype is float64.
        """
        sizes = [TABLE[name].itemsize for name in self.operands]
        width = VECTOR_BYTES // (8 if self.compute == "float64" else min(sizes))
        return width if width * sum(sizes[: self.sources]) <= _MOST_BYTES else VECTOR_BYTES // max(sizes)

    @property
    def row_words(self) -> int:
        """Number of 64-bit words of a row of the table of arrays, rounded up to an even number."""
        words = len(self.operands) + ROW_FIELDS
        return words + words % 2


class _ListSumFields(NamedTuple):
    formula: Formula
    operands: tuple[str, ...]
    compute: str


class ListSumSpec(_ListSumFields, Spec):
    """Everything that determines the code of a kernel of `list_sums`, which sums a formula over a list of arrays.

    Attributes:
        formula: the terms, a function of one element.
        operands: name of the dtype of the arrays.
        compute: name of the dtype of sums.
    """

    __slots__ = ()
    module = "kernels/elementwise/multi_tensor_sum"
    #: As in `ListSpec`.
    singles, scalars = (), ()
    narrow = False

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes of all operands."""
        return (*self.operands, self.compute)

    @property
    def width(self) -> int:
        """Consecutive elements that a thread loads together: 16 bytes."""
        return VECTOR_BYTES // TABLE[self.operands[0]].itemsize

    @property
    def row_words(self) -> int:
        """As in `ListSpec`."""
        return 1 + ROW_FIELDS + (1 + ROW_FIELDS) % 2

"""Description of the kernel of lists of arrays, apart from the kernel: plans need it without Numba or a GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from ...base.dtypes import TABLE
from ...functions.formula import Formula, digest
from ...runtime.launch_order import VECTOR_BYTES, Spec

#: What a row of the table of arrays has behind their addresses: how many elements they have, the number of their first
#: chunk, and how many elements, from the first on, are read and written 16 bytes at a time.
ROW_FIELDS = 3


class ListFormula(Formula):
    """A formula of one element of each of several arrays, and of numbers that each thread makes once.

    Attributes:
        function: of the elements, then the numbers: a tuple of results.
        numbers: (values of arrays of one element, scalar arguments) -> the numbers, as a tuple; None where these are
            the scalar arguments.
    """

    __slots__ = ("numbers",)

    def __init__(
        self, name: str, function: Callable[..., tuple[Any, ...]], numbers: Callable[..., tuple[Any, ...]] | None = None
    ):
        super().__init__(name, function)
        self.numbers = numbers

    def digest(self, compute: str, narrow: bool) -> str:
        """As `Formula.digest`, of both functions."""
        functions = [self.function] if self.numbers is None else [self.function, self.numbers]
        digests = [digest(function, compute, narrow) for function in functions]
        return hashlib.sha256(repr(digests).encode()).hexdigest()


class _ListFields(NamedTuple):
    formula: ListFormula
    operands: tuple[str, ...]
    written: tuple[int, ...]
    singles: tuple[str, ...]
    compute: str
    scalars: tuple[str, ...]


class ListSpec(_ListFields, Spec):
    """All that decides the code of a kernel of `list_maps`, which applies a formula to lists of arrays.

    Attributes:
        formula: what it computes.
        operands: name of the dtype of each list's arrays.
        written: the numbers of the lists that the results are written to, in the formula's order.
        singles: names of the dtypes of arrays of one element.
        compute, scalars: as in `specs.KernelSpec`.
    """

    __slots__ = ()
    module = "kernels/elementwise/multi_tensor"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return (*self.operands, *self.singles)

    @property
    def narrow(self) -> bool:
        """As in `specs.KernelSpec`."""
        return all(self.operands[k] != self.compute for k in self.written)

    @property
    def width(self) -> int:
        """Elements next to each other that a thread takes together: 16 bytes of the narrowest dtype.

        Where float64 is computed in registers allow 16 bytes of that.
        """
        narrowest = min(TABLE[name].itemsize for name in self.operands)
        return VECTOR_BYTES // (8 if self.compute == "float64" else narrowest)

    @property
    def row_words(self) -> int:
        """64-bit words of a row of the table of arrays, an even number."""
        words = len(self.operands) + ROW_FIELDS
        return words + words % 2

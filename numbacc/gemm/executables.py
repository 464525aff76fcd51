"""Executables that call cuBLASLt: alone, or with copies before it and numbacc's kernels after it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from ..base.codes import ALIGNED, ARRAYS, MATMUL_ARRAYS, MAY_OVERLAP, WRONG_ALIGNMENT
from ..base.dispatch import matmul_library
from ..kernels.elementwise import copy as copying
from ..libraries.products import bits
from ..runtime.steps import ABSENT, CompiledStep, CopyBytes, Scratch, Step, Steps, ZeroBytes
from . import compose
from .alignment import alignment_of, loose_scales
from .lowering import A, B, C, LoweredProduct
from .problem import SCALES, GemmProblem

#: amax_d's number in a call of the library.
_AMAX = MATMUL_ARRAYS - 1


class CallOperands:
    """The mapping from a plan's operands, inputs first, to the arrays of a library call: see `codes.MATMUL_ARRAYS`.

    Args:
        names: names of the plan's operands.
        default_c: the operand that the library gets as C if it does not get the user's C; "" for none.
        copies_c: True if the user's C is copied to the array that the library gets.

    Attributes:
        names: as given.
        c: the number of the user's C, or ABSENT.
        numbers: the number of the operand for each array of a call, or ABSENT.
    """

    def __init__(self, names: Sequence[str], default_c: str, copies_c: bool):
        self.names = tuple(names)
        index = {name: number for number, name in enumerate(names)}
        self.c = index.get("c", ABSENT)
        c = default_c if copies_c or "c" not in index else "c"
        second = "bias" if "bias" in index else "bias_grad"
        self.numbers = tuple(index.get(name, ABSENT) for name in ("a", "b", c, "out", second, "aux", *SCALES, "amax_d"))
        #: Picks the addresses of a call's arrays from the operands' addresses, followed by a 0.
        self.pick = itemgetter(*self.numbers)

    def key(self, addresses: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the alignment of the arrays, and which scales are misaligned."""
        found = self.pick((*addresses, 0))
        return tuple(map(alignment_of, found[:ARRAYS])), loose_scales(found[ARRAYS:])


class LibraryCall:
    """A call of the library with all its arrays in the library's order, for the thread that made it."""

    direct = True
    library_bytes = 0

    def __init__(self, runner: Any, algorithm: str, scale_type: str):
        self.runner, self.backend, self.algorithm = runner, runner.backend, algorithm
        self.workspace_bytes = int(runner.workspace_bytes)
        self.deterministic = bool(runner.algorithm.deterministic)
        #: The default alpha and beta.
        self._factors = bits(1.0, scale_type), bits(0.0, scale_type)

    def ready(self, addresses: Sequence[int]) -> None:
        """Do nothing: the library loads its kernels itself."""

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Launch the product; see `Executable.launch`. The scalars are alpha and beta, by default 1 and 0."""
        status: int = self.runner.launch(stream, scratch, *(scalars or self._factors), *addresses)
        return status

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Launch the product without checks; see `Executable.launch_unchecked`."""
        status: int = self.runner.launch_unchecked(stream, scratch, *(scalars or self._factors), *addresses)
        return status

    def compiled_steps(
        self, places: tuple[tuple[int, int], ...], scratch: int, scalars: tuple[int, ...]
    ) -> list[CompiledStep] | None:
        """Return the product, if alpha and beta are 1 and 0."""
        compiled = getattr(self.runner, "compiled", None)
        if compiled is None or scalars:
            return None
        function, template = compiled
        return [CompiledStep(function, template, places, (), scratch if self.workspace_bytes else None)]

    def check(self, status: int) -> None:
        """Raise CublasLtError if a launch's status is an error."""
        matmul_library().check(status)


class Alone(LibraryCall):
    """A call of the library that is the whole work of a plan, with the plan's operands.

    Args:
        operands: the mapping to the arrays of the call.
        plain: True if it needs no C that differs from D.
        close: as in `Operation.close`, for the pairs that the compiled call does not check.
    """

    def __init__(
        self,
        runner: Any,
        algorithm: str,
        scale_type: str,
        operands: CallOperands,
        plain: bool,
        close: Sequence[tuple[int, ...]],
    ):
        super().__init__(runner, algorithm, scale_type)
        self._pick, self._close = operands.pick, close
        self._scales = [number for number in operands.numbers[ARRAYS:] if number != ABSENT]
        # Passing fewer arguments makes a call cheaper, and a small product takes the library only six microseconds.
        #: The compiled call with fewer arguments, which takes scratch memory if the product needs some; or None.
        self._short: Any = None
        if plain and not self._scales and operands.c == ABSENT:
            self._short = runner.launch_arrays if self.workspace_bytes else runner.launch_plain
        #: Whether a plain call reads a third array, and whether that is a bias.
        self._reads_more, self._has_bias = len(operands.names) == 4, "bias" in operands.names

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch the product; see `Executable.launch`."""
        if self._short is not None and not scalars:
            bias = aux = 0
            if self._reads_more:
                a, b, more, out = addresses
                bias, aux = (more, 0) if self._has_bias else (0, more)
            else:
                a, b, out = addresses
            if self.workspace_bytes:
                return self._short(stream, scratch, (a, b, out, out, bias, aux), ())
            return self._short(stream, a, b, out, bias, aux)
        for number in self._scales:
            if addresses[number] % 16:
                return WRONG_ALIGNMENT
        for i, j, near, far in self._close:
            if near < addresses[j] - addresses[i] < far:
                return MAY_OVERLAP
        return super().launch(stream, scratch, self._pick((*addresses, 0)), scalars)

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Launch the product without checks; see `Executable.launch_unchecked`."""
        return super().launch_unchecked(stream, scratch, self._pick((*addresses, 0)), scalars)

    def compiled_steps(
        self, places: tuple[tuple[int, int], ...], scratch: int, scalars: tuple[int, ...]
    ) -> list[CompiledStep] | None:
        """Return the product, if alpha and beta are 1 and 0, and compiled code makes all checks."""
        if self._scales or self._close:
            return None
        a, b, c, out, *rest = self._pick((*places, (ABSENT, 0)))
        # Without a C, the library gets the result's array, as from `matmul_plain`.
        return super().compiled_steps((a, b, out if c[0] == ABSENT else c, out, *rest), scratch, scalars)


def assembled(
    problem: GemmProblem,
    operands: CallOperands,
    lowered: LoweredProduct,
    call: LibraryCall,
    kernels: Sequence[compose.KernelStep],
    zeros: Sequence[int],
    measured: bool,
    **options: Any,
) -> Steps:
    """Return a product of the library with copies before it and numbacc's kernels after it.

    Args:
        problem: the product to compute.
        operands: the mapping from its arrays to the arrays of the call.
        lowered, call: the library's product.
        kernels: the steps after it.
        zeros: bytes of the zeros that replace a and b; () if a and b are used.
        measured: True in a measurement, where values do not matter: C and zeros are then not copied.
        options: as in `Steps`.
    """
    device, scratch = problem.call.a.device, Scratch()
    count = sum(number != ABSENT for number in {*operands.numbers, operands.c})
    numbers, steps, behind = list(operands.numbers), [], []
    if problem.call.c is not None and operands.c not in (ABSENT, numbers[C]) and not measured:
        steps.append(Step(copying.executable(problem.call.c, problem.out), (operands.c, numbers[C])))
    for number, nbytes in zip((A, B), zeros, strict=False):
        numbers[number] = count + scratch.part(nbytes)
        if not measured:
            steps.append(Step(ZeroBytes(nbytes, device), (numbers[number],)))
    for copy in lowered.copies:
        own, numbers[copy.number] = numbers[copy.number], count + scratch.part(copy.nbytes)
        there_and_back = (own, numbers[copy.number])
        if copy.number == _AMAX:
            behind.append(Step(CopyBytes(copy.nbytes, device), there_and_back[::-1]))
        else:
            steps.append(Step(copy.executable or CopyBytes(copy.nbytes, device), there_and_back))
    padding = (0,) * (MATMUL_ARRAYS - ARRAYS)
    runs = [(*offsets, *padding) for offsets in lowered.offsets] if len(lowered.offsets) > 1 else ((),)
    # With k = 0, sums over k are sums of the zeros; with only alpha = 0, they are still sums of a and b.
    seen = operands.numbers if problem.k else (numbers[A], numbers[B], *operands.numbers[C:])
    steps += [Step(call, tuple(numbers), runs, takes_scalars=True), *behind, *map_steps(kernels, seen)]
    return Steps(steps, scratch, deterministic=call.deterministic, **options)


def map_steps(kernels: Sequence[compose.KernelStep], operands: Sequence[int]) -> list[Step]:
    """Return the steps of numbacc's kernels on these operands, which are in the order of a library call."""
    return [Step(each.plan, tuple(operands[k] for k in (*each.reads, *each.writes))) for each in kernels]


def padded(address: int, low: int, high: int) -> tuple[int, int]:
    """Return (bytes, start) of memory for an array with these bounds that has an address's alignment up to ALIGNED."""
    below = -(low // ALIGNED) * ALIGNED
    # Include the padding at the end of aux's last row.
    return below + high + 5 * ALIGNED, below + address % ALIGNED

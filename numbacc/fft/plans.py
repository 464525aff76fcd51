"""Plans of Fourier transforms, with cuFFT's plans and repacking passes as executables."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..arrays import operands
from ..base.codes import MAY_OVERLAP, WRONG_ALIGNMENT
from ..base.dispatch import fourier_library, simulated
from ..base.layout import check_writable, same_layout
from ..errors import LayoutError
from ..plan.base import Plan, Result
from ..reference import fft as reference
from ..runtime.steps import Scratch, Step, Steps
from . import repacking
from .program import Execute, Repack, TransformRequest, build


class _Transform:
    """A plan of cuFFT as an executable, which belongs to the thread that made it.

    Args:
        transform: the plan.
        algorithm: its description.
        misaligned: address bits that must be 0.
        forbidden: the open range of distances between its arrays within which they may share bytes.
        in_place: True if it may write to the array that it reads.
    """

    deterministic = True

    def __init__(self, transform: Any, algorithm: str, misaligned: int, forbidden: Sequence[int], in_place: bool):
        self.transform, self.algorithm = transform, algorithm
        self._misaligned, (self._near, self._far), self._in_place = misaligned, forbidden, in_place
        self.backend = transform.backend
        self.workspace_bytes = self.library_bytes = transform.work_bytes
        #: The work area is passed to cuFFT only after the check of the context.
        self.direct = not transform.work_bytes

    def ready(self, addresses: Sequence[int]) -> None:
        """Do nothing, because cuFFT compiles nothing later."""

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Do what `Executable.launch` does."""
        source, target = addresses
        if (source | target) & self._misaligned:
            return WRONG_ALIGNMENT
        if self._near < target - source < self._far and not (source == target and self._in_place):
            return MAY_OVERLAP
        transform = self.transform
        if transform.stream != stream:
            transform.set_stream(stream)
        status: int = transform.execute(stream, source, target, transform.direction)
        return status

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Do what `Executable.launch_unchecked` does."""
        transform = self.transform
        if transform.stream != stream:
            transform.set_stream(stream)
        if self.workspace_bytes:
            transform.set_area(scratch)
        status: int = transform.execute_unchecked(stream, *addresses, transform.direction)
        return status

    def check(self, status: int) -> None:
        """Raise CufftError for a launch's status."""
        self.transform.check(status)


def executable(request: TransformRequest, aligned: bool, close: Sequence[tuple[int, ...]]) -> Any:
    """Make the executable of a transform, for the calling thread.

    Args:
        request: the transform.
        aligned: whether the arrays' addresses are aligned for cuFFT.
        close: as in `Operation.close`.
    """
    program, device = build(request, aligned), request.array.device
    algorithm, mask = ", ".join(map(_describe, program.steps)), misaligned(request)
    made: dict[Any, Any] = {}
    for step in program.steps:
        if isinstance(step, Execute) and (step.walk.layout, step.inverse) not in made:
            key = (step.walk.layout, step.inverse)
            made[key] = fourier_library().Transform(*key, device)
    only = program.steps[0]
    if len(program.steps) == 1 and isinstance(only, Execute) and len(only.walk.starts) == 1:
        ((_, _, *forbidden),) = close
        in_place = same_layout(request.array, request.result)
        (transform,) = made.values()
        return _Transform(transform, algorithm, mask, forbidden, in_place)
    # The program knows which steps work in place. Buffers have the numbers of operands: the argument, the result, then
    # scratch memory.
    calls = {key: _Transform(transform, algorithm, 0, (0, 0), True) for key, transform in made.items()}
    steps = [
        Step(repacking.executable(step, prod(request.lengths)), (step.source.buffer, step.target.buffer))
        if isinstance(step, Repack)
        else Step(calls[step.walk.layout, step.inverse], (step.source.buffer, step.target.buffer), step.walk.starts)
        for step in program.steps
    ]
    kinds = {"cufft" if isinstance(step, Execute) else "kernel" for step in program.steps}
    return Steps(
        steps,
        Scratch(program.scratch, program.nbytes),
        close,
        lambda addresses: (not (addresses[0] | addresses[1]) & mask) == aligned,
        backend="simulator" if simulated() else "+".join(sorted(kinds)),
        algorithm=algorithm,
        library_bytes=sum(transform.work_bytes for transform in made.values()),
    )


def misaligned(request: TransformRequest) -> int:
    """Return the address bits that must be 0 for cuFFT."""
    return int(np.dtype(request.math).itemsize) - 1


class FftPlan(Plan[Result]):
    """A planned Fourier transform. Call it with an array of the layout that it was made for.

    cuFFT's plans belong to a thread: each thread that runs this plan makes its own, once.
    """

    per_thread = True
    backend = "cufft"

    def __init__(self, request: TransformRequest):
        super().__init__(f"fft.{request.function}", ("a", "out"), (request.array,), (request.result,))
        check_writable(request.result, "out")
        self._request = request
        self.out_given, self.math_dtype, self.empty = request.given, request.math, not request.result.size
        self.overwritten = (0,) if request.overwrite else ()
        #: Whether the result may be the argument itself: no step then writes an element before its old value is read.
        #: For a transform from real to real arrays, the values first become complex in scratch memory.
        self._in_place = same_layout(request.array, request.result)
        self._misaligned = misaligned(request)

    def _key(self, addresses: Sequence[int]) -> bool:
        """Return whether the arrays are aligned for cuFFT."""
        source, target = addresses
        return not (source | target) & self._misaligned

    def _make(self, key: bool, trial: Any) -> Any:
        return executable(self._request, key, self.close)

    def _may_share(self, i: int, j: int, source: int, target: int) -> bool:
        return source == target and self._in_place

    def _shares(self, i: int, j: int) -> str:
        return (
            "out overlaps a: pass a itself, if the result has its shape and dtype (in place), or memory "
            "that does not overlap it"
        )

    def _refused_overwriting(self, name: str) -> LayoutError:
        return LayoutError("a is read-only: overwrite_input=True is not possible")

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        request, (a,), (out,) = self._request, inputs, outs
        if self.empty:
            return (operands.empty_layout(request.result) if out is None else out,)
        found = reference.transform(request.function, a, request.lengths, request.axes, request.norm)
        if out is None:
            return (found,)
        np.copyto(out, found)
        return outs


def _describe(step: Repack | Execute) -> str:
    if isinstance(step, Repack):
        return "repack"
    layout, calls = step.walk.layout, len(step.walk.starts)
    text = f"{layout.type.name} {'x'.join(map(str, layout.lengths))}, batch {layout.batch}"
    return text if calls == 1 else f"{text}, {calls} times"

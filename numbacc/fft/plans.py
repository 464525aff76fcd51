"""Plans of Fourier transforms, and the cache that keeps them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..base.backend import backend, fourier_library, simulated
from ..base.layout import CPU, check_writable, overlap, read_only, same_layout
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..device import workspace
from ..device.streams import handle_of
from ..errors import LayoutError
from ..plan.base import PlanInfo
from ..reference import fft as reference
from . import arrange
from .program import Arrange, Execute, Program, Request, build


class _Ready:
    """A program with its kernels and cuFFT plans, ready to run in the thread that made it.

    Attributes:
        direct: the one cuFFT plan, where that is all there is to do; else None.
        nbytes: of the scratch memory: the program's own, then cuFFT's work area.
        work_bytes: of the work areas of all its cuFFT plans.
    """

    def __init__(self, program: Program, count: int, device: int):
        self._program, self._device = program, device
        self._steps: list[Any] = []
        made: dict[Any, Any] = {}
        for step in program.steps:
            if isinstance(step, Arrange):
                self._steps.append((step, arrange.executable(step, count)))
            else:
                key = (step.walk.layout, step.inverse)
                if key not in made:
                    made[key] = fourier_library().Transform(*key, device)
                self._steps.append((step, made[key]))
        self.work_bytes = sum(transform.work_bytes for transform in made.values())
        self.nbytes = program.nbytes + max((transform.work_bytes for transform in made.values()), default=0)
        only = program.steps[0]
        alone = len(program.steps) == 1 and isinstance(only, Execute) and len(only.walk.starts) == 1
        self.direct = self._steps[0][1] if alone and not self.nbytes else None

    def compile(self, source: int, target: int) -> None:
        """Compile and load the kernels for arrays at these addresses; scratch memory starts on a multiple of 256."""
        places = [source, target, *self._program.scratch]
        for step, ready in self._steps:
            if isinstance(step, Arrange):
                ready.launcher((places[step.source.buffer], places[step.target.buffer]))

    def queue(self, source: int, target: int, stream: int, scratch: int) -> None:
        """Queue all steps, given the addresses of argument, result and scratch memory.

        The device's context is current, and the stream has been looked at.
        """
        program = self._program
        places = [source, target, *(scratch + start for start in program.scratch)]
        for step, ready in self._steps:
            first, second = places[step.source.buffer], places[step.target.buffer]
            if isinstance(step, Arrange):
                ready.launch(stream, (first, second))
                continue
            if ready.stream != stream:
                ready.set_stream(stream)
            if ready.work_bytes:
                ready.set_area(scratch + program.nbytes)
            for into, onto in step.walk.starts:
                ready.check(ready.execute_unchecked(stream, first + into, second + onto, ready.direction))


class _Here(threading.local):
    """A plan's programs of the calling thread, by whether the arrays are aligned as cuFFT asks."""

    def __init__(self) -> None:
        self.ready: dict[bool, _Ready] = {}


class FftPlan(NotCopied):
    """A planned Fourier transform. Call it with arrays laid out as those it was made for.

    Plans of cuFFT belong to a thread: each thread that runs this one makes its own, once.
    """

    _instead = PLAN_INSTEAD

    def __init__(self, request: Request):
        self._request = request
        check_writable(request.result, "out")
        self._device, self._empty = request.array.device, not request.result.size
        self._count = prod(request.lengths)
        #: Where so, no step writes the result before all that shares its elements is read: what becomes real numbers
        #: and was real itself is first made complex in scratch memory.
        self._in_place = same_layout(request.array, request.result)
        #: Address bits that are 0 where cuFFT can take an array.
        self._misaligned = np.dtype(request.math).itemsize - 1
        self._here = _Here()
        #: Bytes of work area that cuFFT's plans ask for; known once they are made.
        self.work_bytes = 0

    def prepare(self, a: Any, out: Any = None) -> None:
        """Make the kernels and cuFFT plans that a run on these arrays needs, in this thread."""
        if self._device != CPU and not self._empty:
            source, target = a._address, 0 if out is None else out._address
            self._ready(not (source | target) & self._misaligned).compile(source, target)

    def _ready(self, aligned: bool) -> _Ready:
        found = self._here.ready.get(aligned)
        if found is None:
            found = _Ready(build(self._request, aligned), self._count, self._device)
            self._here.ready[aligned] = found
            self.work_bytes = max(self.work_bytes, found.work_bytes)
            cache.trim()
        return found

    @property
    def info(self) -> PlanInfo:
        """The plan's decisions, for aligned arrays."""
        request, workspace_bytes, name, algorithm = self._request, 0, "numpy", "reference"
        if self._device != CPU:
            name, algorithm = "cufft", "no launch: the result is empty"
            if not self._empty:
                ready, steps = self._ready(True), build(self._request, True).steps
                workspace_bytes = ready.nbytes
                kinds = {"cufft" if isinstance(step, Execute) else "kernel" for step in steps}
                name = "simulator" if simulated() else "+".join(sorted(kinds))
                algorithm = ", ".join(_describe(step) for step in steps)
        return PlanInfo(
            op=f"fft.{request.function}",
            dtypes=(request.array.dtype.name, request.result.dtype.name),
            backend=name,
            algorithm=algorithm,
            workspace_bytes=workspace_bytes,
            math_dtype=request.math,
            accumulator_dtype=None,
            deterministic=True,
        )

    def __call__(self, a: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Run on arrays laid out as those that the plan was made for.

        Args:
            a: the array.
            out: where to write, if the plan was made with `out`.
            stream: as everywhere; the default stream if None.

        Returns:
            the result, `out` if given.

        Raises:
            LayoutError: an array is laid out otherwise.
        """
        handle, request = handle_of(stream), self._request
        if (out is not None) != request.given:
            raise LayoutError(
                f"this plan of fft.{request.function} was made {'with' if request.given else 'without'} out, and must "
                "be called so"
            )
        array = operands.as_array(a, "a", handle)
        result = None if out is None else operands.as_array(out, "out", handle)
        for found, wanted in ((array, request.array), (result, request.result)):
            if found is not None and not same_layout(operands.layout_of(found), wanted):
                raise LayoutError(
                    f"this plan of fft.{request.function} was made for {wanted}; it was called with "
                    f"{operands.layout_of(found)}. Make a plan for these arrays, or call the function, which does"
                )
        return self.run(array, result, out, handle)

    def run(self, a: Any, result: Any, out: Any, stream: int) -> Any:
        """Run without checking layouts: `a` and `result` are those that the plan was found by, or None.

        Returns `out`, the user's own object for `result`, or a new array.
        """
        if self._device == CPU:
            return self._run_numpy(a, result, out)
        if result is None:
            out = result = operands.empty_device(self._request.result, stream)
        elif result._readonly:
            raise read_only("out")
        else:
            self._check_overlap(a._address, result._address)
        if self._request.overwrite and a._readonly:
            raise LayoutError("a is read-only: overwrite_input=True cannot be")
        if self._empty:
            return out
        source, target = a._address, result._address
        ready = self._here.ready.get(not (source | target) & self._misaligned)
        if (
            ready is not None
            and ready.direct is not None
            and a._storage.sole == stream
            and result._storage.sole == stream
        ):
            # The path where a tenth of a microsecond counts.
            direct = ready.direct
            if direct.stream != stream:
                direct.set_stream(stream)
            if not direct.execute(stream, source, target, direct.direction):
                if a._storage.sole != stream or result._storage.sole != stream:
                    backend().note(stream, self._device, (a,), (a, result))
                return out
        writes = (a, result) if self._request.overwrite else (result,)
        with backend().using(stream, self._device, (a,), writes) as capture:
            ready = self._ready(not (source | target) & self._misaligned)
            if capture is not None:
                capture.keep(ready)
            workspace.run(partial(ready.queue, source, target, stream), ready.nbytes, self._device, stream)
        return out

    def _run_numpy(self, a: Any, result: Any, out: Any) -> Any:
        request = self._request
        if result is not None:
            if not result.flags.writeable:
                raise read_only("out")
            self._check_overlap(a.ctypes.data, result.ctypes.data)
        if request.overwrite and not a.flags.writeable:
            raise LayoutError("a is read-only: overwrite_input=True cannot be")
        if self._empty:
            return operands.empty_layout(request.result) if out is None else out
        found = reference.transform(request.function, a, request.lengths, request.axes, request.norm)
        if out is None:
            return found
        np.copyto(result, found)
        return out

    def _check_overlap(self, source: int, target: int) -> None:
        """Raise LayoutError where out shares memory with a and the transform is not in place."""
        if source == target and self._in_place:
            return
        if overlap(source, self._request.array, target, self._request.result):
            raise LayoutError(
                "out overlaps a: pass a itself, where the result has its shape and dtype (in place), or memory "
                "that shares nothing with it"
            )


def _describe(step: Arrange | Execute) -> str:
    if isinstance(step, Arrange):
        return "arrange"
    layout, calls = step.walk.layout, len(step.walk.starts)
    text = f"{layout.type.name} {'x'.join(map(str, layout.lengths))}, batch {layout.batch}"
    return text if calls == 1 else f"{text}, {calls} times"


class CacheInfo(NamedTuple):
    """The state of a cache of plans; the first four as `functools.lru_cache` names them.

    Attributes:
        hits, misses: calls that found their plan, and that made it.
        maxsize, currsize: plans, at most and now.
        maxbytes, currbytes: work area that cuFFT's plans ask for, at most and now.
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int
    maxbytes: int
    currbytes: int


class PlanCache:
    """Plans by what decides them, the one used longest ago dropped first."""

    def __init__(self, count: int, nbytes: int):
        self.count, self.nbytes = count, nbytes
        self._plans: OrderedDict[Hashable, FftPlan] = OrderedDict()
        self._lock = threading.RLock()
        self._hits = self._misses = 0
        self._last: FftPlan | None = None

    def find(self, key: Hashable) -> FftPlan | None:
        """The plan under a key, if there is one."""
        plan = self._plans.get(key)
        if plan is None:
            return None
        self._hits += 1
        if plan is not self._last:
            with self._lock:
                if key in self._plans:  # another thread may just have dropped it
                    self._plans.move_to_end(key)
                self._last = plan
        return plan

    def add(self, key: Hashable, plan: FftPlan) -> None:
        """Keep a plan that was not found."""
        with self._lock:
            self._misses += 1
            self._plans[key] = self._last = plan
            self.trim()

    def trim(self) -> None:
        """Drop what is too much. A plan that is running lives until it is done."""
        with self._lock:
            used = sum(plan.work_bytes for plan in self._plans.values())
            while self._plans and (len(self._plans) > self.count or used > self.nbytes):
                used -= self._plans.popitem(last=False)[1].work_bytes
            if not self._plans:
                self._last = None

    def limit(self, count: int | None, nbytes: int | None) -> tuple[int, int]:
        """Set limits, and return them all."""
        with self._lock:
            self.count = self.count if count is None else count
            self.nbytes = self.nbytes if nbytes is None else nbytes
            self.trim()
            return self.count, self.nbytes

    def clear(self) -> None:
        """Forget all plans, and start counting anew."""
        with self._lock:
            self._plans.clear()
            self._hits = self._misses = 0
            self._last = None

    def info(self) -> CacheInfo:
        with self._lock:
            used = sum(plan.work_bytes for plan in self._plans.values())
            return CacheInfo(self._hits, self._misses, self.count, len(self._plans), self.nbytes, used)


#: Plans hold tables and kernels of some megabytes, and no work area.
cache = PlanCache(count=256, nbytes=16 << 30)

"""Drawing random numbers into an array: where they come from, in which pieces, and how they are written.

cuRAND fills memory, the array's own or scratch, and a formula makes values of what is there: NumPy on the CPU, a kernel
on the GPU. Or, where a draw can be `fused`, a kernel makes Philox's words itself and nothing is read; and so does NumPy
with those that it has a formula `own` for, so that Philox needs no library on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..base.backend import backend, run_kernel
from ..base.dtypes import info
from ..base.layout import (
    CPU,
    Layout,
    check_rank,
    check_same_device,
    check_writable,
    layout,
    read_only,
    row_major_strides,
)
from ..device import workspace
from ..device.streams import handle_of
from ..errors import ShapeError, UnsupportedError
from ..kernels.specs import GROUPS_A_THREAD, MAX_THREADS, DrawSpec
from ..libraries.curand import STARTING, State, installed
from ..reference.random import philox, philox_for_doubles
from .draw import Draw, round_up

#: Values that go through scratch memory at a time, where the sequence can be had in pieces.
_PIECE = 1 << 20
#: Values that NumPy makes at a time, an even number: what it works on stays in the cache.
_CHUNK = 1 << 15
#: Words from which on a call of cuRAND's host generator is cheap.
_MANY = 1 << 14


class Asked(NamedTuple):
    """What a method's last arguments ask for; `out` as an array and as given, a stream's handle, whether it is one
    number."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    out: Any
    given: Any
    stream: int
    scalar: bool


def asked(size: Any, dtype: Any, out: Any, stream: Any, supported: Sequence[str]) -> Asked:
    """What a method's arguments ask for, of the dtypes it supports."""
    handle = handle_of(stream)
    array = None if out is None else operands.as_array(out, "out", handle)
    shape, found = operands.size_and_dtype(size, dtype, array, supported)
    return Asked(shape, found, array, out, handle, size is None and out is None)


class _Target:
    """An array to be written, value by value in C order.

    Args:
        draw: what is written.
        array: the array.
        made: its layout.
    """

    def __init__(self, draw: Draw, array: Any, made: Layout):
        self.draw, self.array, self.layout, self.row = draw, array, made, info(made.dtype)
        self.dense = made.strides == _dense(made.shape, made.dtype, made.device).strides or made.size <= 1
        #: Whether cuRAND may write into the array itself: on a GPU it may store several values at once.
        self.open = False


class _HostTarget(_Target):
    """A NumPy array."""

    def __init__(self, draw: Draw, array: Any, made: Layout):
        super().__init__(draw, array, made)
        if not array.flags.writeable:
            raise read_only("out")
        self._flat = array.reshape(-1) if self.dense else np.empty(made.size, made.dtype)
        self.address = self._flat.ctypes.data
        self.open = self.dense

    def fill(self, generate: Callable[[int], None], nbytes: int, start: int, count: int) -> None:
        """Values `start` to `start` + `count` of `nbytes` of memory, filled by `generate`."""
        memory = np.empty(nbytes // 4, np.uint32)
        generate(memory.ctypes.data)
        self._put(self.draw.formula, memory[: count * self.draw.words], start, count)

    def make(self, seed: int, position: int) -> None:
        """All values, of Philox's words from a position on."""
        draw, size = self.draw, self.layout.size
        for start in range(0, size, _CHUNK):
            count = min(size - start, _CHUNK)
            if draw.direct == "float64":
                words = philox_for_doubles(seed, position, start // 2, -(-count // 2))
            else:
                words = philox(seed, position + start * draw.words, draw.length(count))
            self._put(draw.own, words, start, count)

    def _put(self, formula: str, words: Any, start: int, count: int) -> None:
        draw = self.draw
        with np.errstate(all="ignore"):
            values = draw.reference(formula, words, draw.words, self.row, draw.parameters)
            self._flat[start : start + count] = values[:count]

    def finish(self) -> None:
        if not self.dense:
            self.array[...] = self._flat.reshape(self.layout.shape)


class _DeviceTarget(_Target):
    """A device array, written in the order of a stream."""

    def __init__(self, draw: Draw, array: Any, made: Layout, stream: int):
        super().__init__(draw, array, made)
        if array._readonly:
            raise read_only("out")
        backend().check_capability(self.row.name, self.row.oldest_capability, made.device)
        self.address, self._stream = array._address, stream
        self.open = self.dense and self.address % 16 == 0

    def fill(self, generate: Callable[[int], None], nbytes: int, start: int, count: int) -> None:
        """As `_HostTarget.fill`."""

        def launch(address: int) -> None:
            generate(address)
            self._launch("memory", self.draw.formula, address, 0, start, count)

        workspace.run(launch, nbytes, self.layout.device, self._stream)

    def make(self, seed: int, position: int) -> None:
        """All values, of Philox's words from a position on."""
        self._launch("philox", self.draw.fused, seed, position, 0, self.layout.size)

    def _launch(self, source: str, formula: str, name: int, position: int, start: int, count: int) -> None:
        """Queue the kernel that makes values `start` to `start` + `count` of the words from `position` on."""
        made, words = self.layout, self.draw.words
        first, skipped = divmod(position, 4)
        index = start - skipped // words
        groups = -(-(skipped + count * words) // 4)
        aligned = (self.address + index * made.itemsize) % 16
        spec, steps, shape = _kernel(source, formula, words, made, self.dense, aligned)
        blocks = -(-groups // (MAX_THREADS * GROUPS_A_THREAD))
        u, v, *reals = self.draw.parameters
        if spec.dtype == "float64":
            a, b = reals
        else:
            a, b = map(_single, reals)
        arguments = (self.address, name, first, groups, index, start + count, u, v, a, b, steps, shape)
        run_kernel(spec, blocks, MAX_THREADS, arguments, made.device, self._stream)


@lru_cache(maxsize=1024)
def _single(number: float) -> float:
    """A number as float32 has it; infinite where it is beyond."""
    with np.errstate(over="ignore"):
        return float(np.float32(number))


@lru_cache(maxsize=1024)
def _kernel(
    source: str, formula: str, words: int, made: Layout, dense: bool, aligned: int
) -> tuple[DrawSpec, tuple[int, ...], tuple[int, ...]]:
    """(kernel, steps, shape) of a draw into an array, whose first element written is at `aligned` modulo 16."""
    row, itemsize = info(made.dtype), made.itemsize
    # Integers are stored as unsigned ones, since all that matters is their bits; so are booleans.
    dtype = row.name if row.compute in ("float32", "float64") else f"uint{row.bits}"
    shape = made.shape or (1,)
    steps = tuple(step // itemsize for step in made.strides) or (1,)
    if dense:
        shape, steps = (made.size,), (1,)
    # `accessors` stores integers narrower than a word in accesses of 2 bytes at most, or as words.
    widest = 2 if row.bits < 32 and dtype.startswith("uint") else 16
    spec = DrawSpec(
        source=source,
        formula=formula,
        words=words,
        dtype=dtype,
        dense=dense,
        rank=len(shape),
        access_bytes=max(math.gcd(widest, 4 // words * itemsize, aligned), itemsize),
    )
    return spec, steps, shape


def check_capture(draw: Draw, result: Asked, device: int) -> None:
    """Raise UnsupportedError if the stream is being captured, and one number is drawn or the draw needs cuRAND's state.

    A graph would step that state at every replay, and nobody would know where its sequence then is.
    """
    if (draw.fused and not result.scalar) or device == CPU or not backend().is_capturing(result.stream):
        return
    if result.scalar:
        raise UnsupportedError(
            "a draw of one number inside a graph's capture, where it has no value yet: pass size=() for an array of it"
        )
    if not draw.fused:
        raise UnsupportedError(
            "this draw goes through cuRAND, whose state a graph cannot hold: draw before the capture and copy inside "
            'it, or draw bits, uniforms, integers, masks or float32 normals of kind "philox"'
        )


def result(shape: tuple[int, ...], dtype: np.dtype[Any], device: int, out: Any, stream: int) -> tuple[Any, Layout]:
    """`out`, which has this shape and dtype, or a new array; and its layout.

    Raises:
        ShapeError: more bytes than have addresses. DeviceError: out is on another device. LayoutError: it cannot be
        written.
    """
    made = _dense(shape, dtype, device)
    if out is None:
        return (operands.empty_layout(made) if device == CPU else operands.empty_device(made, stream)), made
    given = operands.layout_of(out)
    check_same_device(given, "out", made, "the generator")
    check_writable(given, "out")
    return out, given


@lru_cache(maxsize=1024)
def _dense(shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Layout:
    made = layout(shape, row_major_strides(shape, dtype.itemsize), dtype, device)
    if made.nbytes >= 2**63:
        raise ShapeError(f"size={shape} is too large: at most 2^63 - 1 bytes")
    return made


def run(
    draw: Draw, array: Any, made: Layout, engine: Callable[[], Any], state: State, position: int, stream: int
) -> None:
    """Write a draw into an array, beginning with a round at `position`.

    Args:
        array, made: a result of `result`.
        engine: returns the cuRAND generator, which Philox seldom needs.
        state: the generator's: its seed is Philox's key.
        stream: where the work is queued.
    """
    if not made.size:
        return
    if made.device == CPU:
        host = _HostTarget(draw, array, made)
        if draw.own and not _curand_is_faster(draw, made.size, state, position):
            host.make(state.seed, position)
        else:
            _run(draw, host, engine(), position, stream)
        host.finish()
        return
    check_rank(made.shape or (1,), "the result")
    target = _DeviceTarget(draw, array, made, stream)
    with backend().using(stream, made.device, writes=(array,)):
        if draw.fused:
            target.make(state.seed, position)
        else:
            _run(draw, target, engine(), position, stream)


def _curand_is_faster(draw: Draw, size: int, state: State, position: int) -> bool:
    """Whether cuRAND's host generator, where it is installed, should make Philox's words: the same to the last bit.

    It makes one in 4 ns and NumPy in 10, but begins with 10 ms of starting its threads' states, and each call with 0.1.
    Normals are NumPy's in any case, since they need not be the same to the last bit; in float32 they take it less time.
    """
    words = size * draw.words
    begun = position - state.offset + words > STARTING
    return draw.formula == draw.own and words >= _MANY and begun and installed()


def _run(draw: Draw, target: Any, engine: Any, position: int, stream: int) -> None:
    count = target.layout.size

    def generate(address: int, start: int, values: int) -> None:
        """cuRAND's values from number `start` on, at an address."""
        first = position + start * draw.outputs
        # Points are counted, not their coordinates: what is generated at once then tells no position by itself.
        end = None if draw.whole or values % draw.round else first + values * draw.outputs
        engine.generate(draw.function, address, values * draw.makes, draw.arguments, first, end, stream)

    done = 0
    if target.open and draw.direct == target.row.name:
        done = count if draw.whole or not draw.pads else count // draw.round * draw.round
        if done:
            generate(target.address, 0, done)
    piece = count if draw.whole else max(_PIECE // draw.round, 1) * draw.round
    for start in range(done, count, piece):
        values = min(piece, count - start)
        made = round_up(values, draw.round) if draw.pads else values

        def fill(address: int, start: int = start, made: int = made) -> None:
            generate(address, start, made)

        target.fill(fill, round_up(4 * draw.words * made, 16), start, values)

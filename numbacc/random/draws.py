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
from ..libraries.curand import CHEAP, STARTING, State, installed, rounds
from ..reference.random import philox, philox_for_doubles

#: Values that go through scratch memory at a time, where the sequence can be had in pieces.
_PIECE = 1 << 20
#: Values that NumPy makes at a time, an even number: what it works on stays in the cache.
_CHUNK = 1 << 15
#: Words from which on a call of cuRAND's host generator is cheap.
_MANY = 1 << 14


class Asked(NamedTuple):
    """What a method's last arguments ask for; `out` as an array and as given, a stream's handle."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    out: Any
    given: Any
    stream: int


def asked(shape: Any, dtype: Any, out: Any, stream: Any, supported: Sequence[str]) -> Asked:
    """What a method's arguments ask for, of the dtypes it supports."""
    handle = handle_of(stream)
    array = None if out is None else operands.as_array(out, "out", handle)
    return Asked(*operands.shape_and_dtype(shape, dtype, array, supported), array, out, handle)


class Draw(NamedTuple):
    """What is drawn, but for how much of it and where to.

    Attributes:
        formula: what makes values of memory: a key of `kernels.draws.FORMULAS`.
        reference: the same in NumPy, as `reference.random.values`.
        function: cuRAND's function that fills the memory.
        arguments: its last arguments.
        words: 32-bit words of memory a value.
        makes: elements that `function` makes for a value.
        round: values that are made together; a draw begins and ends with a round.
        outputs: outputs of the sequence a value takes.
        parameters: (u, v, a, b) of the formula.
        direct: the dtype in which `function` itself writes the values, if it does.
        fused: a key of `kernels.draws.FORMULAS` or `GROUP_FORMULAS` that makes the values of Philox's words; "" where
            there is none.
        own: the same of `reference.random`, for the CPU.
        whole: True where memory must be filled by one call: quasi-random points, dimension by dimension.
    """

    formula: str
    reference: Callable[..., Any]
    function: str
    arguments: tuple[float, ...]
    words: int
    makes: int
    round: int
    outputs: int
    parameters: tuple[int, int, float, float]
    direct: str = ""
    fused: str = ""
    own: str = ""
    whole: bool = False

    @property
    def pads(self) -> bool:
        """True where the last round is made to its end, since that is cheaper than to enter the sequence again."""
        return self.round * self.outputs <= CHEAP

    def start(self, position: int) -> int:
        """The first position from `position` on at which a round starts."""
        return _round_up(position, self.round * self.outputs)

    def length(self, count: int) -> int:
        """Outputs of the sequence that `count` values take."""
        return _round_up(count, self.round) * self.outputs


def of_words(
    state: State,
    formula: str,
    reference: Callable[..., Any],
    words: int,
    dtype: np.dtype[Any],
    parameters: tuple[int, int, float, float] = (0, 0, 0.0, 0.0),
) -> Draw:
    """Values that `formula` makes of random words: of so many each, or of one output of a quasi-random kind."""
    kind = state.row
    outputs = 1 if kind.quasi else words
    memory = kind.bits // 32 if kind.quasi else words
    own = formula if state.kind == "philox" else ""
    return Draw(
        formula=formula,
        reference=reference,
        function="curandGenerateLongLong" if kind.bits == 64 else "curandGenerate",
        arguments=(),
        words=memory,
        makes=outputs,
        round=1,
        outputs=outputs,
        parameters=parameters,
        direct=dtype.name if formula == "bits" and 4 * memory == dtype.itemsize else "",
        fused=own,
        own=own,
        whole=kind.quasi,
    )


def of_values(
    state: State, function: str, reference: Callable[..., Any], arguments: tuple[float, ...], native: str, own: str
) -> Draw:
    """Values that a function of cuRAND's makes in dtype `native`; for philox the formula `own` does the same: on the
    CPU, and but for float64 on GPUs."""
    double = native == "float64"
    each = rounds(state, double)
    own = own if state.kind == "philox" else ""
    return Draw(
        formula="stored",
        reference=reference,
        function=function,
        arguments=arguments,
        words=2 if double else 1,
        makes=1,
        round=each.values,
        outputs=each.outputs,
        parameters=(0, 0, arguments[0], arguments[1]) if own else (0, 0, 0.0, 0.0),
        direct=native,
        fused="" if double else own,
        own=own,
        whole=state.row.quasi,
    )


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


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


def check_capture(draw: Draw, device: int, stream: int) -> None:
    """Raise UnsupportedError if the stream is being captured and the draw needs cuRAND's state.

    A graph would step that state at every replay, and nobody would know where its sequence then is.
    """
    if not draw.fused and device != CPU and backend().is_capturing(stream):
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
        raise ShapeError(f"shape={shape} is too large: at most 2^63 - 1 bytes")
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
        made = _round_up(values, draw.round) if draw.pads else values

        def fill(address: int, start: int = start, made: int = made) -> None:
            generate(address, start, made)

        target.fill(fill, _round_up(4 * draw.words * made, 16), start, values)

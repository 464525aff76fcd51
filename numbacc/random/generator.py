"""The generator: a sequence, a position in it, and methods that draw from that position."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import GenericAlias
from typing import Any, cast

import numpy as np

from ..arrays import operands
from ..base import checks
from ..base.docstrings import like
from ..base.layout import CPU, lengths_of, name_of
from ..errors import OptionError, UnsupportedError, shown
from ..libraries import curand
from ..libraries.curand import SequenceKind, State
from ..runtime.streams import handle_of, target_of
from .plans import plans
from .position import Position

KINDS = tuple(curand.KINDS)

#: The most children per call of `spawn`, which takes tens of microseconds for each.
_MOST_CHILDREN = 2**20

Shape = int | Sequence[int] | None


#: Argument or error -> its description in the docstrings of all methods that draw.
_DRAW = {
    "size": "the shape of the result, an integer or several; by default that of `out`, else one number is drawn.",
    "out": "array to write, with any strides; `size` and `dtype`, if given, must match it.",
    "ShapeError": "size is not a shape, or is not the shape of out.",
    "DTypeError": "the method does not support dtype, or out has another one.",
    "OptionError": "an argument is invalid, or the sequence ends before the draw does.",
    "LayoutError": "out cannot be written.",
    "DeviceError": "out is on another device, or there is too little memory.",
    "UnsupportedError": "the kind cannot draw this, or not inside a graph's capture.",
    "LibraryError": "cuRAND failed, or is needed and not installed.",
}


class Generator:
    """A sequence of random numbers, with the methods of `numpy.random.Generator`. Threads may share it.

    A copy, shallow or deep, continues the sequence on the same device. An unpickled generator continues it on the
    device that `device` names.

    Args:
        kind: pseudo-random: "philox" (the fastest; numbacc's own kernels compute it, with cuRAND's numbers bit for
            bit), "xorwow", "mrg32k3a", "mtgp32", "mt19937". Quasi-random: "sobol32", "scrambled_sobol32", "sobol64",
            "scrambled_sobol64". An integer is the seed of a "philox", as in `numpy.random.default_rng(42)`.
        seed: 0 to 2^64 - 1; for mt19937 to 2^32 - 1. Quasi-random kinds do not use a seed: it must be 0.
        offset: the first output, or for quasi-random kinds the first point. mtgp32 and mt19937 generate all earlier
            outputs to get there, on a CPU in 5 and 0.6 ns per output, and accept at most 2^34. scrambled_sobol64 has
            2^32 points on the CPU, since cuRAND's host generator gives wrong points after that.
        device: a GPU's number, "cuda:0", or "cpu" for NumPy arrays; by default the current GPU, or the CPU without one.
        dimensions: number of dimensions of quasi-random points, 1 to 20000. With more than one, the first axis of every
            result has that length, in cuRAND's order: one coordinate of all points, then the next. `out=x.T` puts each
            point's coordinates next to each other. Direction vectors and scrambling constants are cuRAND's (Joe and Kuo
            2008).
        ordering: how cuRAND orders the numbers of its threads: "default"; "legacy", which is the same in all versions
            of cuRAND, while "default" may change (for "philox" they are equal); "best", the same as "default"; or for
            xorwow "seeded", which starts faster but has lower quality. cuRAND's "dynamic" depends on the GPU, so the
            CPU cannot reproduce it, and it is not supported.

    Raises:
        OptionError: an argument is invalid.
        UnsupportedError: cuRAND gives wrong numbers on the CPU at this offset.
        DeviceError: the GPU does not exist.

    The first draw starts cuRAND's threads. On a CPU that takes 40 ms for xorwow, 0.4 s for mrg32k3a, 4 s for mt19937;
    on a GPU it allocates memory. philox does not need this: its kernels compute the words on a GPU, and NumPy on the
    CPU. On the CPU, after 2^20 words have been drawn, long draws use cuRAND if it is installed, since it is faster
    then. The words are the same.

    Example:
        >>> numbacc.random.Generator(42, device="cpu").integers(10, size=5)
        array([4, 3, 1, 7, 5])
    """

    #: For annotations: `Generator[NumPyArray]` draws NumPy arrays.
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(
        self,
        kind: str | int = "philox",
        seed: int = 0,
        offset: int = 0,
        device: int | str | None = None,
        dimensions: int = 1,
        ordering: str = "default",
    ):
        self._lock = threading.RLock()
        self._engine: curand.Engine | None = None
        #: The position, if draws were captured into a graph, whose launches move it. Otherwise it is `_position`.
        self._on_gpu: Position | None = None
        self._asked, self._device = device, target_of(device)
        if isinstance(kind, (int, np.integer)) and not isinstance(kind, bool):
            if type(seed) is not int or seed:
                raise OptionError(f"kind={kind} and seed={shown(seed)} are two seeds: pass one")
            seed, kind = int(kind), "philox"
        self.state = State(cast(str, kind), seed, offset, offset, dimensions, ordering, 0)

    @property
    def state(self) -> State:
        """The generator's state: picklable, and enough to continue the sequence, also on another machine.

        Setting it makes this generator continue the sequence of the state, on this generator's device. A position that
        is invalid as an `offset` raises the same error, unless the generator is already near it.

        If draws were captured into a graph, launches move the position, and reading it waits for them. Setting it also
        affects the graphs: their next launch draws from the new position.
        """
        with self._lock:
            position = self._position if self._on_gpu is None else self._on_gpu.read()
            return self._state._replace(position=position)

    @state.setter
    def state(self, state: State) -> None:
        if not isinstance(state, State):
            raise OptionError(f"state={shown(state)} is not a numbacc.random.State")
        found = state.checked()
        with self._lock:
            engine = self._engine
            if engine is not None and not engine.makes(found):
                engine = None
            curand.check_reach(found, self._device, engine)
            if self._on_gpu is not None:
                if found.kind != "philox":
                    raise OptionError(
                        f"state is of kind {found.kind!r}, and draws of this generator were captured into a graph, "
                        'whose kernels are of kind "philox": make another Generator'
                    )
                self._on_gpu.write(found.seed, found.position)
            self._state, self._engine, self._position = found, engine, found.position
            #: In the form that plans use: the seed (kernels get it as a signed word), and the first output.
            is_signed = self._device >= 0 and found.seed >= 2**63
            self._seed, self._start = found.seed - 2**64 * is_signed, found.offset
            #: The properties that plans depend on.
            self._sequence = SequenceKind(found.kind, found.ordering, found.dimensions, self._device)

    @property
    def device(self) -> str:
        """The device of the numbers: "cpu" or "cuda:0"."""
        return name_of(self._device)

    def __reduce__(self) -> Any:
        return _restored, (self.state, self._asked)

    def __deepcopy__(self, memo: Any = None) -> Generator:
        return self._at(self.state)

    __copy__ = __deepcopy__

    def _at(self, state: State) -> Generator:
        """Return a generator on the same device, whose pickles also name the device that the user asked for."""
        made = _restored(state, self.device)
        made._asked = self._asked
        return made

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.state._asdict().items())
        return f"numbacc.random.Generator({fields}, device={self.device!r})"

    def spawn(self, n: int) -> list[Generator]:
        """Return `n` generators of this kind whose numbers are independent of this one's and of each other's.

        Child number i of a seed has the seed that `numpy.random.SeedSequence(seed, spawn_key=(i,))` gives; later calls
        continue counting. For philox the child gets another key, and so all of that key's subsequences. (cuRAND
        interleaves 65536 subsequences of one key into a generator's numbers, so no subsequence is left for another
        generator.)

        Args:
            n: how many generators to make, 0 to 2^20.

        Raises:
            OptionError: n is not an integer from 0 to 2^20.
            UnsupportedError: the kind is quasi-random.
        """
        count = checks.integer(n, "n", 0, _MOST_CHILDREN)
        with self._lock:
            state = self._state
            kind = state.row
            if kind.quasi:
                raise UnsupportedError(
                    f"{kind.name} has only one sequence of points: make generators with different offset= for its parts"
                )
            self._state = state._replace(spawned=state.spawned + count)
        word = np.uint32 if kind.seeds == 2**32 else np.uint64
        numbers = range(state.spawned, state.spawned + count)
        sequences = (np.random.SeedSequence(state.seed, spawn_key=(i,)) for i in numbers)
        seeds = [int(sequence.generate_state(1, word)[0]) for sequence in sequences]
        return [self._at(State(state.kind, seed, 0, 0, 1, state.ordering, 0)) for seed in seeds]

    # ------------------------------------------------------------ uniform

    def bits(self, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
        """Return random integers with all bits random, as cuRAND's `curandGenerate` does.

        Args:
            size: the shape of the result, an integer or several; by default that of `out`, else one number is drawn.
            dtype: "uint32" or "uint64"; by default that of `out`, else uint32. A uint64 uses two outputs, the first as
                its lower half. In 64-bit kinds it uses one output, and a uint32 is the upper half of an output. sobol32
                does not support uint64.
            out: array to write, with any strides; `size` and `dtype`, if given, must match it.

        Returns:
            a device array, or a NumPy array on the CPU; `out` if given. Without `size` and `out` a NumPy scalar; this
            waits for it.

        Raises:
            ShapeError, DTypeError, DeviceError: size, dtype or out is invalid.
            LayoutError: out cannot be written.
            UnsupportedError: 64-bit integers of sobol32; or one number inside a graph's capture.
            OptionError: the sequence ends before the draw does.
            LibraryError: cuRAND failed, or is not installed and the kind is not philox.
        """
        return self._draw("bits", (), size, dtype, out, stream)

    @like(_DRAW)
    def random(self, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
        """Return uniform numbers in [0, 1), never 1, made of the upper bits of `bits`.

        They are multiples of 2^-24 in float32, of 2^-53 in float64 (2^-32 for sobol32), of 2^-11 in float16, and of
        2^-8 in bfloat16. cuRAND's own uniforms, in (0, 1], are made of the same bits.

        Args:
            dtype: float32, float64, float16 or bfloat16; by default that of `out`, else float32.
        """
        return self._draw("random", (), size, dtype, out, stream)

    @like(_DRAW)
    def uniform(
        self,
        low: float = 0.0,
        high: float = 1.0,
        size: Shape = None,
        *,
        dtype: Any = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Return uniform numbers in [low, high): low + (high - low) u, rounded, where u has 24 random bits.

        In float64 u has 53 random bits. Rounding can give `high` itself, as in NumPy. In 16 bits this happens often.

        Args:
            low, high: finite numbers, low < high.
            dtype: float32, float64, float16 or bfloat16; by default that of `out`, else float32.
        """
        if type(low) is not float or type(high) is not float:
            low, high = _number(low, "low"), _number(high, "high")
        return self._draw("uniform", (low, high), size, dtype, out, stream)

    @like(_DRAW)
    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Shape = None,
        *,
        dtype: Any = None,
        endpoint: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Return integers in [low, high), or [0, low) without `high`, all with the same probability.

        Let n = high - low. Each value is ⌊x n / 2^64⌋ for a random x of 64 bits if n <= 2^32, or the same with 128 bits
        for larger n. Each probability is 1/n to within 2^-64: no sample as long as the sequence could show the
        difference. No output is rejected, so the number of outputs used does not depend on their values.

        Args:
            low: the smallest integer; without `high`, the end of the range, which then starts at 0.
            high: the end of the range, which is not drawn; an integer above low, or None.
            dtype: int8 to int64 or uint8 to uint64, by default int64; it must hold low and high - 1.
            endpoint: True to include high.
        """
        if high is None:
            low, high = 0, low
        endpoint = checks.boolean(endpoint, "endpoint")
        # Check the types first: otherwise the plans' cache would find 6.0 and True under 6 and 1.
        first, last = checks.integer(low, "low"), checks.integer(high, "high")
        return self._draw("integers", (first, last, endpoint), size, dtype, out, stream)

    @like(_DRAW)
    def dropout_mask(
        self, p: float, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None
    ) -> Any:
        """Return a mask to multiply by: 0 with probability p, else 1/(1 - p), so that the mean is 1.

        Args:
            p: the probability to drop, 0 to 1, rounded to a multiple of 2^-32. With p = 1 all elements are 0.
            dtype: float32 (the default), float64, float16, bfloat16, or bool: False with probability p, else True.
        """
        return self._draw("dropout_mask", (_number(p, "p"),), size, dtype, out, stream)

    # ------------------------------------------------------------ other distributions

    @like(_DRAW)
    def normal(
        self,
        loc: float = 0.0,
        scale: float = 1.0,
        size: Shape = None,
        *,
        dtype: Any = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Return normal numbers with mean `loc` and standard deviation `scale`, as `curandGenerateNormal` does.

        philox, xorwow and mrg32k3a use Box and Muller's formula, which makes two numbers from two outputs. The other
        kinds use the inverse of the distribution function. For float32, cuRAND uses hardware sines on a GPU, and the C
        library's on the CPU, so that the numbers agree to about 2^-19 of `scale`.

        For philox on a GPU, a numbacc kernel evaluates cuRAND's device formula, and writes the result with any strides
        and dtype. In float64 it has its own arithmetic, within 2^-48 of `scale` of cuRAND's numbers. For philox on the
        CPU, NumPy evaluates the formula of cuRAND's host generator, within 2^-20 of `scale` of its numbers, and in
        float64 within 2^-49.

        A call begins and ends with a whole round of pairs, so it may skip outputs. A round has 2 outputs for philox and
        524288 for its float64; 8192 for xorwow (16384 for float64) and for mrg32k3a with ordering "legacy", 163840 with
        "default"; and 1 for the other kinds.

        Args:
            loc, scale: finite numbers, scale >= 0.
            dtype: float32, float64, float16 or bfloat16; by default that of `out`, else float32.
        """
        if type(loc) is not float or type(scale) is not float:
            loc, scale = _number(loc, "loc"), _number(scale, "scale")
        return self._draw("normal", (loc, scale), size, dtype, out, stream)

    @like(_DRAW)
    def standard_normal(self, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
        """Return normal numbers with mean 0 and standard deviation 1, like `normal(0, 1, size)`.

        Args:
            dtype: float32, float64, float16 or bfloat16; by default that of `out`, else float32.
        """
        return self.normal(0.0, 1.0, size, dtype=dtype, out=out, stream=stream)

    @like(_DRAW)
    def lognormal(
        self,
        mean: float = 0.0,
        sigma: float = 1.0,
        size: Shape = None,
        *,
        dtype: Any = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Return e to the power of `normal(mean, sigma)`, as cuRAND's `curandGenerateLogNormal` does.

        `normal` describes the accuracy and how far a call advances the generator.

        Args:
            mean, sigma: finite numbers, sigma >= 0: mean and standard deviation of the logarithm.
            dtype: float32, float64, float16 or bfloat16; by default that of `out`, else float32.
        """
        if type(mean) is not float or type(sigma) is not float:
            mean, sigma = _number(mean, "mean"), _number(sigma, "sigma")
        return self._draw("lognormal", (mean, sigma), size, dtype, out, stream)

    @like(_DRAW)
    def poisson(
        self, lam: float = 1.0, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None
    ) -> Any:
        """Return Poisson numbers with mean `lam`, made by cuRAND's `curandGeneratePoisson`.

        This needs cuRAND on every device. It uses outputs in rounds, as `normal` does in float32. On a GPU, different
        rounding may give a neighbouring number.

        Args:
            lam: 0 < lam <= 400000, cuRAND's limit.
            dtype: int64, int32, uint64 or uint32, by default int64.
        """
        return self._draw("poisson", (_number(lam, "lam"),), size, dtype, out, stream)

    # ------------------------------------------------------------ draws

    def _draw(self, method: str, arguments: tuple[Any, ...], size: Shape, dtype: Any, out: Any, stream: Any) -> Any:
        """Find the plan, make the values, and advance the position."""
        # The fast path, where a tenth of a microsecond matters; numbacc's own arrays skip the conversion.
        handle, array, made = handle_of(stream), out, None
        if out is not None:
            try:
                made = getattr(out, "_numbacc_layout", None)
            except Exception:  # reading an attribute of a foreign object may raise any error
                pass
            if made is None:
                array = operands.as_array(out, "out", handle)
                made = operands.layout_of(array)
        if size is not None and type(size) is not int:
            size = lengths_of(size, name="size")
        with self._lock:
            plan = plans.find((method, arguments, size, dtype, made, self._sequence))
            on_gpu = self._on_gpu
            if on_gpu is not None and plan.has_kernel:
                array = plan.run_at(on_gpu, array, handle)
            else:
                if on_gpu is not None:
                    plan.check_capture(handle)
                    self._position = on_gpu.read()  # the host passes the position to cuRAND
                position = self._position
                first = position + -position % plan.round
                end = first + plan.length
                if end > plan.reach:
                    plan.check(position, end, handle)
                scalars = self._seed, first, self._start, self
                array = plan.run((), None if array is None else (array,), array, handle, scalars)
                self._position = end  # unused if the draw was captured: then the position is on the GPU
                if on_gpu is not None:
                    on_gpu.write(self._state.seed, end)
        if plan.scalar:
            return array[()] if self._device == CPU else array.copy_to_host(stream=handle)[()]
        return array if out is None else out

    def _positioned(self, capture: Any) -> Position:
        """Return the position on the GPU, where it is from the first captured draw on."""
        if self._on_gpu is None:
            self._on_gpu = Position(self._state.seed, self._position, self._device, self._lock, capture)
        return self._on_gpu

    def _live(self) -> curand.Engine:
        """Return the cuRAND generator, which is made when it is first needed."""
        self._engine = self._engine or curand.Engine(self._state, self._device)
        return self._engine


def _restored(state: State, device: int | str | None) -> Generator:
    made = Generator(device=device)
    made.state = state
    return made


def _number(value: Any, name: str) -> Any:
    """Check a number. (Without this, the plans' cache would find a complex number under its real part.)"""
    return value if type(value) is float or type(value) is int else checks.real(value, name)

"""The generator: a sequence, a position in it, and the methods that draw from there."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..arrays import operands
from ..base import checks
from ..base.layout import CPU, lengths_of, name_of
from ..errors import OptionError, UnsupportedError, shown
from ..libraries import curand
from ..libraries.curand import SequenceKind, State
from ..runtime.streams import handle_of, target_of
from .plans import plans
from .position import Position

KINDS = tuple(curand.KINDS)

#: Of one call of `spawn`, which takes tens of microseconds for each.
_MOST_CHILDREN = 2**20

Shape = int | Sequence[int] | None


class Generator:
    """A sequence of random numbers, with the methods of `numpy.random.Generator`. Threads may share it.

    A copy, shallow or deep, continues the sequence on the same device; an unpickled one, where `device` says.

    Args:
        kind: pseudo-random: "philox" (the fastest; its kernels are numbacc's own, bit for bit cuRAND's numbers),
            "xorwow", "mrg32k3a", "mtgp32", "mt19937". Quasi-random: "sobol32", "scrambled_sobol32", "sobol64",
            "scrambled_sobol64". An integer is the seed of a "philox", as in `numpy.random.default_rng(42)`.
        seed: 0 to 2^64 - 1, for mt19937 2^32 - 1; meaningless for quasi-random kinds, where it is 0.
        offset: the output to begin with, for quasi-random kinds the point. mtgp32 and mt19937 get there by generating
            all before it, on a CPU in 5 and 0.6 ns per output, and refuse more than 2^34. scrambled_sobol64 has 2^32
            points on the CPU, since cuRAND's host generator gives wrong ones from there on.
        device: a GPU's number, "cuda:0", or "cpu" for NumPy arrays; by default the current GPU, or the CPU without one.
        dimensions: of quasi-random points, 1 to 20000. With more than one, the first axis of every result has that
            length, as cuRAND orders them: one coordinate of all points, then the next. `out=x.T` puts each point's
            coordinates next to each other. Direction vectors and scrambling constants are cuRAND's (Joe and Kuo 2008).
        ordering: how cuRAND puts the numbers of its threads in order: "default"; "legacy", which is the same in all
            versions of cuRAND, where "default" may change (for "philox" they are equal); "best", the same as
            "default"; for xorwow "seeded", quicker to start but not as good. cuRAND's "dynamic" depends on the GPU,
            so there is no such sequence on the CPU, nor here.

    Raises:
        OptionError: an argument is not as described above. UnsupportedError: an offset at which cuRAND is wrong on the
        CPU. DeviceError: no such GPU.

    With its first number a new generator starts cuRAND's threads. On a CPU that takes 40 ms for xorwow, 0.4 s for
    mrg32k3a, 4 s for mt19937; on a GPU it allocates memory. philox's kernels on GPUs do without, and so does NumPy on
    the CPU, which makes philox's words itself until 2^20 of them are drawn: from there on cuRAND, where it is
    installed, makes those of long draws, since it is faster then. They are the same words.

    Example:
        >>> numbacc.random.Generator(42, device="cpu").integers(10, size=5)
        array([4, 3, 1, 7, 5])
    """

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
        #: The position, where draws were captured into a graph: launches move it. Else it is `_position`.
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

        Setting it makes this the generator that the state was taken from, on this one's device. An
        `offset` that is refused is refused as a state's position, too, unless the generator is near it.

        Where draws were captured into a graph, launches move the position, so that reading it waits for them. Setting
        it counts for the graphs, too: their next launch draws from there.
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
            #: As plans take them: the seed, which kernels get as a signed word, and the first output.
            is_signed = self._device >= 0 and found.seed >= 2**63
            self._seed, self._start = found.seed - 2**64 * is_signed, found.offset
            #: What plans depend on.
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
        """A generator on this one's device, which pickles as this one does: for the device that was asked for."""
        made = _restored(state, self.device)
        made._asked = self._asked
        return made

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.state._asdict().items())
        return f"numbacc.random.Generator({fields}, device={self.device!r})"

    def spawn(self, n: int) -> list[Generator]:
        """`n` generators of this kind whose numbers are independent of this one's and of each other's.

        Child number i of a seed has the seed `numpy.random.SeedSequence(seed, spawn_key=(i,))` gives; calls go on
        counting. For philox that is another key, so that each child has all of Philox's subsequences for itself: cuRAND
        deals the 65536 that a key's numbers come from in turn to everyone, and has no other to give away.

        Raises:
            OptionError: n is not an integer from 0 to 2^20. UnsupportedError: the kind is quasi-random.
        """
        count = checks.integer(n, "n", 0, _MOST_CHILDREN)
        with self._lock:
            state = self._state
            kind = state.row
            if kind.quasi:
                raise UnsupportedError(
                    f"{kind.name} has one sequence of points: make generators with different offset for its parts"
                )
            self._state = state._replace(spawned=state.spawned + count)
        word = np.uint32 if kind.seeds == 2**32 else np.uint64
        numbers = range(state.spawned, state.spawned + count)
        sequences = (np.random.SeedSequence(state.seed, spawn_key=(i,)) for i in numbers)
        seeds = [int(sequence.generate_state(1, word)[0]) for sequence in sequences]
        return [self._at(State(state.kind, seed, 0, 0, 1, state.ordering, 0)) for seed in seeds]

    # ------------------------------------------------------------ uniform

    def bits(self, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
        """Random integers, all bits random, as cuRAND's `curandGenerate` returns them.

        Args:
            size: the shape of the result, an integer or several; by default that of `out`, else one number is drawn.
            dtype: "uint32" or "uint64", by default that of `out`, else uint32. A uint64 is two outputs, the first its
                low half; of the 64-bit kinds it is one, and a uint32 its high half. sobol32 has no 64-bit integers.
            out: array to write, of any strides; `size` and `dtype`, where given, must be its own.

        Returns:
            a device array, or a NumPy array on the CPU; `out` if given; without `size` and `out` a NumPy scalar, for
            which this waits.

        Raises:
            ShapeError, DTypeError, DeviceError: of size, dtype or out. LayoutError: out cannot be written.
            UnsupportedError: 64-bit integers of sobol32; one number inside a graph's capture. OptionError: the sequence
            ends before. LibraryError: cuRAND failed, or is not installed and the kind is not philox.
        """
        return self._draw("bits", (), size, dtype, out, stream)

    def random(self, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
        """Uniform numbers in [0, 1), never 1: multiples of 2^-24 in float32, 2^-53 in float64 (2^-32 of sobol32),
        2^-11 in float16, 2^-8 in bfloat16, from the top bits of `bits`.

        cuRAND's own uniforms, in (0, 1], are made of the same bits.

        Args:
            dtype: float32, float64, float16 or bfloat16; the others, and errors, as in `bits`.
        """
        return self._draw("random", (), size, dtype, out, stream)

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
        """Uniform numbers in [low, high): low + (high - low) u, rounded, with u of 24 random bits, in float64 53.

        As in NumPy, rounding can give `high` itself, in 16 bits often.

        Args:
            low, high: finite numbers, low < high. The others, and errors, as in `random`.
        """
        if type(low) is not float or type(high) is not float:
            low, high = _number(low, "low"), _number(high, "high")
        return self._draw("uniform", (low, high), size, dtype, out, stream)

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
        """Integers in [low, high), each as likely as the others; without `high`, in [0, low).

        Value number ⌊x n / 2^64⌋ for a random x of 64 bits where there are n = high - low <= 2^32 values, or of 128
        bits where there are more. The probability of each is 1/n to within 2^-64: no sample that the sequence is long
        enough for could show the difference. Nothing is rejected, so the outputs used do not depend on their values.

        Args:
            dtype: int8 to int64 or uint8 to uint64, by default int64; it must hold low and high - 1.
            endpoint: True to include high. The others, and errors, as in `bits`.
        """
        if high is None:
            low, high = 0, low
        endpoint = checks.boolean(endpoint, "endpoint")
        # By their own type: 6.0 and True would be found among the plans under 6 and 1.
        first, last = checks.integer(low, "low"), checks.integer(high, "high")
        return self._draw("integers", (first, last, endpoint), size, dtype, out, stream)

    def dropout_mask(
        self, p: float, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None
    ) -> Any:
        """A mask to multiply by: 0 with probability p, else 1/(1 - p), so that the mean is 1.

        Args:
            p: the probability to drop, 0 to 1, to a multiple of 2^-32. With p = 1 all are 0.
            dtype: a float as in `random`, or bool: False with probability p, else True. The others, and errors, as in
                `bits`.
        """
        return self._draw("dropout_mask", (_number(p, "p"),), size, dtype, out, stream)

    # ------------------------------------------------------------ other distributions

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
        """Normal numbers of mean `loc` and standard deviation `scale`, as cuRAND's `curandGenerateNormal` makes them.

        philox, xorwow and mrg32k3a by Box and Muller's formula, two of two outputs, the others by the inverse of the
        distribution. On a GPU cuRAND takes sines of float32 from the hardware, on the CPU from the C library: the same
        numbers to about 2^-19 of `scale`. For philox a kernel of numbacc's has cuRAND's device formula, and writes the
        result where and as it is wanted; in float64 its arithmetic is its own, and its numbers within 2^-48 of `scale`
        of cuRAND's. On the CPU philox's are NumPy's, by the formula of cuRAND's host generator and within 2^-20 of
        `scale`, in float64 2^-49, of what that makes.

        A call begins and ends with a round of pairs, so it may pass over outputs. A round has 2 outputs in philox,
        524288 in its float64, 8192 in xorwow (16384 in float64) and in mrg32k3a's ordering "legacy", 163840 in its
        "default", and 1 in the others.

        Args:
            loc, scale: finite numbers, scale >= 0. The others, and errors, as in `random`.
        """
        if type(loc) is not float or type(scale) is not float:
            loc, scale = _number(loc, "loc"), _number(scale, "scale")
        return self._draw("normal", (loc, scale), size, dtype, out, stream)

    def standard_normal(self, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
        """`normal` of mean 0 and standard deviation 1; errors are those of `random`."""
        return self.normal(0.0, 1.0, size, dtype=dtype, out=out, stream=stream)

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
        """exp of what `normal(mean, sigma)` gives, by cuRAND's `curandGenerateLogNormal`; all else as in `normal`."""
        if type(mean) is not float or type(sigma) is not float:
            mean, sigma = _number(mean, "mean"), _number(sigma, "sigma")
        return self._draw("lognormal", (mean, sigma), size, dtype, out, stream)

    def poisson(
        self, lam: float = 1.0, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None
    ) -> Any:
        """Poisson numbers of mean `lam`, as cuRAND's `curandGeneratePoisson` makes them.

        It does so on every device, and must be installed. Outputs are taken in rounds as by `normal` in float32. On a
        GPU other rounding may give a neighbouring number.

        Args:
            lam: 0 < lam <= 400000, cuRAND's limit.
            dtype: int64, int32, uint64 or uint32, by default int64. The others, and errors, as in `bits`.
        """
        return self._draw("poisson", (_number(lam, "lam"),), size, dtype, out, stream)

    # ------------------------------------------------------------ draws

    def _draw(self, method: str, arguments: tuple[Any, ...], size: Shape, dtype: Any, out: Any, stream: Any) -> Any:
        """Find the plan, make the values, and go on in the sequence."""
        # The path where a tenth of a microsecond counts; numbacc's own arrays take the short way.
        handle, array, made = handle_of(stream), out, None
        if out is not None:
            try:
                made = getattr(out, "_numbacc_layout", None)
            except Exception:  # of what is foreign an attribute may raise anything
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
                    self._position = on_gpu.read()  # the host passes it to cuRAND
                position = self._position
                first = position + -position % plan.round
                end = first + plan.length
                if end > plan.reach:
                    plan.check(position, end, handle)
                scalars = self._seed, first, self._start, self
                array = plan.run((), None if array is None else (array,), array, handle, scalars)
                self._position = end  # which means nothing where the draw was captured: the position is on the GPU then
                if on_gpu is not None:
                    on_gpu.write(self._state.seed, end)
        if plan.scalar:
            return array[()] if self._device == CPU else array.copy_to_host(stream=handle)[()]
        return array if out is None else out

    def _positioned(self, capture: Any) -> Position:
        """The position on the GPU, where it is from the first captured draw on."""
        if self._on_gpu is None:
            self._on_gpu = Position(self._state.seed, self._position, self._device, self._lock, capture)
        return self._on_gpu

    def _live(self) -> curand.Engine:
        """The cuRAND generator, made when first needed."""
        self._engine = self._engine or curand.Engine(self._state, self._device)
        return self._engine


def _restored(state: State, device: int | str | None) -> Generator:
    made = Generator(device=device)
    made.state = state
    return made


def _number(value: Any, name: str) -> Any:
    """An argument that is a number, as plans are found by: a complex one, say, would be found under its real part."""
    return value if type(value) is float or type(value) is int else checks.real(value, name)

"""The generator: a sequence, a position in it, and the methods that draw from there."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..base import checks
from ..base.layout import CPU
from ..device.devices import target_of
from ..errors import OptionError, ShapeError, UnsupportedError, shown
from ..libraries import curand
from ..libraries.curand import State
from ..reference import random as reference
from . import draws
from .draw import Draw, of_values, of_words

KINDS = tuple(curand.KINDS)

#: Of one call of `spawn`, which takes tens of microseconds for each.
_MOST_CHILDREN = 2**20

Shape = int | Sequence[int] | None
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")


class Generator:
    """A sequence of random numbers, with the methods of `numpy.random.Generator`. Threads may share it.

    A copy, shallow or deep, goes on from there on the same device; what is unpickled, where `device` says.

    Args:
        kind: pseudo-random: "philox" (the fastest; its kernels are numbacc's own, bit for bit cuRAND's numbers),
            "xorwow", "mrg32k3a", "mtgp32", "mt19937". Quasi-random: "sobol32", "scrambled_sobol32", "sobol64",
            "scrambled_sobol64". An integer is the seed of a "philox", as in `numpy.random.default_rng(42)`.
        seed: 0 to 2^64 - 1, for mt19937 2^32 - 1; of no meaning for quasi-random kinds, where it is 0.
        offset: the output to begin with, for quasi-random kinds the point. mtgp32 and mt19937 get there by generating
            all before it, on a CPU in 5 and 0.6 ns each, and refuse more than 2^34. scrambled_sobol64 has 2^32 points
            on the CPU, since cuRAND's host generator gives wrong ones from there on.
        device: a GPU's number, "cuda:0", or "cpu" for NumPy arrays; by default the current GPU, or the CPU without one.
        dimensions: of quasi-random points, 1 to 20000. With more than one, the first axis of every result has that
            length, as cuRAND orders them: one coordinate of all points, then the next. `out=x.T` puts each point's
            coordinates next to each other. Direction vectors and scrambling constants are cuRAND's (Joe and Kuo 2008).
        ordering: how cuRAND puts the numbers of its threads in order: "default"; "legacy", which is the same in all
            versions of cuRAND, where "default" may change ("philox": the two are one); "best", the same as "default";
            for xorwow "seeded", quicker to start but not as good. cuRAND's "dynamic" depends on the GPU, so there is
            no such sequence on the CPU, nor here.

    Raises:
        OptionError: an argument is not as said above. UnsupportedError: an offset that cuRAND has not right on the CPU.
        DeviceError: no such GPU.

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
        self._asked, self._device = device, target_of(device)
        if isinstance(kind, (int, np.integer)) and not isinstance(kind, bool):
            if type(seed) is not int or seed:
                raise OptionError(f"kind={kind} and seed={shown(seed)} are two seeds: pass one")
            seed, kind = int(kind), "philox"
        self.state = State(cast(str, kind), seed, offset, offset, dimensions, ordering, 0)

    @property
    def state(self) -> State:
        """Where the generator is: picklable, and enough to continue from there, also on another machine.

        Setting it makes this the generator that the state was taken from, on this one's device. What is refused of
        `offset` is refused of a state's position, unless the generator is near there.
        """
        with self._lock:
            return self._state

    @state.setter
    def state(self, state: State) -> None:
        if not isinstance(state, State):
            raise OptionError(f"state={state!r} is no numbacc.random.State")
        found = state.checked()
        with self._lock:
            engine = self._engine
            if engine is not None and not engine.makes(found):
                engine = None
            curand.check_reach(found, self._device, engine)
            self._state, self._engine = found, engine

    @property
    def device(self) -> str:
        """Where the numbers are: "cpu" or "cuda:0"."""
        return "cpu" if self._device == CPU else f"cuda:{self._device}"

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
            OptionError: n is no integer from 0 to 2^20. UnsupportedError: the kind is quasi-random.
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
        """Random integers of all bits, as cuRAND's `curandGenerate` returns them.

        Args:
            size: the shape of the result, an integer or several; by default that of `out`, else one number is drawn.
            dtype: "uint32" or "uint64", by default that of `out`, else uint32. A uint64 is two outputs, the first its
                low half; of the 64-bit kinds it is one, and a uint32 its high half. sobol32 has no 64 bits.
            out: array to write, of any strides; `size` and `dtype`, where given, must be its own.
            stream: where the work is queued; the default stream if None. Nothing waits for it.

        Returns:
            a device array, or a NumPy array on the CPU; `out` if given; without `size` and `out` a NumPy scalar, for
            which this waits.

        Raises:
            ShapeError, DTypeError, DeviceError: of size, dtype or out. LayoutError: out cannot be written.
            UnsupportedError: 64 bits of a sobol32; one number inside a graph's capture. OptionError: the sequence ends
            before. LibraryError: cuRAND failed, or is not installed and the kind is not philox.
        """
        result = draws.asked(size, dtype, out, stream, ("uint32", "uint64"))
        words = result.dtype.itemsize // 4
        return self._draw("bits", words, result, (0, 0, 0.0, 0.0), 32 * words)

    def random(self, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
        """Uniform numbers in [0, 1), never 1: multiples of 2^-24 in float32, 2^-53 in float64 (2^-32 of sobol32),
        2^-11 in float16, 2^-8 in bfloat16, from the top bits of `bits`.

        cuRAND's own uniforms, in (0, 1], are made of the same bits.

        Args:
            dtype: float32, float64, float16 or bfloat16; the others, and errors, as in `bits`.
        """
        result = draws.asked(size, dtype, out, stream, FLOATS)
        return self._draw("random", 1 + (result.dtype == np.float64), result)

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

        As in NumPy, rounding can give `high` itself: often so in 16 bits.

        Args:
            low, high: finite numbers, low < high. The others, and errors, as in `random`.
        """
        first, last = checks.real(low, "low"), checks.real(high, "high")
        if not first < last:
            raise OptionError(f"low={low} and high={high}: low must be below high")
        span = checks.real(last - first, "high - low")
        result = draws.asked(size, dtype, out, stream, FLOATS)
        largest = float(np.finfo(np.float64 if result.dtype == np.float64 else np.float32).max)
        if max(-first, last, span) > largest:
            raise OptionError(f"low={low} and high={high} are too far apart for {result.dtype}: use float64")
        return self._draw("uniform", 1 + (result.dtype == np.float64), result, (0, 0, first, span))

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
        result = draws.asked(size, dtype, out, stream, INTEGERS)
        beyond = not checks.boolean(endpoint, "endpoint")
        first, last = checks.integer(low, "low"), checks.integer(high, "high") - beyond
        if first > last:
            raise OptionError(f"low={low} and high={high}: low must be below high")
        bounds = np.iinfo(result.dtype)
        if first < bounds.min or last > bounds.max:
            raise OptionError(
                f"low={low} and high={high} reach beyond {result.dtype}, which holds {bounds.min} to {bounds.max}"
            )
        most = last - first
        words = 2 if most < 2**32 else 4
        return self._draw("integers", words, result, (most, first % 2**64, 0.0, 0.0), most.bit_length())

    def dropout_mask(
        self, p: float, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None
    ) -> Any:
        """A mask to multiply with: 0 with probability p, else 1/(1 - p), so that the mean is 1.

        Args:
            p: the probability to drop, 0 to 1, to a multiple of 2^-32. For 1 all is 0.
            dtype: a float as in `random`, or bool: False with probability p, else True. The others, and errors, as in
                `bits`.
        """
        dropped = checks.real(p, "p")
        if not 0 <= dropped <= 1:
            raise OptionError(f"p={p} is no probability: it must be 0 to 1")
        result = draws.asked(size, dtype, out, stream, (*FLOATS, "bool"))
        kept = 1 / (1 - dropped) if dropped < 1 else 0.0
        return self._draw("mask", 1, result, (round(dropped * 2**32), 0, kept, 0.0))

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
        distribution. On a GPU cuRAND takes sines from the hardware, on the CPU from the C library: the same numbers to
        about 2^-19 of `scale`. For philox, in float32 and less, a kernel of numbacc's has cuRAND's device formula and
        writes the result where and as it is wanted; float64 is cuRAND's on a GPU. On the CPU philox's are NumPy's, by
        the formula of cuRAND's host generator and within 2^-20 of `scale`, in float64 2^-49, of what that makes.

        A call begins and ends with a round of pairs, so it may pass over outputs. A round has 2 outputs in philox,
        524288 in its float64, 8192 in xorwow (16384 in float64) and in mrg32k3a's ordering "legacy", 163840 in its
        "default", and 1 in the others.

        Args:
            loc, scale: finite numbers, scale >= 0. The others, and errors, as in `random`.
        """
        mean, deviation = checks.real(loc, "loc"), checks.at_least_0(scale, "scale")
        return self._normal("normal", mean, deviation, draws.asked(size, dtype, out, stream, FLOATS))

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
        """exp of what `normal(mean, sigma)` gives, by cuRAND's `curandGenerateLogNormal`; all else is as there."""
        location, deviation = checks.real(mean, "mean"), checks.at_least_0(sigma, "sigma")
        return self._normal("lognormal", location, deviation, draws.asked(size, dtype, out, stream, FLOATS))

    def poisson(
        self, lam: float = 1.0, size: Shape = None, *, dtype: Any = None, out: Any = None, stream: Any = None
    ) -> Any:
        """Poisson numbers of mean `lam`, as cuRAND's `curandGeneratePoisson` makes them.

        It does so on every device, and must be installed. Outputs are taken in rounds as by `normal` in float32. On a
        GPU another rounding may give a neighbouring number.

        Args:
            lam: 0 < lam <= 400000, which is as far as cuRAND goes.
            dtype: int64, int32, uint64 or uint32, by default int64. The others, and errors, as in `bits`.
        """
        mean = checks.real(lam, "lam")
        if not 0 < mean <= curand.MAX_POISSON_MEAN:
            raise OptionError(f"lam={lam} is out of range: it must be above 0 and at most {curand.MAX_POISSON_MEAN}")
        result = draws.asked(size, dtype, out, stream, ("int64", "int32", "uint64", "uint32"))
        with self._lock:
            draw = of_values(self._state, "curandGeneratePoisson", reference.values, (mean,), "uint32", "")
            return self._run(draw, result)

    # ------------------------------------------------------------ draws

    def _draw(
        self,
        formula: str,
        words: int,
        result: draws.Asked,
        parameters: tuple[int, int, float, float] = (0, 0, 0.0, 0.0),
        bits: int = 0,
    ) -> Any:
        """Values that a formula makes of `words` outputs each, or of one of a quasi-random kind if it has the bits."""
        with self._lock:
            kind = self._state.row
            if kind.quasi and kind.bits < bits:
                raise UnsupportedError(f"{kind.name} has outputs of 32 bits, not of {bits}: use sobol64")
            draw = of_words(self._state, formula, reference.values, words, result.dtype, parameters)
            return self._run(draw, result)

    def _normal(self, name: str, mean: float, deviation: float, result: draws.Asked) -> Any:
        double = result.dtype == np.float64
        function = {"normal": "curandGenerateNormal", "lognormal": "curandGenerateLogNormal"}[name] + "Double" * double
        native = "float64" if double else "float32"
        with self._lock:
            draw = of_values(self._state, function, reference.values, (mean, deviation), native, name)
            return self._run(draw, result)

    def _run(self, draw: Draw, result: draws.Asked) -> Any:
        """Make the values, and go on in the sequence. The lock is held."""
        state, kind, shape = self._state, self._state.row, result.shape
        if state.dimensions > 1 and (not shape or shape[0] != state.dimensions):
            wanted = f"its first length must be {state.dimensions}, one for each coordinate"
            raise ShapeError(f"size={shape} of points in {state.dimensions} dimensions: {wanted}")
        count = math.prod(shape)
        first = draw.start(state.position) if count else state.position
        end = first + draw.length(count) // state.dimensions
        if end > kind.outputs:
            raise OptionError(
                f"{count} values from position {state.position} on end at {end}, but {kind.name} has "
                f"{kind.outputs} {'points' if kind.quasi else 'outputs'}: use another generator"
            )
        curand.check_outputs(kind, end, self._device, f"{count} values from position {state.position} on")
        draws.check_capture(draw, result, self._device)
        array, made = draws.result(shape, result.dtype, self._device, result.out, result.stream)
        draws.run(draw, array, made, self._live, state, first, result.stream)
        self._state = state._replace(position=end)
        if result.scalar:
            return array[()] if self._device == CPU else array.copy_to_host(stream=result.stream)[()]
        return array if result.out is None else result.given

    def _live(self) -> curand.Engine:
        """The cuRAND generator, made when first needed."""
        self._engine = self._engine or curand.Engine(self._state, self._device)
        return self._engine


def _restored(state: State, device: int | str | None) -> Generator:
    made = Generator(device=device)
    made.state = state
    return made

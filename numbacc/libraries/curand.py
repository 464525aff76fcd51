"""cuRAND's generators: their kinds, the positions where their sequences can start, and a generator with its position.

A generator's outputs are numbered from 0. cuRAND's `curandGenerate` returns them in that order, in any number of calls.
Values that need several outputs, such as pairs of normals, are made in rounds. cuRAND's functions agree on the number
of consumed outputs only at the start of a round, so each call begins there (`rounds`).
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from numbacc_bindings.curand import Ordering, RngType, curand

from ..base import checks
from ..base.dispatch import runtime, simulated
from ..base.layout import CPU
from ..errors import LibraryError, OptionError, UnsupportedError, unknown
from ..runtime import workspace
from ..runtime.streams import owner_of
from .handles import Handle


class GeneratorKind(NamedTuple):
    """A kind of cuRAND's generators.

    Attributes:
        name: numbacc's name for it.
        type: cuRAND's name for it.
        orderings: name -> cuRAND's number, for the orderings that CPU and GPU share.
        bits: bits of an output.
        quasi: True if the outputs are the coordinates of points that fill space evenly.
        seeds: seeds must be less than this number.
        outputs: number of outputs; for quasi-random kinds, of points.
        host_outputs: number of outputs that cuRAND's host generator computes correctly.
        skips: whether cuRAND can start anywhere in the sequence without generating all earlier outputs.
    """

    name: str
    type: RngType
    orderings: dict[str, Ordering]
    bits: int = 32
    quasi: bool = False
    seeds: int = 2**64
    outputs: int = 2**64
    host_outputs: int = 2**64
    skips: bool = True


_PSEUDO = {"default": Ordering.PSEUDO_DEFAULT, "legacy": Ordering.PSEUDO_LEGACY}
_BEST = {**_PSEUDO, "best": Ordering.PSEUDO_BEST}
_SEEDED = {**_BEST, "seeded": Ordering.PSEUDO_SEEDED}
_QUASI = {"default": Ordering.QUASI_DEFAULT}

KINDS = {
    kind.name: kind
    for kind in (
        GeneratorKind("philox", RngType.PSEUDO_PHILOX4_32_10, _BEST),
        GeneratorKind("xorwow", RngType.PSEUDO_XORWOW, _SEEDED),
        GeneratorKind("mrg32k3a", RngType.PSEUDO_MRG32K3A, _BEST),
        GeneratorKind("mtgp32", RngType.PSEUDO_MTGP32, _BEST, skips=False),
        # cuRAND reads only the low half of this kind's seed.
        GeneratorKind("mt19937", RngType.PSEUDO_MT19937, _PSEUDO, seeds=2**32, skips=False),
        GeneratorKind("sobol32", RngType.QUASI_SOBOL32, _QUASI, 32, True, 1, 2**32),
        GeneratorKind("scrambled_sobol32", RngType.QUASI_SCRAMBLED_SOBOL32, _QUASI, 32, True, 1, 2**32),
        GeneratorKind("sobol64", RngType.QUASI_SOBOL64, _QUASI, 64, True, 1),
        # Point i is the XOR of the direction vectors that the Gray code of i selects. From 2^32 on, cuRAND's host
        # generator (10.3) uses vector 31 for all higher ones; sobol64's is right, and so is the device code.
        GeneratorKind("scrambled_sobol64", RngType.QUASI_SCRAMBLED_SOBOL64, _QUASI, 64, True, 1, host_outputs=2**32),
    )
}

#: cuRAND's limits for the dimensions of a quasi-random kind, and for the mean of Poisson values.
MAX_DIMENSIONS = 20_000
MAX_POISSON_MEAN = 400_000

#: Up to this many outputs are generated and discarded instead of skipped. A skip makes cuRAND initialize the states of
#: all its threads again: 10 ms for philox and 900 ms for mrg32k3a on a CPU.
CHEAP = 1 << 18

#: The farthest position of a kind that cannot skip, since all earlier outputs are generated: 100 s for mtgp32 on a CPU.
FAR = 1 << 34

#: Number of Philox words that NumPy computes in the time that cuRAND's host generator takes to start.
STARTING = 1 << 20


@lru_cache(maxsize=1)
def installed() -> bool:
    """Return whether cuRAND is installed in a supported version."""
    try:
        curand.load()
    except LibraryError:
        return False
    return True


class SequenceKind(NamedTuple):
    """Everything that a generator's values depend on, except its position (see `State`): also its GPU, or CPU."""

    kind: str
    ordering: str
    dimensions: int
    device: int

    @property
    def row(self) -> GeneratorKind:
        """The kind's row in `KINDS`."""
        return KINDS[self.kind]


class State(NamedTuple):
    """Everything that a `Generator`'s next values depend on. `Generator.state` returns and accepts it.

    Attributes:
        kind, seed, offset, dimensions, ordering: the arguments of the generator.
        position: index of the next output in the sequence; for quasi-random kinds, of the next point.
        spawned: number of children that `spawn` has made.

    Example:
        >>> g = numbacc.random.Generator(42, device="cpu")
        >>> state, first = g.state, g.random()
        >>> g.state = state
        >>> bool(g.random() == first)
        True
    """

    kind: str
    seed: int
    offset: int
    position: int
    dimensions: int
    ordering: str
    spawned: int

    @property
    def row(self) -> GeneratorKind:
        """The kind's row in `KINDS`."""
        return KINDS[self.kind]

    def checked(self) -> State:
        """Return the same state with its numbers as integers.

        Raises:
            OptionError: a field has the wrong type or is out of range.
        """
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise unknown("kind", self.kind, KINDS, f"the kinds are {', '.join(KINDS)}")
        kind = self.row
        if not isinstance(self.ordering, str) or self.ordering not in kind.orderings:
            raise unknown("ordering", self.ordering, kind.orderings, f"{kind.name} has {', '.join(kind.orderings)}")
        dimensions = checks.integer(self.dimensions, "dimensions", 1, MAX_DIMENSIONS)
        if not kind.quasi and dimensions != 1:
            raise OptionError(f"dimensions={dimensions}: only quasi-random kinds have more than 1")
        return State(
            kind.name,
            checks.integer(self.seed, "seed", 0, kind.seeds - 1),
            checks.integer(self.offset, "offset", 0, kind.outputs - 1),
            checks.integer(self.position, "position", 0, kind.outputs),
            dimensions,
            self.ordering,
            checks.integer(self.spawned, "spawned", 0),
        )


def check_reach(state: State, device: int, engine: Engine | None) -> None:
    """Raise an error unless a state's position can be reached on a device.

    Args:
        engine: a generator of the state's sequence, at any position; or None.

    Raises:
        OptionError: reaching it would take too long. UnsupportedError: cuRAND does not compute such outputs there.
    """
    kind, position = state.row, state.position
    name = "offset" if position == state.offset else "position"
    check_outputs(kind, position, device, f"{name}={position}")
    at = 0 if engine is None or engine.at is None or engine.at > position else engine.at
    if not kind.skips and position - at > FAR:
        raise OptionError(
            f"{name}={position} is too far: {kind.name} must generate all outputs before it, at most {FAR}; philox, "
            "xorwow and mrg32k3a can start anywhere"
        )


def check_outputs(kind: GeneratorKind, end: int, device: int, what: str) -> None:
    """Raise UnsupportedError if `what`, which ends at output (or point) `end`, exceeds what a device computes right."""
    if end > kind.host_outputs and (device < 0 or simulated()):
        raise UnsupportedError(
            f"{what} is beyond the {kind.host_outputs} points of {kind.name} that cuRAND computes correctly on the "
            "CPU: use a GPU, or sobol64"
        )


class Rounds(NamedTuple):
    """How values are made from outputs: in rounds of `values` values, with `outputs` outputs for each value."""

    values: int
    outputs: int


def rounds(sequence: SequenceKind, double: bool) -> Rounds:
    """Return the rounds of normals and Poisson values; `double` is for normals in float64.

    They were found by generating values and comparing the outputs that follow, on the CPU with cuRAND 10.3. xorwow and
    mrg32k3a run a fixed number of threads. Each thread makes two normals from outputs that are that number apart; for
    doubles xorwow uses twice as many. Philox makes floats from neighbouring outputs, and doubles in 65536 threads, four
    in each from 8 outputs. The Mersenne twisters and Sobol's sequences make each value from one output, with the
    inverse of the distribution.
    """
    if sequence.kind == "philox":
        return Rounds(4 * 65536, 2) if double else Rounds(2, 1)
    if sequence.kind == "xorwow":
        return Rounds(2 * 4096, 2 if double else 1)
    if sequence.kind == "mrg32k3a":
        return Rounds(2 * (4096 if sequence.ordering == "legacy" else 81920), 1)
    return Rounds(1, 1)


class Engine:
    """A live cuRAND generator, on the CPU or a GPU, and its position. Only one thread at a time may use it.

    Args:
        state: which generator; its position is ignored.
        device: the GPU, or CPU. In the simulator the CPU's generator writes to the simulated device's memory.
    """

    def __init__(self, state: State, device: int):
        self._state, self._kind = state, state.row
        self._device = CPU if simulated() else device
        self._stream = 0
        self._failed = False
        self._owner: Any = None  # keeps a foreign stream alive: the generator's state is written there
        self._start()

    def _start(self) -> None:
        """Create a generator at position 0."""
        kind = self._kind
        create = curand.curandCreateGeneratorHost if self._device < 0 else curand.curandCreateGenerator
        self._handle = Handle(create, curand.curandDestroyGenerator, self._device, kind.type)
        value = self._handle.value
        with self._context():
            curand.curandSetGeneratorOrdering(value, kind.orderings[self._state.ordering])
            if kind.quasi:
                curand.curandSetQuasiRandomGeneratorDimensions(value, self._state.dimensions)
            else:
                curand.curandSetPseudoRandomGeneratorSeed(value, self._state.seed)
            if self._stream:
                curand.curandSetStream(value, self._stream)
        #: The position of the next output; None if it is unknown.
        self.at: int | None = 0
        self._failed = False

    def _context(self) -> Any:
        return nullcontext() if self._device < 0 else runtime().on_device(self._device)

    def makes(self, state: State) -> bool:
        """Return True if this generator has a state's sequence, at any position."""
        same = self._state._replace(offset=0, position=0, spawned=0)
        return same == state._replace(offset=0, position=0, spawned=0)

    def generate(
        self,
        function: str,
        address: int,
        count: int,
        parameters: tuple[float, ...],
        position: int,
        end: int | None,
        stream: int,
    ) -> None:
        """Queue `function(generator, address, count, *parameters)`, whose first output is at a position.

        Args:
            function: name of a function of cuRAND.
            end: the position after the last output; None if the function ends within a round.
            stream: where the work is queued; it waits for the generator's earlier work on other streams.
        """

        def draw() -> None:
            if self._failed:
                self._start()
            self._use(stream)
            self._seek(position, stream)
            self._failed = True  # until the call succeeds
            getattr(curand, function)(self._handle.value, address, count, *parameters)
            self.at, self._failed = end, False

        with self._context():
            # cuRAND allocates its state at the first draw, and when it restarts the sequence.
            if self._device < 0:
                draw()
            else:
                runtime().with_room(draw, self._device)

    def _use(self, stream: int) -> None:
        if stream != self._stream and self._device >= 0:
            if runtime().is_capturing(self._stream):
                raise UnsupportedError(
                    f"stream {self._stream:#x}, where this generator drew last, is being captured into a graph: draw "
                    "before the capture, or use another generator"
                )
            runtime().wait(stream, self._stream, self._device)
            curand.curandSetStream(self._handle.value, stream)
            self._stream, self._owner = stream, owner_of(stream)

    def _seek(self, position: int, stream: int) -> None:
        ahead = -1 if self.at is None else position - self.at
        if not ahead:
            return
        self.at = None  # if it fails, or is interrupted
        if self._kind.skips and (self._kind.quasi or not 0 < ahead <= CHEAP):
            curand.curandSetGeneratorOffset(self._handle.value, position)
        else:
            if ahead < 0:
                self._start()
                ahead = position
            self._discard(ahead, stream)
        self.at = position

    def _discard(self, outputs: int, stream: int) -> None:
        """Generate outputs and discard them."""
        nbytes = 4 * min(outputs, CHEAP)

        def generate(address: int) -> None:
            for start in range(0, outputs, CHEAP):
                curand.curandGenerate(self._handle.value, address, min(CHEAP, outputs - start))

        if self._device < 0:
            memory = np.empty(nbytes, np.uint8)
            generate(memory.ctypes.data)
        else:
            workspace.run(generate, nbytes, self._device, stream)

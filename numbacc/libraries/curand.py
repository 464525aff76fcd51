"""cuRAND's generators: which there are, where their sequences may be entered, and one that is kept at a position.

A generator's outputs are numbered from 0. cuRAND's `curandGenerate` returns them in that order however they are asked
for in pieces. What it makes from several outputs, such as normals in pairs, it makes in rounds: only where a round
starts do its functions agree on how many outputs are behind them, so that is where each call begins (`rounds`).
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
    """One of cuRAND's generators.

    Attributes:
        name: what numbacc calls it.
        type: what cuRAND calls it.
        orderings: name -> cuRAND's number, of those that CPU and GPU share.
        bits: bits of an output.
        quasi: True where the outputs are the coordinates of points that fill space evenly.
        seeds: seeds are 0 to this number, itself excluded.
        outputs: how many outputs there are; for quasi-random kinds, points.
        host_outputs: how many of them cuRAND's host generator has right.
        skips: whether cuRAND can enter the sequence anywhere.
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
        # cuRAND reads the low half of this one's seed only.
        GeneratorKind("mt19937", RngType.PSEUDO_MT19937, _PSEUDO, seeds=2**32, skips=False),
        GeneratorKind("sobol32", RngType.QUASI_SOBOL32, _QUASI, 32, True, 1, 2**32),
        GeneratorKind("scrambled_sobol32", RngType.QUASI_SCRAMBLED_SOBOL32, _QUASI, 32, True, 1, 2**32),
        GeneratorKind("sobol64", RngType.QUASI_SOBOL64, _QUASI, 64, True, 1),
        # Point i is the sum, bit by bit, of the direction vectors that the Gray code of i names. From 2^32 on cuRAND's
        # host generator (10.3) takes vector 31 for all higher ones; sobol64's is right, and so is the device code.
        GeneratorKind("scrambled_sobol64", RngType.QUASI_SCRAMBLED_SOBOL64, _QUASI, 64, True, 1, host_outputs=2**32),
    )
}

#: The most dimensions of a quasi-random kind, and the largest mean of Poisson numbers, that cuRAND takes.
MAX_DIMENSIONS = 20_000
MAX_POISSON_MEAN = 400_000

#: Up to so many outputs are generated and thrown away rather than skipped, which makes cuRAND start all its threads'
#: states anew: 10 ms for philox and 900 ms for mrg32k3a on a CPU.
CHEAP = 1 << 18

#: How far a kind that cannot skip is taken by generating all before it: some 100 s for mtgp32 on a CPU.
FAR = 1 << 34

#: Philox's words that NumPy makes in the time in which cuRAND's host generator starts.
STARTING = 1 << 20


@lru_cache(maxsize=1)
def installed() -> bool:
    """Whether cuRAND is there, and young enough."""
    try:
        curand.load()
    except LibraryError:
        return False
    return True


class SequenceKind(NamedTuple):
    """All that decides how a generator makes numbers, but its position: see `State`, and its GPU, or CPU."""

    kind: str
    ordering: str
    dimensions: int
    device: int

    @property
    def row(self) -> GeneratorKind:
        """The kind's row of `KINDS`."""
        return KINDS[self.kind]


class State(NamedTuple):
    """Everything that a `Generator`'s next numbers follow from; `Generator.state` gives and takes it.

    Attributes:
        kind, seed, offset, dimensions, ordering: as the generator was made.
        position: the next output's number in the sequence; for quasi-random kinds, the next point's.
        spawned: how many children `spawn` has made.

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
        """The kind's row of `KINDS`."""
        return KINDS[self.kind]

    def checked(self) -> State:
        """The same state with its numbers as integers.

        Raises:
            OptionError: a field is of the wrong type or out of range.
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
        engine: a generator of the state's sequence, which need not start from the beginning; or None.

    Raises:
        OptionError: it would take too long. UnsupportedError: cuRAND has no such outputs there.
    """
    kind, position = state.row, state.position
    name = "offset" if position == state.offset else "position"
    check_outputs(kind, position, device, f"{name}={position}")
    at = 0 if engine is None or engine.at is None or engine.at > position else engine.at
    if not kind.skips and position - at > FAR:
        raise OptionError(
            f"{name}={position} is too far: {kind.name} gets there by generating all before it, which is done for at "
            f"most {FAR}; philox, xorwow and mrg32k3a begin anywhere"
        )


def check_outputs(kind: GeneratorKind, end: int, device: int, what: str) -> None:
    """Raise UnsupportedError where `what`, which ends at output (or point) `end`, is beyond what a device has right."""
    if end > kind.host_outputs and (device < 0 or simulated()):
        raise UnsupportedError(
            f"{what} is beyond the {kind.host_outputs} points of {kind.name} that cuRAND has right on the CPU: "
            "use a GPU, or sobol64"
        )


class Rounds(NamedTuple):
    """How values are made from outputs: in rounds of `values`, `outputs` to each value."""

    values: int
    outputs: int


def rounds(sequence: SequenceKind, double: bool) -> Rounds:
    """The rounds of normals and Poisson numbers; `double` for normals in float64.

    As found by generating, then looking where the next outputs lie in the sequence, on the CPU with cuRAND 10.3.
    xorwow and mrg32k3a run a fixed number of threads, each of which makes two normals from outputs that lie that
    number apart; for doubles xorwow takes twice as many. Philox makes floats from neighbouring outputs, and doubles
    in 65536 threads, four of each from 8 outputs. The Mersenne twisters and Sobol's sequences make each value from
    one output, by the inverse of the distribution.
    """
    if sequence.kind == "philox":
        return Rounds(4 * 65536, 2) if double else Rounds(2, 1)
    if sequence.kind == "xorwow":
        return Rounds(2 * 4096, 2 if double else 1)
    if sequence.kind == "mrg32k3a":
        return Rounds(2 * (4096 if sequence.ordering == "legacy" else 81920), 1)
    return Rounds(1, 1)


class Engine:
    """A live cuRAND generator, on the CPU or a GPU, and the position that it is at. One thread at a time may use it.

    Args:
        state: what generator; the position is of no meaning here.
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
        """A new generator, at position 0."""
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
        #: Where the next output comes from; None where that cannot be said.
        self.at: int | None = 0
        self._failed = False

    def _context(self) -> Any:
        return nullcontext() if self._device < 0 else runtime().on_device(self._device)

    def makes(self, state: State) -> bool:
        """True if this generator's sequence is that of a state, wherever in it."""
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
        """Queue `function(generator, address, count, *parameters)`, its first output that of a position.

        Args:
            function: name of a function of cuRAND's.
            end: the position behind the last output; None where the function ends within a round.
            stream: where the work is queued; the generator's earlier work on other streams is waited for there.
        """

        def draw() -> None:
            if self._failed:
                self._start()
            self._use(stream)
            self._seek(position, stream)
            self._failed = True  # until it has not
            getattr(curand, function)(self._handle.value, address, count, *parameters)
            self.at, self._failed = end, False

        with self._context():
            # cuRAND allocates its state when it first draws, and wherever it has to begin anew.
            if self._device < 0:
                draw()
            else:
                runtime().with_room(draw, self._device)

    def _use(self, stream: int) -> None:
        if stream != self._stream and self._device >= 0:
            if runtime().is_capturing(self._stream):
                raise UnsupportedError(
                    f"stream {self._stream:#x}, on which this generator drew last, is being captured into a graph: "
                    "draw before the capture, or use another generator"
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
        """Generate outputs that nobody will see."""
        nbytes = 4 * min(outputs, CHEAP)

        def generate(address: int) -> None:
            for start in range(0, outputs, CHEAP):
                curand.curandGenerate(self._handle.value, address, min(CHEAP, outputs - start))

        if self._device < 0:
            memory = np.empty(nbytes, np.uint8)
            generate(memory.ctypes.data)
        else:
            workspace.run(generate, nbytes, self._device, stream)

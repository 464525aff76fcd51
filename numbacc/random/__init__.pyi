# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""cuRAND's pseudo-random and quasi-random numbers, the same on the CPU and on GPUs."""

from typing import Any
from numbacc.typing import (
    AnyArray,
    DTypeLike,
    RandomKind,
    RandomOrdering,
    Shape,
)
from numbacc.plan.cache import CacheInfo

__all__ = [
    "Generator",
    "KINDS",
    "State",
    "cache_clear",
    "cache_info",
    "cache_limit",
]

from numbacc.libraries.curand import State as State

class Generator:
    """A sequence of random numbers, with the methods of `numpy.random.Generator`. Threads may share it."""

    def __init__(
        self, kind: RandomKind | int = 'philox', seed: int = 0, offset: int = 0, device: int | str | None = None,
        dimensions: int = 1, ordering: RandomOrdering = 'default',
    ) -> None: ...
    @property
    def state(self) -> State: ...
    @state.setter
    def state(self, state: State) -> None: ...
    @property
    def device(self) -> str: ...
    def spawn(self, n: int) -> list[Generator]:
        """Return `n` generators of this kind whose numbers are independent of this one's and of each other's."""
    def bits(
        self, size: Shape | None = None, *, dtype: DTypeLike | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> Any:
        """Return random integers with all bits random, as cuRAND's `curandGenerate` does."""
    def random(
        self, size: Shape | None = None, *, dtype: DTypeLike | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> Any:
        """Return uniform numbers in [0, 1), never 1, made of the upper bits of `bits`."""
    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        out: AnyArray | None = None, stream: Any = None,
    ) -> Any:
        """Return uniform numbers in [low, high): low + (high - low) u, rounded, where u has 24 random bits."""
    def integers(
        self, low: int, high: int | None = None, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        endpoint: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> Any:
        """Return integers in [low, high), or [0, low) without `high`, all with the same probability."""
    def dropout_mask(
        self, p: float, size: Shape | None = None, *, dtype: DTypeLike | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> Any:
        """Return a mask to multiply by: 0 with probability p, else 1/(1 - p), so that the mean is 1."""
    def normal(
        self, loc: float = 0.0, scale: float = 1.0, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        out: AnyArray | None = None, stream: Any = None,
    ) -> Any:
        """Return normal numbers with mean `loc` and standard deviation `scale`, as `curandGenerateNormal` does."""
    def standard_normal(
        self, size: Shape | None = None, *, dtype: DTypeLike | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> Any:
        """Return normal numbers with mean 0 and standard deviation 1, like `normal(0, 1, size)`."""
    def lognormal(
        self, mean: float = 0.0, sigma: float = 1.0, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        out: AnyArray | None = None, stream: Any = None,
    ) -> Any:
        """Return e to the power of `normal(mean, sigma)`, as cuRAND's `curandGenerateLogNormal` does."""
    def poisson(
        self, lam: float = 1.0, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        out: AnyArray | None = None, stream: Any = None,
    ) -> Any:
        """Return Poisson numbers with mean `lam`, made by cuRAND's `curandGeneratePoisson`."""

KINDS: tuple[RandomKind, ...]

def cache_clear() -> None: ...

def cache_info() -> CacheInfo: ...

def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]: ...

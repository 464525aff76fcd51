# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""cuRAND's pseudo-random and quasi-random numbers, the same on the CPU and on GPUs."""

from typing import Any, Generic, Literal, overload
from typing_extensions import TypeVar

import numpy as np
from numbacc.typing import (
    AnyArray,
    DTypeLike,
    DeviceArray,
    NumPyArray,
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

_Drawn = TypeVar("_Drawn", covariant=True, default=Any)

from numbacc.libraries.curand import State as State

class Generator(Generic[_Drawn]):
    """A sequence of random numbers, with the methods of `numpy.random.Generator`. Threads may share it."""

    @overload
    def __init__(
        self: Generator[NumPyArray], kind: RandomKind | int = 'philox', seed: int = 0, offset: int = 0, *,
        device: Literal["cpu"], dimensions: int = 1, ordering: RandomOrdering = 'default',
    ) -> None: ...
    @overload
    def __init__(
        self: Generator[DeviceArray], kind: RandomKind | int = 'philox', seed: int = 0, offset: int = 0,
        device: int | str | None = None, dimensions: int = 1, ordering: RandomOrdering = 'default',
    ) -> None: ...
    @property
    def state(self) -> State: ...
    @state.setter
    def state(self, state: State) -> None: ...
    @property
    def device(self) -> str: ...
    def spawn(self, n: int) -> list[Generator[_Drawn]]:
        """Return `n` generators of this kind whose numbers are independent of this one's and of each other's."""
    @overload
    def bits(
        self, size: None = None, *, dtype: DTypeLike | None = None, out: None = None, stream: Any = None,
    ) -> np.integer[Any]:
        """Return random integers with all bits random, as cuRAND's `curandGenerate` does."""
    @overload
    def bits(
        self, size: Shape | None = None, *, dtype: DTypeLike | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> _Drawn:
        """Return random integers with all bits random, as cuRAND's `curandGenerate` does."""
    @overload
    def random(
        self, size: None = None, *, dtype: DTypeLike | None = None, out: None = None, stream: Any = None,
    ) -> np.floating[Any]:
        """Return uniform numbers in [0, 1), never 1, made of the upper bits of `bits`."""
    @overload
    def random(
        self, size: Shape | None = None, *, dtype: DTypeLike | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> _Drawn:
        """Return uniform numbers in [0, 1), never 1, made of the upper bits of `bits`."""
    @overload
    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: None = None, *, dtype: DTypeLike | None = None,
        out: None = None, stream: Any = None,
    ) -> np.floating[Any]:
        """Return uniform numbers in [low, high): low + (high - low) u, rounded, where u has 24 random bits."""
    @overload
    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        out: AnyArray | None = None, stream: Any = None,
    ) -> _Drawn:
        """Return uniform numbers in [low, high): low + (high - low) u, rounded, where u has 24 random bits."""
    @overload
    def integers(
        self, low: int, high: int | None = None, size: None = None, *, dtype: DTypeLike | None = None,
        endpoint: bool = False, out: None = None, stream: Any = None,
    ) -> np.integer[Any]:
        """Return integers in [low, high), or [0, low) without `high`, all with the same probability."""
    @overload
    def integers(
        self, low: int, high: int | None = None, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        endpoint: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> _Drawn:
        """Return integers in [low, high), or [0, low) without `high`, all with the same probability."""
    @overload
    def dropout_mask(
        self, p: float, size: None = None, *, dtype: DTypeLike | None = None, out: None = None, stream: Any = None,
    ) -> np.floating[Any]:
        """Return a mask to multiply by: 0 with probability p, else 1/(1 - p), so that the mean is 1."""
    @overload
    def dropout_mask(
        self, p: float, size: Shape | None = None, *, dtype: DTypeLike | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> _Drawn:
        """Return a mask to multiply by: 0 with probability p, else 1/(1 - p), so that the mean is 1."""
    @overload
    def normal(
        self, loc: float = 0.0, scale: float = 1.0, size: None = None, *, dtype: DTypeLike | None = None,
        out: None = None, stream: Any = None,
    ) -> np.floating[Any]:
        """Return normal numbers with mean `loc` and standard deviation `scale`, as `curandGenerateNormal` does."""
    @overload
    def normal(
        self, loc: float = 0.0, scale: float = 1.0, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        out: AnyArray | None = None, stream: Any = None,
    ) -> _Drawn:
        """Return normal numbers with mean `loc` and standard deviation `scale`, as `curandGenerateNormal` does."""
    @overload
    def standard_normal(
        self, size: None = None, *, dtype: DTypeLike | None = None, out: None = None, stream: Any = None,
    ) -> np.floating[Any]:
        """Return normal numbers with mean 0 and standard deviation 1, like `normal(0, 1, size)`."""
    @overload
    def standard_normal(
        self, size: Shape | None = None, *, dtype: DTypeLike | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> _Drawn:
        """Return normal numbers with mean 0 and standard deviation 1, like `normal(0, 1, size)`."""
    @overload
    def lognormal(
        self, mean: float = 0.0, sigma: float = 1.0, size: None = None, *, dtype: DTypeLike | None = None,
        out: None = None, stream: Any = None,
    ) -> np.floating[Any]:
        """Return e to the power of `normal(mean, sigma)`, as cuRAND's `curandGenerateLogNormal` does."""
    @overload
    def lognormal(
        self, mean: float = 0.0, sigma: float = 1.0, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        out: AnyArray | None = None, stream: Any = None,
    ) -> _Drawn:
        """Return e to the power of `normal(mean, sigma)`, as cuRAND's `curandGenerateLogNormal` does."""
    @overload
    def poisson(
        self, lam: float = 1.0, size: None = None, *, dtype: DTypeLike | None = None, out: None = None,
        stream: Any = None,
    ) -> np.integer[Any]:
        """Return Poisson numbers with mean `lam`, made by cuRAND's `curandGeneratePoisson`."""
    @overload
    def poisson(
        self, lam: float = 1.0, size: Shape | None = None, *, dtype: DTypeLike | None = None,
        out: AnyArray | None = None, stream: Any = None,
    ) -> _Drawn:
        """Return Poisson numbers with mean `lam`, made by cuRAND's `curandGeneratePoisson`."""

KINDS: tuple[RandomKind, ...]

def cache_clear() -> None: ...

def cache_info() -> CacheInfo: ...

def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]: ...

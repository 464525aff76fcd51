# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Gated activations: GLU, ReGLU, SwiGLU, GeGLU, forward and backward."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload
from numbacc.typing import (
    AnyArray,
    DeviceArray,
    Gate,
    GatedKind,
    NumPyArray,
    RegisteredKind,
)
from numbacc.plan.cache import CacheInfo
from numbacc.plan.saved import Saved
from numbacc.plan.tasks import MapPlan

__all__ = [
    "KINDS",
    "backward",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "forward",
    "linear",
    "linear_backward",
    "register",
]


class _Function:
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

class _Functions:
    class backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', out: NumPyArray | Sequence[NumPyArray] | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', out: AnyArray | Sequence[AnyArray] | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, dy: NumPyArray, x: Sequence[NumPyArray], kind: GatedKind | RegisteredKind = 'swiglu', *,
            axis: int = -1, gate: Gate = 'second', out: Sequence[NumPyArray] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: Sequence[AnyArray], kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', out: Sequence[AnyArray] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def plan(
            self, dy: NumPyArray, x: NumPyArray | Saved, kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', out: NumPyArray | Sequence[NumPyArray] | None = None,
        ) -> MapPlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: AnyArray | Saved, kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', out: AnyArray | Sequence[AnyArray] | None = None,
        ) -> MapPlan[DeviceArray]: ...
        @overload
        def plan(
            self, dy: NumPyArray, x: Sequence[NumPyArray], kind: GatedKind | RegisteredKind = 'swiglu', *,
            axis: int = -1, gate: Gate = 'second', out: Sequence[NumPyArray] | None = None,
        ) -> MapPlan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: Sequence[AnyArray], kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', out: Sequence[AnyArray] | None = None,
        ) -> MapPlan[tuple[DeviceArray, DeviceArray]]: ...

    class forward(_Function):
        @overload
        def __call__(
            self, x: NumPyArray | Sequence[NumPyArray], kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', return_saved: Literal[False] = False, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray | Sequence[AnyArray], kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', return_saved: Literal[False] = False, out: AnyArray | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, x: NumPyArray | Sequence[NumPyArray], kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray | Sequence[AnyArray], kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', return_saved: Literal[True], out: AnyArray | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray | Sequence[AnyArray], kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', return_saved: bool = False, out: AnyArray | None = None, stream: Any = None,
        ) -> Any: ...
        @overload
        def plan(
            self, x: NumPyArray | Sequence[NumPyArray], kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', out: NumPyArray | None = None,
        ) -> MapPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray | Sequence[AnyArray], kind: GatedKind | RegisteredKind = 'swiglu', *, axis: int = -1,
            gate: Gate = 'second', out: AnyArray | None = None,
        ) -> MapPlan[DeviceArray]: ...
        backward: _Functions.backward

    class linear(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, w: NumPyArray, kind: GatedKind | RegisteredKind = 'swiglu', *, gate: Gate = 'second',
            return_saved: Literal[False] = False, tune: bool = False, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, w: AnyArray, kind: GatedKind | RegisteredKind = 'swiglu', *, gate: Gate = 'second',
            return_saved: Literal[False] = False, tune: bool = False, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, x: NumPyArray, w: NumPyArray, kind: GatedKind | RegisteredKind = 'swiglu', *, gate: Gate = 'second',
            return_saved: Literal[True], tune: bool = False, out: NumPyArray | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, w: AnyArray, kind: GatedKind | RegisteredKind = 'swiglu', *, gate: Gate = 'second',
            return_saved: Literal[True], tune: bool = False, out: AnyArray | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, w: AnyArray, kind: GatedKind | RegisteredKind = 'swiglu', *, gate: Gate = 'second',
            return_saved: bool = False, tune: bool = False, out: AnyArray | None = None, stream: Any = None,
        ) -> Any: ...
        backward: _Functions.linear_backward

    class linear_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, w: NumPyArray | None = None,
            kind: GatedKind | RegisteredKind = 'swiglu', *, gate: Gate = 'second', tune: bool = False,
            out: Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, w: AnyArray | None = None,
            kind: GatedKind | RegisteredKind = 'swiglu', *, gate: Gate = 'second', tune: bool = False,
            out: Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...

KINDS: tuple[GatedKind, ...]

backward: _Functions.backward
"""Compute the gradient of a loss with respect to x, given dy, its gradient with respect to y = forward(x)."""

def cache_clear() -> None: ...

def cache_info() -> CacheInfo: ...

def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]: ...

forward: _Functions.forward
"""Compute y = a * g(b), where (a, b) are the two halves of x."""

linear: _Functions.linear
"""Compute y = a * g(b), where (a, b) are the two halves of the columns of x w."""

linear_backward: _Functions.linear_backward
"""Return the gradients of a loss with respect to x and w, given dy, its gradient with respect to y = linear(x, w)."""

def register(kind: str, gate: Callable[[float], float], slope: Callable[[float], float] | None = None) -> None: ...

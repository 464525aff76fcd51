"""What computes on device arrays, by its name: arrays know no functions, and are handed them by `numbacc` itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..errors import DTypeError
from . import protocols

_look_up: list[Callable[[str], Any]] = []


def computing(look_up: Callable[[str], Any]) -> None:
    """Set what finds functions by their names: "add", "matmul", "sum"; None where there is none."""
    _look_up[:] = [look_up]
    find.cache_clear()


@lru_cache(maxsize=512)
def find(name: str) -> Callable[..., Any] | None:
    """The function of a name, once it is first needed; None where there is none."""
    return _look_up[0](name) if _look_up else None


def function(name: str) -> Callable[..., Any]:
    """The function of a name.

    Raises:
        DTypeError: there is none.
    """
    found = find(name)
    if found is None:
        raise refusal(name)
    return found


def made_of_others(theirs: Any) -> Callable[..., Any] | None:
    """What stands for a function of NumPy's that is made of several here; None where nothing does."""
    others: Any = find("__numpy_functions__") or {}
    return others.get(theirs)  # type: ignore[no-any-return]


def refusal(what: str) -> DTypeError:
    """The error for what is not computed on a GPU."""
    return DTypeError(
        f"{what} is not computed on device arrays, and nothing is copied to the host silently: "
        "numbacc.asnumpy(x) copies; numbacc.elementwise, gemm, fft, gated and random compute on the GPU"
    )


def called(what: str, found: Callable[..., Any] | None, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The answer of the function that computes what NumPy calls `what`.

    Raises:
        DTypeError: there is no such function, or the arguments are NumPy's alone. As the function besides.
    """
    if found is None:
        raise refusal(what)
    try:
        return found(*arguments, **options)
    except TypeError:
        # Asked only now, as the answer takes longer than the call.
        if protocols.fits(found, arguments, options):
            raise
    raise refusal(f"{what} with {protocols.unknown(found, options)}")

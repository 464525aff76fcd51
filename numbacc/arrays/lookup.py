"""Functions that compute on device arrays, found by name, so that arrays need not import them.

`numbacc` registers them. If a user writes a method of torch's or NumPy's arrays that device arrays lack, `instead_of`
returns the code to write.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..errors import DTypeError
from . import protocols

_look_up: list[Callable[[str], Any]] = []


def computing(look_up: Callable[[str], Any]) -> None:
    """Register a function that finds functions by their names ("add", "matmul", "sum") and returns None for others."""
    _look_up[:] = [look_up]
    find.cache_clear()


@lru_cache(maxsize=512)
def find(name: str) -> Callable[..., Any] | None:
    """Return the function of a name, or None. It is loaded when it is first needed."""
    return _look_up[0](name) if _look_up else None


def function(name: str) -> Callable[..., Any]:
    """Return the function of a name.

    Raises:
        DTypeError: it does not exist.
    """
    found = find(name)
    if found is None:
        raise refusal(name)
    return found


def made_of_others(theirs: Any) -> Callable[..., Any] | None:
    """Return the function that replaces a NumPy function which calls several others; None if none replaces it."""
    others: Any = find("__numpy_functions__") or {}
    return others.get(theirs)  # type: ignore[no-any-return]


def refusal(what: str) -> DTypeError:
    """Return the error for a function without a GPU version."""
    return DTypeError(
        f"{what} is not supported on device arrays, and numbacc never copies to the host implicitly: "
        "numbacc.asnumpy(x) copies; numbacc.elementwise, gemm, fft, gated and random compute on the GPU"
    )


def called(what: str, found: Callable[..., Any] | None, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call the function for NumPy's `what`, and return its result.

    Raises:
        DTypeError: numbacc has no such function, or only NumPy's version accepts the arguments. Errors of the function
            are raised unchanged.
    """
    if found is None:
        raise refusal(what)
    try:
        return found(*arguments, **options)
    except TypeError:
        # Checked only after a failure, because the check takes longer than the call.
        if protocols.fits(found, arguments, options):
            raise
    raise refusal(f"{what} with {protocols.unknown(found, options)}")


#: Method or attribute of torch's or NumPy's arrays -> the code to write for it.
_INSTEAD = {
    **dict.fromkeys(("numpy", "cpu", "get", "tolist"), "numbacc.asnumpy(x)"),
    **dict.fromkeys(("clone", "contiguous"), "x.copy()"),
    **dict.fromkeys(("cuda", "to"), "numbacc.asarray(x, device=...) or x.astype(dtype)"),
    **dict.fromkeys(("mm", "matmul", "bmm"), "x @ y, or numbacc.gemm.matmul(x, y)"),
    "float": 'x.astype("float32")', "double": 'x.astype("float64")', "half": 'x.astype("float16")',
    "bfloat16": 'x.astype("bfloat16")', "int": 'x.astype("int32")', "long": 'x.astype("int64")',
    "bool": 'x.astype("bool")',
    "t": "x.T", "permute": "x.transpose(axes)", "expand": "x.broadcast_to(shape)", "unsqueeze": "x[:, None]",
    "dim": "x.ndim", "numel": "x.size", "zero_": "x[...] = 0", "fill_": "x[...] = value", "copy_": "x[...] = y",
    "masked_fill": "numbacc.elementwise.where(mask, value, x)",
    **dict.fromkeys(("fft", "ifft", "rfft"), "a function of numbacc.fft"),
    **dict.fromkeys(
        ("backward", "grad", "requires_grad", "requires_grad_", "detach", "detach_"),
        "the function's own gradient (<function>_backward): numbacc records nothing",
    ),
}  # fmt: skip
#: torch's names of functions -> numbacc's, except names of NumPy's ufuncs.
_FUNCTIONS = {
    "mul": "multiply", "sub": "subtract", "div": "divide", "true_divide": "divide", "neg": "negative",
    "remainder": "remainder", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "clamp_min": "maximum", "clamp_max": "minimum", "amax": "max", "amin": "min",
    "norm": "norm", "gather": "take_along_axis", "index_select": "take", "cat": "concatenate",
}  # fmt: skip


def instead_of(name: str) -> str:
    """Return the code to write instead of `x.name`; "" if none is known."""
    if name.startswith("_"):
        return ""
    found = _INSTEAD.get(name)
    if found is not None:
        return found
    function = name.removesuffix("_")
    function = _FUNCTIONS.get(function) or protocols.UFUNCS.get(function, function)
    if not hasattr(find(function), "plan"):
        return ""
    return f"numbacc.elementwise.{function}(x{', ..., out=x' if name.endswith('_') else ', ...'})"

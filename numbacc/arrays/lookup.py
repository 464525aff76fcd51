"""What computes on device arrays, by its name: arrays know no functions, and are handed them by `numbacc` itself.

And what to write for a name that arrays of torch or NumPy have as a method, and device arrays do not.
"""

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
#: torch's names of functions -> numbacc's, apart from those of NumPy's ufuncs.
_FUNCTIONS = {
    "mul": "multiply", "sub": "subtract", "div": "divide", "true_divide": "divide", "neg": "negative",
    "remainder": "remainder", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "clamp_min": "maximum", "clamp_max": "minimum", "amax": "max", "amin": "min",
    "norm": "norm", "gather": "take_along_axis", "index_select": "take", "cat": "concatenate",
}  # fmt: skip


def instead_of(name: str) -> str:
    """Return the code to write where a user wrote `x.name`, "" where none is known."""
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

"""Messages for names that arrays of torch and NumPy have as methods, and device arrays do not."""

from __future__ import annotations

from . import lookup, protocols

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
    if not hasattr(lookup.find(function), "plan"):
        return ""
    return f"numbacc.elementwise.{function}(x{', ..., out=x' if name.endswith('_') else ', ...'})"

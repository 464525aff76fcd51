"""The functions of the array API standard (2024.12), but those of its extensions, as its stubs have them."""

from __future__ import annotations

import inspect

#: Arguments -> the functions that take them.
SIGNATURES = {
    "x, /":
        "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf "
        "isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh "
        "square sqrt tan tanh trunc matrix_transpose nonzero unique_all unique_counts unique_inverse unique_values",
    "x1, x2, /":
        "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
        "floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor "
        "maximum minimum multiply nextafter not_equal pow remainder subtract matmul",
    "x, /, *, axis=None, keepdims=False": "argmax argmin count_nonzero max mean min all any",
    "shape, *, dtype=None, device=None": "empty ones zeros",
    "x, /, *, dtype=None, device=None": "empty_like ones_like zeros_like",
    "x, /, *, k=0": "tril triu",
    "type, /": "finfo iinfo",
    "arrays, /, *, axis=0": "concat stack",
    "x, /, axis": "expand_dims squeeze",
    "x, /, *, axis=-1, descending=False, stable=True": "argsort sort",
    "x, /, *, axis=None, dtype=None, include_initial=False": "cumulative_prod cumulative_sum",
    "x, /, *, axis=None, dtype=None, keepdims=False": "prod sum",
    "x, /, *, axis=None, correction=0.0, keepdims=False": "std var",
    "start, /, stop=None, step=1, *, dtype=None, device=None": "arange",
    "obj, /, *, dtype=None, device=None, copy=None": "asarray",
    "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None": "eye",
    "x, /, *, device=None, copy=None": "from_dlpack",
    "shape, fill_value, *, dtype=None, device=None": "full",
    "x, /, fill_value, *, dtype=None, device=None": "full_like",
    "start, stop, /, num, *, dtype=None, device=None, endpoint=True": "linspace",
    "*arrays, indexing='xy'": "meshgrid",
    "x, dtype, /, *, copy=True, device=None": "astype",
    "from_, to, /": "can_cast",
    "dtype, kind": "isdtype",
    "*arrays_and_dtypes": "result_type",
    "x, /, min=None, max=None": "clip",
    "x, indices, /, *, axis=None": "take",
    "x, indices, /, *, axis=-1": "take_along_axis",
    "": "__array_namespace_info__",
    "x1, x2, /, *, axes=2": "tensordot",
    "x1, x2, /, *, axis=-1": "vecdot",
    "*arrays": "broadcast_arrays",
    "x, /, shape": "broadcast_to",
    "x, /, *, axis=None": "flip",
    "x, source, destination, /": "moveaxis",
    "x, /, axes": "permute_dims",
    "x, repeats, /, *, axis=None": "repeat",
    "x, /, shape, *, copy=None": "reshape",
    "x, /, shift, *, axis=None": "roll",
    "x, repetitions, /": "tile",
    "x, /, *, axis=0": "unstack",
    "x1, x2, /, *, side='left', sorter=None": "searchsorted",
    "condition, x1, x2, /": "where",
    "x, /, *, axis=-1, n=1, prepend=None, append=None": "diff",
}  # fmt: skip
STANDARD = {name: arguments for arguments, names in SIGNATURES.items() for name in names.split()}


def misfits(name, function):
    """What calls of the standard's would not do of a function: it may take more, that has defaults."""
    standard = inspect.signature(eval(f"lambda {STANDARD[name]}: None")).parameters.values()
    own = inspect.signature(function).parameters
    places = [each for each in own.values() if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    rest = any(each.kind is each.VAR_POSITIONAL for each in own.values())
    found, taken = [], []
    for place, each in enumerate(standard):
        if each.kind is each.VAR_POSITIONAL:
            found += [] if rest else [str(each)]
            continue
        mine = own.get(each.name)
        if each.kind is not each.KEYWORD_ONLY:
            mine = places[place] if place < len(places) else None
            if each.kind is each.POSITIONAL_OR_KEYWORD and mine is not None and mine.name != each.name:
                mine = None
        if mine is None or (each.default is not each.empty and mine.default != each.default):
            found.append(str(each))
        else:
            taken.append(mine.name)
    more = [each for each in own.values() if each.name not in taken and each.kind < each.VAR_KEYWORD]
    return found + [str(each) for each in more if each.default is each.empty and each.kind is not each.VAR_POSITIONAL]

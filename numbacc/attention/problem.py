"""A call of attention after its checks, and the values derived from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..base.attention_band import Band
from ..base.checks import boolean, integer, real, workspace_limit
from ..base.dtypes import FLOATS, info
from ..base.layout import Layout, check_same_device, layout, row_major_strides
from ..errors import DTypeError, OptionError, ShapeError
from ..plan.base import check_out
from ..reference.attention import compute_dtype
from .geometry import AttentionGeometry, check_layout, geometry
from .masks import FROM_BOOLEANS, band_of
from .score_functions import Scoring

#: The default of `workspace_limit`, the scratch memory that a plan may use.
WORKSPACE_LIMIT = 2**30
#: The scales of float8, each an array of one float32.
SCALES = ("descale_q", "descale_k", "descale_v", "scale_s", "descale_s", "scale_o")
#: The optional arrays of a call, in the order of a plan's inputs. They follow the arrays in OPERANDS.
EXTRAS = ("bias", "alibi", "seq_len_q", "seq_len_kv", "page_table_k", "page_table_v", "offset", *SCALES)
#: The arrays that each direction requires.
OPERANDS = {
    "forward": ("q", "k", "v"),
    "backward": ("do", "q", "k", "v", "o", "stats"),
    "dropout_mask": ("q", "k", "v"),
}


class AttentionOptions(NamedTuple):
    """The options of a call that its plan depends on."""

    mask: Any
    scale: Any
    dropout: Any
    layout: Any
    max_len_q: Any
    max_len_kv: Any
    return_stats: Any
    bias_grad: Any
    deterministic: Any
    workspace_limit: Any
    return_amax: Any


class AttentionCall(NamedTuple):
    """A call before its checks: the key of a plan.

    Attributes:
        direction: one of OPERANDS.
        extras: the layouts of EXTRAS, or None for arrays that are not given.
        extras: the layouts of EXTRAS, None where they are not given.
        outs: the layouts of the results, each None where it is not given; None if no result is given.
        options: as `plain` returns them.
        scoring: the score and mask functions, and their operands; None without them.
    """

    direction: str
    arrays: tuple[Layout, ...]
    extras: tuple[Layout | None, ...]
    outs: tuple[Layout | None, ...] | None
    options: AttentionOptions
    scoring: Scoring | None = None


@dataclass(frozen=True)
class AttentionProblem:
    """A call of attention, checked.

    Attributes:
        call: the call before its checks.
        geometry: the sizes of all axes.
        band: which keys a query sees.
        scale: factor of the scores.
        compute: the dtype of the arithmetic.
        inputs, outputs: the layouts of all arrays by name, in order.
        limit: bytes of scratch memory that may be used.
    """

    call: AttentionCall
    geometry: AttentionGeometry
    band: Band
    scale: float
    compute: np.dtype[Any]
    inputs: dict[str, Layout]
    outputs: dict[str, Layout]
    limit: int

    @property
    def options(self) -> AttentionOptions:
        return self.call.options

    @property
    def has_lengths(self) -> bool:
        """Whether sequences may be shorter than their arrays."""
        return "seq_len_q" in self.inputs or "seq_len_kv" in self.inputs

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of q."""
        return self.inputs["q"].dtype

    @property
    def is_scaled(self) -> bool:
        """Whether the dtype is float8, which has scales."""
        return info(self.dtype).is_scaled

    @property
    def rows_may_be_empty(self) -> bool:
        """Whether some queries may see no key."""
        found = self.geometry
        if self.call.scoring is not None:
            return True
        return self.has_lengths or "bias" in self.inputs or self.band.leaves_rows_empty(found.queries, found.keys)


def options_of(given: Mapping[str, Any]) -> AttentionOptions:
    """Return the options of a call, given its arguments; options that its function does not have are False."""
    return AttentionOptions(*[given.get(name, False) for name in AttentionOptions._fields])


def plain(options: AttentionOptions) -> AttentionOptions:
    """Return the options of a call as parts of a key.

    Numbers are checked here, because 1.0 and True equal 1: where they are not valid, they must not find its plan.

    Raises:
        OptionError: an option has the wrong type, or is out of range.
    """
    band_of(options.mask)
    dropout = real(options.dropout, "dropout")
    if not 0 <= dropout < 1:
        raise OptionError(f"dropout={dropout}; it must be 0 or more, and less than 1")
    longest_q, longest_kv = (
        None if value is None else integer(value, name, 1)
        for value, name in ((options.max_len_q, "max_len_q"), (options.max_len_kv, "max_len_kv"))
    )
    return AttentionOptions(
        options.mask,
        None if options.scale is None else real(options.scale, "scale"),
        dropout,
        check_layout(options.layout),
        longest_q,
        longest_kv,
        boolean(options.return_stats, "return_stats"),
        boolean(options.bias_grad, "bias_grad"),
        boolean(options.deterministic, "deterministic"),
        workspace_limit(options.workspace_limit),
        boolean(options.return_amax, "return_amax"),
    )


def is_number(offset: Any) -> bool:
    """Return whether an offset is a number, as opposed to an array of one."""
    return isinstance(offset, (int, np.integer)) and not isinstance(offset, bool)


def start_of(offset: Any) -> int:
    """Return an offset that is a number, or the number in an array on the CPU.

    Raises:
        OptionError: it is not an integer, out of range, or not a multiple of 4.
    """
    start = integer(offset, "offset", 0, 2**62)
    if start % 4:
        raise OptionError(f"offset={start} must be a multiple of 4: random words are generated four at a time")
    return start


def numbers(seed: Any, offset: Any) -> tuple[int, int]:
    """Return seed and offset after checks; the offset is 0 if it is an array.

    Raises:
        OptionError: they are not integers, or out of range; the seed is an array on a GPU.
    """
    if offset is None:
        raise OptionError("offset=None must be an integer or an array of one")
    start = start_of(offset) if is_number(offset) else 0
    if type(seed) is not int and _is_on_gpu(seed):
        raise OptionError(
            "seed is an array on a GPU, and reading it would wait for the GPU: pass an integer. offset may be an array"
        )
    return integer(seed, "seed", 0, 2**64 - 1), start


def _is_on_gpu(value: Any) -> bool:
    try:
        return hasattr(value, "_numbacc_layout") or hasattr(value, "__cuda_array_interface__")
    except Exception:  # an attribute of a foreign object may raise anything
        return False


# ---------------------------------------------------------------- checks


def resolve(call: AttentionCall) -> AttentionProblem:
    """Check a call, and return it as a problem.

    Raises:
        ShapeError, DTypeError, OptionError, DeviceError: as the public functions document.
    """
    arrays = dict(zip(OPERANDS[call.direction], call.arrays, strict=True))
    extras = {name: each for name, each in zip(EXTRAS, call.extras, strict=True) if each is not None}
    for name, each in {**arrays, **extras}.items():
        check_same_device(each, name, arrays["q"], "q")
    _check_dtypes(call.direction, arrays, extras)
    options = call.options
    _check_company(call, extras)
    found = geometry(
        arrays["q"],
        arrays["k"],
        arrays["v"],
        options.layout,
        (extras.get("seq_len_q"), extras.get("seq_len_kv")),
        extras.get("page_table_k"),
        (options.max_len_q, options.max_len_kv),
    )
    scoring = call.scoring
    _check_shapes(found, arrays, extras, scoring)
    if scoring is not None:
        extras |= dict(zip(scoring.names, scoring.operands, strict=True))
    compute = compute_dtype(arrays["q"].dtype)
    _check_scale(options.scale, arrays["q"].dtype, compute)
    problem = AttentionProblem(
        call=call,
        geometry=found,
        band=band_of(options.mask).within(found.queries, found.keys),
        scale=1.0 / math.sqrt(found.width) if options.scale is None else options.scale,
        compute=compute,
        inputs={**arrays, **extras},
        outputs=_results(call, found, compute, extras),
        limit=WORKSPACE_LIMIT if options.workspace_limit is None else options.workspace_limit,
    )
    if problem.is_scaled and problem.rows_may_be_empty:
        raise OptionError(
            f"with this mask some queries see no key, which attention of {problem.dtype} does not support"
        )
    return problem


def _check_scale(scale: float | None, dtype: np.dtype[Any], compute: np.dtype[Any]) -> None:
    """Raise OptionError if a scale overflows in the arithmetic's dtype: every score would be NaN or infinite."""
    if scale is None:
        return
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(compute.type(scale))
    if not is_finite:
        raise OptionError(
            f"scale={scale} is infinite in {compute}, the dtype that attention of {dtype} computes in: use a smaller "
            "scale, or float64 arrays"
        )


def _check_dtypes(direction: str, arrays: dict[str, Layout], extras: dict[str, Layout]) -> None:
    dtype = arrays["q"].dtype
    is_scaled = info(dtype, "q").is_scaled
    if is_scaled and direction != "forward":
        raise DTypeError(f"q has dtype {dtype}, which only `forward` supports; gradients support {', '.join(FLOATS)}")
    if not (is_scaled or info(dtype).name in FLOATS):
        raise DTypeError(f"q has dtype {dtype}; attention supports {', '.join(FLOATS)}, and float8 with scales")
    compute = compute_dtype(dtype)
    for name, each in arrays.items():
        wanted = compute if name == "stats" else dtype
        if each.dtype != wanted:
            raise DTypeError(f"{name} has dtype {each.dtype}; with q of {dtype} it must have {wanted}")
    for name, each in extras.items():
        allowed = {
            "bias": tuple(dict.fromkeys((dtype.name, compute.name))),
            "alibi": tuple(dict.fromkeys(("float32", compute.name))),
            "seq_len_q": ("int32", "int64"),
            "seq_len_kv": ("int32", "int64"),
            "page_table_k": ("int32", "int64"),
            "page_table_v": ("int32", "int64"),
            "offset": ("int64",),
        }.get(name, ("float32",))
        if info(each.dtype, name).name not in allowed:
            hint = f". {FROM_BOOLEANS}" if name == "bias" and each.dtype == np.bool_ else ""
            raise DTypeError(f"{name} has dtype {each.dtype}; it must have {' or '.join(allowed)}{hint}")


def _check_company(call: AttentionCall, extras: dict[str, Layout]) -> None:
    """Raise OptionError where options cannot be combined."""
    options = call.options
    is_paged = "page_table_k" in extras or "page_table_v" in extras
    if is_paged:
        for name in ("page_table_k", "page_table_v", "seq_len_kv"):
            if name not in extras:
                raise OptionError(
                    f"page_table_k, page_table_v and seq_len_kv must be given together; {name} is missing"
                )
        if call.direction == "backward":
            raise OptionError(
                "pages are for decoding and do not support gradients; gather k and v into one array first"
            )
        if options.layout == "THD":
            raise OptionError('page tables need layout="BHSD" or "BSHD"; layout="THD" was given')
    if options.layout != "THD" and (options.max_len_q is not None or options.max_len_kv is not None):
        raise OptionError('max_len_q and max_len_kv need layout="THD"; with other layouts the shapes give the lengths')
    _check_scaling(call, extras)
    if options.bias_grad and "bias" not in extras:
        raise OptionError("bias_grad=True needs a bias: pass bias=")
    if "offset" in extras and not options.dropout:
        raise OptionError("offset is an array, but dropout is 0; leave offset out")
    if call.direction == "dropout_mask" and not options.dropout:
        raise OptionError("dropout=0.0 drops nothing; dropout_mask needs a dropout above 0")


def _check_scaling(call: AttentionCall, extras: dict[str, Layout]) -> None:
    """Raise OptionError where scales are given without float8, or float8 with options that it does not support."""
    dtype, options = call.arrays[OPERANDS[call.direction].index("q")].dtype, call.options
    if not info(dtype).is_scaled:
        given = [name for name in SCALES if name in extras] + ["return_amax"] * options.return_amax
        if given:
            raise OptionError(f"{given[0]} is for float8; q has dtype {dtype}")
        return
    refused = [name for name in extras if name not in SCALES]
    refused += ["dropout"] * bool(options.dropout) + ['layout="THD"'] * (options.layout == "THD")
    refused += ["a score or mask function"] * (call.scoring is not None)
    if refused:
        raise OptionError(f"{refused[0]} is not supported with {dtype}, which supports only a mask and scales")
    if options.scale is not None and options.scale <= 0:
        raise OptionError(f"scale={options.scale} is not supported with {dtype}: it must be above 0")


def _check_shapes(
    found: AttentionGeometry, arrays: dict[str, Layout], extras: dict[str, Layout], scoring: Scoring | None
) -> None:
    for name in ("do", "o"):
        if name in arrays and arrays[name].shape != found.shape(name):
            raise ShapeError(f"{name} has shape {arrays[name].shape}; with these q, k and v it has {found.shape(name)}")
    shape = _stats_shape(found, scoring)
    if "stats" in arrays and arrays["stats"].shape != shape:
        raise ShapeError(
            f"stats has shape {arrays['stats'].shape}; forward(..., return_stats=True) of these q, k and v gives "
            f"{shape}"
        )
    if scoring is not None:
        scoring.check(found.scores, arrays["q"])
    bias = extras.get("bias")
    if bias is not None:
        whole = found.scores
        padded = (1,) * (4 - bias.ndim) + bias.shape
        if bias.ndim > 4 or any(n not in (1, full) for n, full in zip(padded, whole, strict=True)):
            raise ShapeError(
                f"bias has shape {bias.shape}; it must broadcast to (batch, heads, queries, keys) = {whole}"
            )
    if "alibi" in extras and extras["alibi"].shape != (found.heads,):
        raise ShapeError(f"alibi has shape {extras['alibi'].shape}; it needs a slope for each head: ({found.heads},)")
    for name in ("seq_len_q", "seq_len_kv"):
        if name in extras and not found.is_packed and extras[name].shape != (found.batch,):
            raise ShapeError(
                f"{name} has shape {extras[name].shape}; it needs a length for each sequence: ({found.batch},)"
            )
    tables = [extras[name].shape for name in ("page_table_k", "page_table_v") if name in extras]
    if tables and tables[0] != tables[1]:
        raise ShapeError(f"page_table_k has shape {tables[0]}, page_table_v {tables[1]}; they must have the same shape")
    for name in ("offset", *SCALES):
        if name in extras and extras[name].size != 1:
            raise ShapeError(f"{name} has shape {extras[name].shape}; it must have one element")


def _stats_shape(found: AttentionGeometry, scoring: Scoring | None) -> tuple[int, ...]:
    """Return the shape of the statistics: with a score function two for each row, see `reference.attention`."""
    return (2, *found.stats_shape) if scoring is not None and scoring.function.has_score else found.stats_shape


def _results(
    call: AttentionCall, found: AttentionGeometry, compute: np.dtype[Any], extras: dict[str, Layout]
) -> dict[str, Layout]:
    """Return the layouts of the results by name: of the given arrays, and contiguous ones for the others."""
    q = call.arrays[OPERANDS[call.direction].index("q")]

    def dense(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Layout:
        return layout(shape, row_major_strides(shape, int(dtype.itemsize)), dtype, q.device)

    if call.direction == "forward":
        made = {"out": dense(found.shape("out"), q.dtype)}
        if call.options.return_stats:
            made["stats"] = dense(_stats_shape(found, call.scoring), compute)
        if call.options.return_amax:
            made |= {name: dense((1,), compute) for name in ("amax_s", "amax_o")}
    elif call.direction == "backward":
        made = {name: dense(found.shape(name), q.dtype) for name in ("dq", "dk", "dv")}
        if call.options.bias_grad:
            made["dbias"] = dense(extras["bias"].shape, extras["bias"].dtype)
        if call.scoring is not None:
            made |= {name: dense(each.shape, each.dtype) for name, each in call.scoring.gradients().items()}
    else:
        made = {"kept": dense(found.scores, np.dtype(np.bool_))}
    if call.outs is None:
        return made
    if len(call.outs) != len(made):
        raise ShapeError(f"out must be {_count(made)}: {', '.join(made)}; got {len(call.outs)}")
    names = ["out"] if len(made) == 1 else [f"out[{k}]" for k in range(len(made))]
    for name, key, given in zip(names, made, call.outs, strict=True):
        if given is not None:
            check_out((given,), (made[key],), (name,))
            made[key] = given
    return made


def _count(made: dict[str, Layout]) -> str:
    return "one array" if len(made) == 1 else f"{len(made)} arrays"


def scalars_of(problem: AttentionProblem) -> tuple[str, ...]:
    """Return the dtypes of the scalars that executables need with dropout: seed, offset, least word kept, factor."""
    return ("uint64", "uint64", "uint64", problem.compute.name) if problem.options.dropout else ()

"""A call of a convolution after its checks, and the values derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..base import checks
from ..base.checks import boolean, integer, real
from ..base.dtypes import dtype, info
from ..base.layout import Layout, check_same_device, is_sequence, layout, row_major_strides
from ..errors import DTypeError, OptionError, ShapeError, nearest, shown, unknown
from ..libraries.cudnn_graph import Wants
from ..plan.base import check_out
from ..reference.conv import ACTIVATIONS
from .geometry import ConvGeometry, geometry

#: The two operands of each direction.
OPERANDS = {"forward": ("x", "w"), "backward_data": ("dy", "w"), "backward_filter": ("x", "dy")}
#: The name of the shape argument of each gradient.
SHAPES = {"backward_data": "x_shape", "backward_filter": "w_shape"}
#: The dtypes of operands -> the dtypes of results, the default first.
RESULTS = {
    "float32": ("float32",),
    "float64": ("float64",),
    "float16": ("float16",),
    "bfloat16": ("bfloat16",),
    "int8": ("int32", "float32"),
}
#: Values of `compute` that only convolutions have: float32 with Fourier transforms where they are supported.
TRANSFORMS = {"float32": ("float32_fft",)}
#: `compute` -> how exactly an engine must use float32 inputs.
_INPUTS = {"float32": "exact", "float32_fft": "fft", "tf32": "tf32"}
#: The default of `workspace_limit`, the scratch memory that a plan may use.
WORKSPACE_LIMIT = 2**30


class ConvCall(NamedTuple):
    """A call before its checks: the key of a plan.

    Attributes:
        direction: one of OPERANDS.
        a, b: layouts of its two operands.
        bias, out: layouts of these arrays, None if they are not given.
        shape: x_shape or w_shape; None forward.
        The others: as `plain` returns them.
    """

    direction: str
    a: Layout
    b: Layout
    bias: Layout | None
    out: Layout | None
    shape: Any
    activation: Any
    stride: Any
    padding: Any
    dilation: Any
    groups: Any
    layout: Any
    flip: Any
    alpha: Any
    beta: Any
    out_dtype: Any
    compute: Any
    deterministic: Any
    tune: Any
    workspace_limit: Any


#: The options of a call that its plan depends on.
OPTIONS = ConvCall._fields[ConvCall._fields.index("activation") :]


@dataclass(frozen=True)
class ConvProblem:
    """A checked convolution.

    Attributes:
        call: the call before its checks.
        geometry: shapes and windows.
        out: layout of the result.
        compute: name of the dtype of the arithmetic; "tf32" if float32 inputs may be rounded, "float32_fft" if Fourier
            transforms are allowed.
        accumulator: name of the dtype of sums.
        wants: the requirements on a plan.
    """

    call: ConvCall
    geometry: ConvGeometry
    out: Layout
    compute: str
    accumulator: str
    wants: Wants

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs and the output."""
        return (*OPERANDS[self.call.direction], *["bias"] * (self.call.bias is not None), "out")

    @property
    def inputs(self) -> tuple[Layout, ...]:
        call = self.call
        return (call.a, call.b) if call.bias is None else (call.a, call.b, call.bias)

    @property
    def images(self) -> tuple[Layout, Layout]:
        """The layouts of the two images: of x and y, or of their gradients."""
        call = self.call
        return call.a, call.b if call.direction == "backward_filter" else self.out

    @property
    def kernels(self) -> int:
        """The number of the operand with the kernels or their gradient; inputs first."""
        return len(self.inputs) if self.call.direction == "backward_filter" else 1

    @property
    def sums_nothing(self) -> bool:
        """Whether the operands do not matter: a gradient over an empty batch is 0, and alpha may be 0."""
        return not self.geometry.batch or not self.call.alpha

    @property
    def factors(self) -> tuple[float, float, float]:
        """alpha and beta of cuDNN's convolution, and the factor for numbacc's kernel, which scales int8 sums."""
        alpha, beta = float(self.call.alpha), float(self.call.beta)
        return (1.0, 0.0, alpha) if self.call.a.dtype.name == "int8" else (alpha, beta, 1.0)

    def left(self, bias: bool, activation: bool) -> str:
        """Return which parts of the epilogue numbacc's kernel applies, as text; "" if none.

        Args:
            bias, activation: whether cuDNN adds the bias, and applies the activation.
        """
        call = self.call
        parts = ["alpha"] * (self.factors[2] != 1)
        parts += ["bias"] * (call.bias is not None and not bias)
        parts += [str(call.activation)] * (call.activation is not None and not activation)
        return " and ".join(parts)


def plain(
    activation: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    layout: Any,
    flip: Any,
    alpha: Any,
    beta: Any,
    out_dtype: Any,
    compute: Any,
    deterministic: Any,
    tune: Any,
    workspace_limit: Any,
) -> tuple[Any, ...]:
    """Return the options of a call as parts of a key, with lists converted to tuples.

    Numbers are checked here, because 1.0 and True equal 1: where they are not valid, they must not find its plan.

    Raises:
        OptionError: an option has the wrong type.
    """
    return (
        _frozen(activation),
        _whole(stride, "stride"),
        _whole(padding, "padding"),
        _whole(dilation, "dilation"),
        integer(groups, "groups"),
        _frozen(layout),
        boolean(flip, "flip"),
        real(alpha, "alpha"),
        real(beta, "beta"),
        _frozen(out_dtype),
        _frozen(compute),
        boolean(deterministic, "deterministic"),
        boolean(tune, "tune"),
        checks.workspace_limit(workspace_limit),
    )


def _frozen(value: Any) -> Any:
    """Return an option with lists converted to tuples."""
    return tuple(map(_frozen, value)) if is_sequence(value) else value


def _whole(value: Any, name: str) -> Any:
    """Return integers, with lists converted to tuples; strings stay as they are."""
    if is_sequence(value):
        return tuple(_whole(part, name) for part in value)
    return value if isinstance(value, str) else integer(value, name)


def _geometry(call: ConvCall) -> ConvGeometry:
    options = {name: getattr(call, name) for name in ("stride", "padding", "dilation", "groups", "layout", "flip")}
    if call.direction == "forward":
        return geometry(call.a.shape, call.b.shape, **options)
    if call.direction == "backward_data":
        found = geometry(call.shape, call.b.shape, **options, names=(SHAPES[call.direction], "w"))
        found.check_dy(call.a.shape)
    else:
        found = geometry(call.a.shape, call.shape, **options, names=("x", SHAPES[call.direction]))
        found.check_dy(call.b.shape)
    return found


def _check_dtypes(call: ConvCall) -> None:
    """Raise DTypeError unless a convolution in this direction supports the operands' dtypes, and they are equal."""
    first, second = OPERANDS[call.direction]
    known = [name for name in RESULTS if name != "int8" or call.direction == "forward"]
    if call.a.dtype.name not in known:
        raise DTypeError(
            f"{first} has dtype {call.a.dtype}; conv.{call.direction} supports {', '.join(known)}"
            + ("; gradients do not support int8" if call.a.dtype.name == "int8" else "")
        )
    if call.b.dtype != call.a.dtype:
        raise DTypeError(
            f"{second} has dtype {call.b.dtype}, {first} has {call.a.dtype}; they must have the same dtype"
        )


def _check_bias(call: ConvCall, filters: int, result: Layout) -> None:
    if call.bias is None:
        return
    if call.bias.shape != (filters,):
        raise ShapeError(f"bias has shape {call.bias.shape}; it needs one element for each output of w: ({filters},)")
    if call.bias.dtype != result.dtype:
        whose = "the result" if call.a.dtype.name == "int8" else "x"
        raise DTypeError(f"bias has dtype {call.bias.dtype}; it must have the dtype of {whose}, {result.dtype}")


def activations_of(result: Layout) -> tuple[str, ...]:
    """Return the activations that support a result of this dtype: only ReLU for integers."""
    return ("relu",) if result.dtype.kind == "i" else tuple(ACTIVATIONS)


def _check_options(call: ConvCall) -> None:
    if call.activation is not None and (not isinstance(call.activation, str) or call.activation not in ACTIVATIONS):
        raise unknown("activation", call.activation, ACTIVATIONS, f"it is None, {', '.join(ACTIVATIONS)}")
    if call.beta and call.out is None:
        raise OptionError(f"beta={call.beta} scales and adds the values of out; pass out, or beta=0")
    if call.beta and call.a.dtype.name == "int8":
        raise OptionError(f"beta={call.beta} is not supported with int8; use beta=0")


def _check_whole(call: ConvCall, result: Layout) -> None:
    """Raise OptionError if alpha or an activation would turn sums of integers into other numbers."""
    if result.dtype.kind != "i":
        return
    if call.alpha != 1:
        raise OptionError(f'alpha={call.alpha} is not supported with int8 and int32 results; use out_dtype="float32"')
    if call.activation is not None and call.activation not in activations_of(result):
        raise OptionError(
            f"activation={shown(call.activation)} is not supported with int32 results, only relu is; "
            'use out_dtype="float32"'
        )


def _compute(call: ConvCall) -> tuple[str, str]:
    """Return `compute` and the accumulator's dtype of a call."""
    types = info(call.a.dtype).products
    assert types is not None
    allowed = types.compute + TRANSFORMS.get(call.a.dtype.name, ())
    compute = allowed[0] if call.compute is None else call.compute
    if compute not in allowed:
        given = shown(call.compute)
        raise OptionError(
            f"compute={given} is not supported with {call.a.dtype}; it is None or {', '.join(allowed)}"
            f"{nearest(compute, allowed)}"
        )
    return compute, types.accumulator


def _result(call: ConvCall, shape: tuple[int, ...]) -> Layout:
    """Return the layout of the result: that of out if given, else contiguous."""
    allowed = RESULTS[call.a.dtype.name]
    if call.out_dtype is not None:
        found, what = dtype(call.out_dtype, "out_dtype"), "out_dtype is"
    else:
        found, what = dtype(allowed[0]) if call.out is None else call.out.dtype, "out has dtype"
    if found.name not in allowed:
        raise DTypeError(f"{what} {found}; the result of {call.a.dtype} has dtype {' or '.join(allowed)}")
    made = layout(shape, row_major_strides(shape, int(found.itemsize)), found, call.a.device)
    if call.out is None:
        return made
    check_out((call.out,), (made,), ("out",))
    return call.out


def resolve(call: ConvCall) -> ConvProblem:
    """Check a call, and return it as a problem.

    Raises:
        ShapeError, DTypeError, OptionError, DeviceError: as the public functions document.
    """
    first, second = OPERANDS[call.direction]
    check_same_device(call.b, second, call.a, first)
    if call.bias is not None:
        check_same_device(call.bias, "bias", call.a, first)
    _check_dtypes(call)
    found = _geometry(call)
    _check_options(call)
    compute, accumulator = _compute(call)
    shape = {"forward": found.y_shape, "backward_data": found.x_shape, "backward_filter": found.w_shape}
    out = _result(call, shape[call.direction])
    _check_bias(call, found.filters, out)
    _check_whole(call, out)
    inputs = {"int8": "whole", "float64": "double", "float32": _INPUTS.get(compute)}.get(call.a.dtype.name) or "any"
    limit = WORKSPACE_LIMIT if call.workspace_limit is None else call.workspace_limit
    return ConvProblem(
        call=call,
        geometry=found,
        out=out,
        compute=compute,
        accumulator=accumulator,
        wants=Wants(call.deterministic, limit, inputs),
    )

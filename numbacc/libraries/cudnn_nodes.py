"""cuDNN's names for the operations of a graph: one row for each kind, and functions that set their attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from numbacc_bindings import cudnn as api
from numbacc_bindings.cudnn import AttributeName as Name
from numbacc_bindings.cudnn import AttributeType, DataType, DescriptorType

#: Name of a dtype -> cuDNN's number for it.
DATA_TYPES = {
    "float32": DataType.FLOAT,
    "float64": DataType.DOUBLE,
    "float16": DataType.HALF,
    "bfloat16": DataType.BFLOAT16,
    "float8_e4m3fn": DataType.FP8_E4M3,
    "float8_e5m2": DataType.FP8_E5M2,
    "int8": DataType.INT8,
    "uint8": DataType.UINT8,
    "int32": DataType.INT32,
    "int64": DataType.INT64,
    "bool": DataType.BOOLEAN,
}

#: A function (descriptor, attribute, value) that sets an attribute.
Put = Callable[[int, int, Any], None]


def put_dtype(descriptor: int, name: int, dtype: str) -> None:
    """Set an attribute to a dtype."""
    api.set_number(descriptor, name, AttributeType.DATA_TYPE, DATA_TYPES[dtype])


def put_int64(descriptor: int, name: int, value: int) -> None:
    """Set an attribute to one int64."""
    api.set_int64s(descriptor, name, (value,))


def _member(enum: type[IntEnum], kind: AttributeType) -> Put:
    return lambda descriptor, name, member: api.set_number(descriptor, name, kind, enum[member])


def _put_flip(descriptor: int, name: int, flip: bool) -> None:
    mode = api.ConvolutionMode.CONVOLUTION if flip else api.ConvolutionMode.CROSS_CORRELATION
    api.set_number(descriptor, name, AttributeType.CONVOLUTION_MODE, mode)


class Setting(NamedTuple):
    """An attribute that holds a setting of an operation.

    Attributes:
        name: the attribute.
        put: sets it.
        inner: whether it belongs to the descriptor that the operation holds, instead of the operation itself.
    """

    name: Name
    put: Put
    inner: bool = True


class NodeKind(NamedTuple):
    """A kind of operation.

    Attributes:
        operation: its descriptor.
        tensors: the attributes that hold its tensors, by the role names of a `Node`.
        inner: the descriptor of the computation, which the operation holds; None for operations without one.
        holder: the attribute that holds the inner descriptor.
        settings: the attributes that hold a node's settings.
    """

    operation: DescriptorType
    tensors: Mapping[str, Name]
    inner: DescriptorType | None = None
    holder: Name | None = None
    settings: Mapping[str, Setting] = {}


_WINDOW = {
    "stride": Setting(Name.CONVOLUTION_FILTER_STRIDES, api.set_int64s),
    "dilation": Setting(Name.CONVOLUTION_DILATIONS, api.set_int64s),
    "before": Setting(Name.CONVOLUTION_PRE_PADDINGS, api.set_int64s),
    "after": Setting(Name.CONVOLUTION_POST_PADDINGS, api.set_int64s),
    "flip": Setting(Name.CONVOLUTION_CONV_MODE, _put_flip),
    "math": Setting(Name.CONVOLUTION_COMP_TYPE, put_dtype),
}


def _convolution(operation: DescriptorType, holder: Name, alpha: Name, beta: Name, **tensors: Name) -> NodeKind:
    factors = {"alpha": Setting(alpha, api.set_double, False), "beta": Setting(beta, api.set_double, False)}
    return NodeKind(operation, tensors, DescriptorType.CONVOLUTION_DESCRIPTOR, holder, {**_WINDOW, **factors})


KINDS = {
    "convolve_forward": _convolution(
        DescriptorType.OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        Name.OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        Name.OPERATION_CONVOLUTION_FORWARD_ALPHA,
        Name.OPERATION_CONVOLUTION_FORWARD_BETA,
        x=Name.OPERATION_CONVOLUTION_FORWARD_X,
        w=Name.OPERATION_CONVOLUTION_FORWARD_W,
        y=Name.OPERATION_CONVOLUTION_FORWARD_Y,
    ),
    "convolve_backward_data": _convolution(
        DescriptorType.OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        Name.OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        Name.OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        Name.OPERATION_CONVOLUTION_BWD_DATA_BETA,
        dy=Name.OPERATION_CONVOLUTION_BWD_DATA_DY,
        w=Name.OPERATION_CONVOLUTION_BWD_DATA_W,
        y=Name.OPERATION_CONVOLUTION_BWD_DATA_DX,
    ),
    "convolve_backward_filter": _convolution(
        DescriptorType.OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        Name.OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        Name.OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        Name.OPERATION_CONVOLUTION_BWD_FILTER_BETA,
        x=Name.OPERATION_CONVOLUTION_BWD_FILTER_X,
        dy=Name.OPERATION_CONVOLUTION_BWD_FILTER_DY,
        y=Name.OPERATION_CONVOLUTION_BWD_FILTER_DW,
    ),
    "pointwise": NodeKind(
        DescriptorType.OPERATION_POINTWISE_DESCRIPTOR,
        {
            "x": Name.OPERATION_POINTWISE_XDESC,
            "b": Name.OPERATION_POINTWISE_BDESC,
            "t": Name.OPERATION_POINTWISE_TDESC,
            "y": Name.OPERATION_POINTWISE_YDESC,
        },
        DescriptorType.POINTWISE_DESCRIPTOR,
        Name.OPERATION_POINTWISE_PW_DESCRIPTOR,
        {
            "mode": Setting(Name.POINTWISE_MODE, _member(api.PointwiseMode, AttributeType.POINTWISE_MODE)),
            "math": Setting(Name.POINTWISE_MATH_PREC, put_dtype),
            "axis": Setting(Name.POINTWISE_AXIS, put_int64),
            "lower": Setting(Name.POINTWISE_RELU_LOWER_CLIP, api.set_double),
            "upper": Setting(Name.POINTWISE_RELU_UPPER_CLIP, api.set_double),
            "slope": Setting(Name.POINTWISE_RELU_LOWER_CLIP_SLOPE, api.set_double),
            "alpha1": Setting(Name.OPERATION_POINTWISE_ALPHA1, api.set_double, False),
            "alpha2": Setting(Name.OPERATION_POINTWISE_ALPHA2, api.set_double, False),
        },
    ),
    "reduce": NodeKind(
        DescriptorType.OPERATION_REDUCTION_DESCRIPTOR,
        {"x": Name.OPERATION_REDUCTION_XDESC, "y": Name.OPERATION_REDUCTION_YDESC},
        DescriptorType.REDUCTION_DESCRIPTOR,
        Name.OPERATION_REDUCTION_DESC,
        {
            "mode": Setting(
                Name.REDUCTION_OPERATOR, _member(api.ReduceTensorOp, AttributeType.REDUCTION_OPERATOR_TYPE)
            ),
            "math": Setting(Name.REDUCTION_COMP_TYPE, put_dtype),
        },
    ),
    "matmul": NodeKind(
        DescriptorType.OPERATION_MATMUL_DESCRIPTOR,
        {
            "a": Name.OPERATION_MATMUL_ADESC,
            "b": Name.OPERATION_MATMUL_BDESC,
            "y": Name.OPERATION_MATMUL_CDESC,
            "m": Name.OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
            "n": Name.OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
            "k": Name.OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
        },
        DescriptorType.MATMUL_DESCRIPTOR,
        Name.OPERATION_MATMUL_DESC,
        {
            "math": Setting(Name.MATMUL_COMP_TYPE, put_dtype),
            "padding": Setting(Name.MATMUL_PADDING_VALUE, api.set_double),
        },
    ),
    "reshape": NodeKind(
        DescriptorType.OPERATION_RESHAPE_DESCRIPTOR,
        {"x": Name.OPERATION_RESHAPE_XDESC, "y": Name.OPERATION_RESHAPE_YDESC},
    ),
    "bernoulli": NodeKind(
        DescriptorType.OPERATION_RNG_DESCRIPTOR,
        {
            "seed": Name.OPERATION_RNG_SEED,
            "offset": Name.OPERATION_RNG_OFFSET_DESC,
            "y": Name.OPERATION_RNG_YDESC,
        },
        DescriptorType.RNG_DESCRIPTOR,
        Name.OPERATION_RNG_DESC,
        {
            "distribution": Setting(
                Name.RNG_DISTRIBUTION, _member(api.RngDistribution, AttributeType.RNG_DISTRIBUTION)
            ),
            "p": Setting(Name.RNG_BERNOULLI_DIST_PROBABILITY, api.set_double),
        },
    ),
    "pages": NodeKind(
        DescriptorType.OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR,
        {
            "x": Name.OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC,
            "lengths": Name.OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC,
            "table": Name.OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC,
            "y": Name.OPERATION_PAGED_CACHE_LOAD_YDESC,
        },
    ),
}

"""A valid call of each function, its arguments by name, each with what kind of argument it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from fft_oracle import MANY, NORMS, ONE
from oracle import KINDS

import numbacc
from numbacc import conv, fft, gated, gemm
from numbacc.base import dtypes
from numbacc.random import Generator

from . import attention_calls, elementwise_calls
from .random import METHODS


class Argument(NamedTuple):
    """An argument of a call.

    Attributes:
        kind: what it is: a key of `wrong.MUTATIONS`.
        value: a valid one.
        required: whether Python asks for it.
        fixed: of an array: whether only this shape is right.
    """

    kind: str
    value: Any
    required: bool = False
    fixed: bool = True


class Call:
    """A call, and the operands among its arguments.

    Attributes:
        name, function: what is called.
        arguments: name -> Argument.
        operands: what must not change.
        random: a generator whose state must not change, or None.
        aliases: what a message may call an argument instead.
    """

    def __init__(self, case):
        self.case, self.place = case, case.place
        self.name, self.function, self.arguments, self.operands, self.random = "", None, {}, [], None
        case.pick(BUILDERS)(self, case)
        streamless = self.name in NO_STREAM or self.is_plan
        self.add("stream", "stream", None) if not streamless and case.chance(0.3) else None

    def of(self, name, function):
        self.name, self.function = name, function

    @property
    def is_plan(self):
        return self.name.endswith(".plan")

    def of_plan_or(self, name, function, chance=0.2):
        """The call is of a function, or of its plan's; return whether of the latter."""
        planned = self.case.chance(chance)
        self.of(f"{name}.plan" if planned else name, function.plan if planned else function)
        return planned

    def add(self, name, kind, value, required=False, fixed=True):
        self.arguments[name] = Argument(kind, value, required, fixed)

    def array(self, name, shape, dtype, kind="array", required=True, fixed=True):
        values = (2 * self.case.rng.standard_normal(shape)).astype(dtypes.dtype(dtype))
        operand = self.place.operand(values, margins=[(1, 1)] * max(len(shape), 1))
        self.operands.append(operand)
        self.add(name, kind, operand.view, required, fixed)
        return operand

    def maybe_out(self, shape, dtype):
        if self.case.chance(0.5):
            self.array("out", shape, dtype, "out", False)

    def device(self):
        """Where what has no array is made."""
        return None if self.place.is_device else "cpu"


def a_gated(call, case):
    direction, dtype = case.pick(["forward", "backward"]), case.pick(["float32", "float64", "float16", "bfloat16"])
    call.of_plan_or(f"gated.{direction}", getattr(gated, direction))
    if direction == "backward":
        call.array("dy", (3, 4), dtype)
    call.array("x", (3, 8), dtype, fixed=direction == "backward")
    call.add("kind", "option", case.pick(KINDS))
    call.add("axis", "axis", -1)
    call.add("gate", "option", "second")
    call.maybe_out((3, 4) if direction == "forward" else (3, 8), dtype)


def a_product(call, case):
    kind = case.pick([e.value for e in gemm.Epilogue]) if hasattr(gemm, "Epilogue") else "none"
    dtype, (m, n, k) = case.pick(["float32", "float64", "bfloat16"]), (3, 8, 4)
    planned = call.of_plan_or("gemm.matmul", gemm.matmul)
    call.array("a", (m, k), dtype, fixed=False)
    call.array("b", (k, n), dtype, fixed=False)
    call.add("epilogue", "option", kind)
    if kind.endswith("bias"):
        call.array("bias", (n,), dtype, required=False)
    if kind.startswith("drelu"):
        call.array("aux", (m, 1), "uint8", required=False)
    elif kind.startswith("dgelu"):
        call.array("aux", (m, n), dtype, required=False)
    if case.chance(0.3):
        call.array("c", (m, n), dtype, required=False)
        call.add("beta", "real", 0.5)
    if not planned:
        call.add("alpha", "real", 1.0)
    call.add("tune", "flag", False)
    call.add("workspace_limit", "limit", None)
    call.add("compute", "option or None", None)
    call.add("out_dtype", "dtype", None)
    call.maybe_out((m, n), dtype)


def a_narrow_product(call, case):
    """float8, with scales."""
    call.of("gemm.matmul", gemm.matmul)
    call.array("a", (3, 16), "float8_e4m3fn", fixed=False)
    transposed = call.place.operand(np.ones((32, 16)).astype(dtypes.dtype("float8_e4m3fn")))
    call.operands.append(transposed)
    call.add("b", "array", transposed.view.T, True, False)
    for name in ("scale_a", "scale_b"):
        call.add(name, "scale", case.pick([None, 2.0]))
    call.add("compute", "option or None", None)
    call.add("out_dtype", "dtype", None)


def a_layer(call, case):
    dtype = case.pick(["float32", "float64", "bfloat16"])
    which = case.pick(["linear", "mlp", "linear_backward", "mlp_backward"])
    call.of(f"gemm.{which}", getattr(gemm, which))
    if which.endswith("backward"):
        x, w, v = (call.place.put(np.ones(s).astype(dtypes.dtype(dtype))) for s in ((3, 4), (4, 8), (8, 4)))
        b, d = (call.place.put(np.ones(n).astype(dtypes.dtype(dtype))) for n in (8, 4))
        linear = which == "linear_backward"
        _, saved = gemm.linear(x, w, b, "relu") if linear else gemm.mlp(x, w, b, v, d)
        call.array("dy", (3, 8) if linear else (3, 4), dtype)
        call.add("saved", "saved", saved, True)
    else:
        call.array("x", (3, 4), dtype, fixed=False)
        if which == "linear":
            call.array("w", (4, 8), dtype)
            call.array("bias", (8,), dtype, required=False)
            call.add("activation", "option or None", case.pick([None, "relu", "gelu"]))
        else:
            for name, shape in (("w1", (4, 8)), ("b1", (8,)), ("w2", (8, 8)), ("b2", (8,))):
                call.array(name, shape, dtype)
            call.add("activation", "option", "gelu")
        call.maybe_out((3, 8), dtype)
    call.add("tune", "flag", False)


def a_convolution(call, case):
    direction, dtype = case.pick(["forward", "backward_data", "backward_filter"]), case.pick(["float32", "bfloat16"])
    call.of_plan_or(f"conv.{direction}", getattr(conv, direction))
    shapes = {"x": (2, 4, 6, 5), "w": (3, 4, 3, 2), "dy": (2, 3, 4, 4)}
    first, second, result = {
        "forward": ("x", "w", "dy"), "backward_data": ("dy", "w", "x"), "backward_filter": ("x", "dy", "w"),
    }[direction]  # fmt: skip
    call.array(first, shapes[first], dtype, fixed=direction != "forward")
    call.array(second, shapes[second], dtype, fixed=direction != "forward")
    if direction == "forward":
        if case.chance(0.5):
            call.array("bias", (3,), dtype, required=False)
        call.add("activation", "option or None", case.pick([None, "relu", "silu"]))
        call.add("out_dtype", "dtype", None)
    else:
        call.add(f"{result}_shape", "lengths", shapes[result], True)
    for name in ("stride", "dilation"):
        call.add(name, "steps", 1)
    call.add("padding", "zeros", case.pick([0, "valid", ((0, 0), 0)]))
    call.add("groups", "count", 1)
    call.add("layout", "option", "NCHW")
    call.add("alpha", "finite", case.pick([1.0, -0.5]))
    call.add("compute", "option or None", None)
    call.add("workspace_limit", "limit or 0", None)
    for name in ("flip", "tune", "deterministic"):
        call.add(name, "flag", False)
    call.maybe_out(shapes[result], dtype)


def a_convolution_without_arrays(call, case):
    """A shape, or a request."""
    is_request = case.chance(0.7)
    direction = case.pick(["forward", "backward_data", "backward_filter"])
    call.of(
        f"conv.{direction}.request" if is_request else "conv.output_shape",
        getattr(conv, direction).request if is_request else conv.output_shape,
    )
    for name, shape in (("x_shape", (2, 4, 6, 5)), ("w_shape", (3, 4, 3, 2))):
        call.add(name, "lengths", shape, True)
    for name in ("stride", "dilation"):
        call.add(name, "steps", 1)
    call.add("padding", "zeros", case.pick([0, "same", ((0, 2), 1)]))
    call.add("groups", "count", 1)
    call.add("layout", "option", "NCHW")
    if is_request:
        call.add(
            "dtype", "dtype", dtypes.dtype(case.pick(["float32", "float16", "int8"][: 2 + (direction == "forward")]))
        )
        call.add("alpha", "finite", 1.0)
        call.add("compute", "option or None", None)
        call.add("workspace_limit", "limit or 0", None)
        for name in ("flip", "deterministic", *["bias"] * (direction == "forward")):
            call.add(name, "flag", False)


def a_transform(call, case):
    function = case.pick(ONE + MANY)
    real = function.startswith(("rfft", "ihfft"))
    dtype = case.pick(["float32", "float64"] if real else ["complex64", "complex128"])
    call.of(f"fft.{function}", getattr(fft, function))
    call.array("a", (3, 4), dtype, fixed=False)
    if function in ONE:
        call.add("n", "count or None", case.pick([None, 4]))
        call.add("axis", "axis", -1)
    else:
        call.add("s", "counts", None)
        call.add("axes", "counts", (0, 1))
    call.add("norm", "option or None", case.pick(NORMS))
    call.add("overwrite_input", "flag", False)
    if function in ("fft", "ifft", "fftn", "ifftn"):
        call.maybe_out((3, 4), dtype)


def a_plan(call, case):
    function = case.pick(ONE[:2] + MANY[4:6])
    call.of(f"fft.{function}.plan", getattr(fft, function).plan)
    call.array("a", (3, 4), "complex64", fixed=False)
    call.add("norm", "option or None", None)
    call.add("overwrite_input", "flag", False)


def a_shift(call, case):
    which = case.pick(["fftshift", "ifftshift"])
    call.of(f"fft.{which}", getattr(fft, which))
    call.array("x", (3, 4), "float32", fixed=False)
    call.add("axes", "axes", None)
    call.maybe_out((3, 4), "float32")


def a_frequency(call, case):
    which = case.pick(["fftfreq", "rfftfreq"])
    call.of(f"fft.{which}", getattr(fft, which))
    call.add("n", "count", 8, True)
    call.add("d", "real", 1.0)
    call.add("device", "device", call.device())


def a_limit(call, case):
    call.of("fft.cache_limit", fft.cache_limit)
    call.add("count", "limit or 0", None)
    call.add("nbytes", "limit or 0", None)


def a_generator(call, case):
    call.of("Generator", Generator)
    call.add("kind", "option or seed", "philox")
    call.add("seed", "seed", 0)
    call.add("offset", "seed", 0)
    call.add("device", "device", call.device())
    call.add("dimensions", "count", 1)
    call.add("ordering", "option", "default")


def a_draw(call, case):
    name = case.pick([*METHODS, "spawn"])
    g = call.random = Generator(case.pick(["philox", "philox", "xorwow"]), device=call.device())
    call.of(f"Generator.{name}", getattr(g, name))
    if name == "spawn":
        call.add("n", "seed", 2, True)
        return
    values, dtype = METHODS[name](case)
    names = {"uniform": ("low", "high"), "integers": ("low", "high"), "dropout_mask": ("p",), "poisson": ("lam",),
             "normal": ("loc", "scale"), "lognormal": ("mean", "sigma")}.get(name, ())  # fmt: skip
    for parameter, value in zip(names, values, strict=True):
        kind = "bound" if name == "integers" else "finite"
        call.add(parameter, kind, value, parameter == "p" or (name == "integers" and parameter == "low"))
    call.add("size", "shape or None", (3, 4))
    call.add("dtype", "dtype", dtype)
    if name == "integers":
        call.add("endpoint", "flag", False)
    if dtype != "bool":
        call.maybe_out((3, 4), dtype)


def a_creation(call, case):
    names = "empty zeros full empty_like asarray array asnumpy from_dlpack stream release_memory"
    name = case.pick(names.split())
    call.of(f"numbacc.{name}", getattr(numbacc, name))
    if name in ("empty", "zeros", "full"):
        call.add("shape", "shape", (2, 3), True)
        if name == "full":
            call.add("fill_value", "fill", 1, True)
        call.add("dtype", "dtype", case.pick(["float32", "int8", "bfloat16"]))
        call.add("device", "device", call.device())
    elif name == "empty_like":
        call.array("obj", (2, 3), "float32", "any array")
        call.add("dtype", "dtype", None)
        call.add("device", "device", None)
    elif name in ("asarray", "array"):
        call.add("obj", "convertible", [[1.0, 2.0]], True)
        call.add("dtype", "dtype", "float32")
        call.add("device", "device", call.device())
        if name == "asarray" and case.chance(0.5):
            call.add("copy", "flag", True)
    elif name == "asnumpy":
        call.array("obj", (2, 3), "float32", "any array")
        if case.chance(0.5):
            call.add("out", "host out", np.zeros((2, 3), np.float32))
    elif name == "from_dlpack":
        call.array("obj", (2, 3), "float32", "any array")
    elif name == "release_memory":
        call.add("device", "name of a device", call.device())
    else:
        call.add("stream", "stream", None)


BUILDERS = (
    a_gated, a_gated, a_product, a_product, a_narrow_product, a_layer, a_convolution, a_convolution,
    a_convolution_without_arrays, a_transform, a_transform, a_plan, a_shift,
    a_frequency, a_limit, a_generator, a_draw, a_draw, a_draw, a_creation, a_creation, a_creation,
    *elementwise_calls.BUILDERS * 2, *attention_calls.BUILDERS,
)  # fmt: skip
#: What takes no stream, as plans do.
NO_STREAM = (
    "conv.forward.request", "conv.backward_data.request", "conv.backward_filter.request", "conv.output_shape",
    "fft.cache_limit", "Generator", "Generator.spawn", "numbacc.release_memory", "numbacc.stream",
    *attention_calls.NO_STREAM,
)  # fmt: skip

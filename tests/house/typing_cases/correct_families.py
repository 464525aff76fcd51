"""Correct programs with the families of functions, their plans, gradients and saved objects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import numbacc
from numbacc import attention, conv, cudnn, fft, gated, gemm
from numbacc import elementwise as ew
from numbacc.typing import Activation, Array, DeviceArray, GatedKind, NumPyArray, RegisteredKind

if TYPE_CHECKING:
    from typing_extensions import assert_type

    from numbacc.plan.base import Plan, PlanInfo
    from numbacc.plan.saved import Saved
else:
    PlanInfo = Saved = None

    def assert_type(value: Any, kind: Any) -> Any:
        return value


host = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
x = numbacc.asarray(host)

# gated
kind: GatedKind
for kind in gated.KINDS:
    gated.forward(x, kind)
y, saved = gated.forward(x, kind="geglu", return_saved=True)
assert_type(y, DeviceArray)
assert_type(saved, Saved)
assert_type(gated.backward(y, saved), DeviceArray)
assert_type(gated.forward.backward(y, saved), DeviceArray)
assert_type(gated.forward(host), NumPyArray)
assert_type(gated.forward((x, x), "swiglu", gate="first"), DeviceArray)
da, db = gated.backward(x, (x, x))
plan = gated.backward.plan(y, x, kind="geglu")
assert_type(plan.info, PlanInfo)
plan(y, x)
assert_type(plan.info.backend, str)
gated.register("sineglu", lambda b: b * math.sin(b))
gated.forward(x, RegisteredKind("sineglu"))


def forward(array: DeviceArray, saves: bool) -> Any:
    return gated.forward(array, return_saved=saves)


# elementwise
assert_type(ew.exp(x), DeviceArray)
assert_type(ew.exp(host, out=host.copy()), NumPyArray)
assert_type(ew.add(x, 2.0), DeviceArray)
assert_type(ew.add(1, host), NumPyArray)
assert_type(ew.where(x > 0, x, 0.0), DeviceArray)
assert_type(ew.clamp(x, min=0.0), DeviceArray)
assert_type(ew.multiply(x, x, out=x, where=x > 1), DeviceArray)
assert_type(ew.exp.backward(x, x), DeviceArray)
assert_type(ew.exp_backward(host, host), NumPyArray)
dx1, dx2 = ew.multiply_backward(x, x, x)
print(dx1.shape, dx2.shape, ew.exp.plan(x).info.algorithm, ew.exp.__name__)
leaky, kept = ew.leaky_relu(x, negative_slope=0.2, return_saved=True)
assert_type(ew.leaky_relu_backward(leaky, kept), DeviceArray)
assert_type(ew.softmax(x, axis=-1), DeviceArray)
p, kept = ew.softmax(x, return_saved=True)
assert_type(ew.softmax_backward(x, kept), DeviceArray)
assert_type(ew.sum(x, axis=(0, 1)), DeviceArray)
assert_type(ew.max(host, axis=0, keepdims=True), NumPyArray)
weight, bias = numbacc.full(8, 1.0), numbacc.zeros(8)
normed, kept = ew.layer_norm(x, weight, bias, return_saved=True)
dx, dweight, dbias = ew.layer_norm_backward(x, kept)
assert_type(ew.layer_norm_backward(x, x), DeviceArray)
assert_type(ew.rms_norm_backward(x, x, weight), tuple[DeviceArray, DeviceArray])
assert_type(ew.layer_norm_backward(x, x, weight, bias=True), tuple[DeviceArray, DeviceArray, DeviceArray])
target = numbacc.asarray(np.array([0, 1, 2, 3]))
assert_type(ew.cross_entropy(x, target, reduction="sum"), DeviceArray)
assert_type(ew.cross_entropy(x, target, return_stats=True), tuple[DeviceArray, DeviceArray])
loss, kept = ew.cross_entropy(x, target, return_saved=True)
loss, stats, kept = ew.cross_entropy(x, target, return_stats=True, return_saved=True)
assert_type(ew.cross_entropy_backward(1.0, kept), Any)
activation: Activation = "silu"
assert_type(ew.bias_activation(x, weight, activation=activation), DeviceArray)
assert_type(ew.concatenate([x, x], axis=1), DeviceArray)
assert_type(ew.stack([host, host]), NumPyArray)
assert_type(ew.arange(4), DeviceArray)
assert_type(ew.linspace(0, 1, 5, device="cpu"), NumPyArray)
cos, sin = ew.rope_tables(16, 8)
assert_type(cos, DeviceArray)
print(ew.cache_info(), ew.cache_limit(count=4096), ew.take(x, target, axis=1).shape)
dropped, kept = ew.dropout(x, 0.5, seed=7, return_saved=True)
assert_type(ew.dropout_backward(dropped, kept), DeviceArray)
assert_type(ew.astype(x, "float16"), DeviceArray)
assert_type(ew.one_hot(target, 10), DeviceArray)

# Plans return what their functions return.
assert_type(ew.exp.plan(x)(x), DeviceArray)
assert_type(ew.exp.plan(host)(host), NumPyArray)
assert_type(ew.softmax.plan(x)(x), DeviceArray)
assert_type(ew.sum.plan(host, axis=0)(host), NumPyArray)
assert_type(ew.multiply_backward.plan(x, x, x)(x, x, x), tuple[DeviceArray, ...])
assert_type(ew.cross_entropy.plan(x, target)(x, target), DeviceArray)
assert_type(gated.forward.plan(x)(x), DeviceArray)
assert_type(gated.backward.plan(y, x)(y, x), DeviceArray)
assert_type(gated.backward.plan(y, (y, y))(y, (y, y)), tuple[DeviceArray, DeviceArray])
either: Plan[Array] = ew.softmax.plan(x)
print(either.info.op)
parameter, gradient, first, second = (numbacc.zeros(3) for _ in range(4))
lists = [parameter], [gradient], [first], [second]
assert_type(ew.adamw_step(parameter, gradient, first, second, 1), tuple[DeviceArray, DeviceArray, DeviceArray])
assert_type(ew.adamw_step(*lists, 1)[0], list[DeviceArray])
ew.adamw_step.plan(*lists, 1)(*lists, 1, rate=0.1)

# gemm
w = numbacc.full((8, 3), 0.5)
assert_type(gemm.matmul(x, w, bias=numbacc.zeros(3), epilogue="gelu_bias"), DeviceArray)
assert_type(gemm.matmul(host, host.T, epilogue=gemm.Epilogue.RELU), Any)
with_aux = gemm.matmul(x, w, epilogue="relu_aux")
assert_type(gemm.matmul.plan(x, w)(x, w), DeviceArray)
print(with_aux.out.shape, with_aux.aux.dtype, gemm.matmul.plan(x, w, epilogue="relu_aux").info.backend)
out, aux = with_aux
print(gemm.matmul(x, w, epilogue="bgradb").bias_grad)
z, linear = gemm.linear(x, w, numbacc.zeros(3), "relu")
gradients = gemm.linear_backward(z, linear)
assert_type(gradients, tuple[DeviceArray, DeviceArray, DeviceArray | None])
assert_type(gemm.linear.backward(z, linear)[0], DeviceArray)

# attention
q = numbacc.zeros((1, 2, 4, 8))
assert_type(attention.forward(q, q, q, mask="causal"), DeviceArray)
assert_type(attention.forward.plan(q, q, q)(q, q, q), DeviceArray)
window = attention.SlidingWindow(2)
assert_type(attention.forward(q, q, q, mask=window, return_stats=True), tuple[DeviceArray, DeviceArray])
o, kept = attention.forward(q, q, q, layout="BHSD", return_saved=True)
dq, dk, dv = attention.backward(o, kept)
assert_type(dq, DeviceArray)
o, stats = attention.forward(q, q, q, return_stats=True)
assert_type(
    attention.forward.backward(o, q, q, q, o, stats, bias=numbacc.zeros((4, 4)), bias_grad=True),
    tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray],
)
request = attention.forward.request((2, 8, 64, 64), (2, 8, 64, 64), mask="causal", dtype="bfloat16")
print(request, attention.forward.plan(q, q, q).info.workspace_bytes)
if TYPE_CHECKING:
    # These ask cuDNN.
    print(cudnn.supports(request, "H200"), bool(attention.backward.supports((1, 1, 8, 8), (1, 1, 8, 8))))
    print(conv.forward.supports((1, 1, 8, 8), (1, 1, 3, 3), padding="same", device="H100"))

# conv
image, filters = numbacc.zeros((1, 2, 8, 8)), numbacc.zeros((4, 2, 3, 3))
assert_type(conv.forward(image, filters, padding="same", activation="relu"), DeviceArray)
assert_type(conv.forward.plan(image, filters)(image, filters), DeviceArray)
out, kept = conv.forward(image, filters, stride=2, padding=(1, 1), return_saved=True)
assert_type(conv.backward_data(out, kept), DeviceArray)
assert_type(conv.backward_filter(kept, out), DeviceArray)
assert_type(conv.forward.backward_data(out, filters, (1, 2, 8, 8), stride=2, padding=1), DeviceArray)
assert_type(conv.output_shape((1, 2, 8, 8), (4, 2, 3, 3)), tuple[int, ...])

# fft and random
signal = fft.rfft(x, norm="ortho")
assert_type(fft.irfft(signal, 8, norm="ortho"), DeviceArray)
assert_type(fft.fft2(host), NumPyArray)
assert_type(fft.rfft.plan(x)(x), DeviceArray)
print(fft.fft(host).real.sum(), fft.fft(x).imag[0, 0])
print(ew.take_backward(x, (4, 8), target, axis=0).shape)
assert_type(fft.fftshift(fft.fftfreq(8, device="cpu")), NumPyArray)
generator = numbacc.random.Generator("philox", seed=7)
noise = generator.normal(0.0, 1.0, (4, 8), dtype="float32")
assert_type(noise, DeviceArray)
assert_type(generator.normal(), "np.floating[Any]")
assert_type(generator.integers(10), "np.integer[Any]")
assert_type(generator.uniform(size=4), DeviceArray)
assert_type(generator.random(out=noise), DeviceArray)
on_host = numbacc.random.Generator(7, device="cpu")
assert_type(on_host.integers(10, size=(2, 3)), NumPyArray)
assert_type(on_host.spawn(1)[0].poisson(3.0, 5), NumPyArray)


def drawn_by(given: numbacc.random.Generator) -> tuple[int, ...]:
    shape: tuple[int, ...] = given.random(4).shape
    return shape


def drawn_on_gpu(given: numbacc.random.Generator[DeviceArray]) -> DeviceArray:
    return given.random(4)


print(drawn_by(generator), drawn_on_gpu(generator))
print(noise.shape, generator.state.kind, [child.device for child in generator.spawn(2)])


class Layer:
    """A layer as people write it in notebooks."""

    def __init__(self, width: int, kind: GatedKind = "swiglu"):
        self.kind: GatedKind = kind
        self.w = numbacc.asarray(np.random.default_rng(0).standard_normal((width, width), np.float32))
        self.saved: Saved | None = None

    def __call__(self, array: DeviceArray) -> DeviceArray:
        hidden = gemm.matmul(array, self.w)
        result, self.saved = gated.forward(hidden, self.kind, return_saved=True)
        return result

    def backward(self, dy: DeviceArray) -> DeviceArray:
        assert self.saved is not None
        return gated.backward(dy, self.saved) @ self.w.T


layer = Layer(8)
print(layer.backward(layer(x)).shape)
mode: Literal["mean", "sum"] = "mean"
total: Array = ew.cross_entropy(x, target, reduction=mode)
with numbacc.stream():
    ew.exp(x)
with numbacc.record() as log:
    ew.exp(x)
print(str(log.table()).count("exp"))
if numbacc.has_gpu():
    with numbacc.graph() as graph:
        ew.exp(x)
    graph.launch()

"""Wrong programs: options that do not exist, or do not have this value. Each line with an error says so."""

import numpy as np

import numbacc
from numbacc import attention, conv, fft, gated, gemm
from numbacc import elementwise as ew

host = np.ones((4, 8))
x = numbacc.asarray(host)
gated.forward(x, kind="gegluu")  # error: call-overload
gated.forward(x, "swiglu", gate="third")  # error: call-overload
gated.backward(x, x, "relu")  # error: call-overload
gated.backward.plan(x, x, kind="gegluu")  # error: call-overload
gated.forward.plan(x, "geglu", return_saved=True)  # error: call-overload
gated.forward(x, dim=1)  # error: call-overload
ew.softmax(x, dim=-1)  # error: call-overload
ew.softmax(x, axis="last")  # error: call-overload
ew.exp(x, y=2)  # error: call-overload
ew.exp.plan(x, stream=None)  # error: call-overload
ew.bias_activation(x, x, activation="rleu")  # error: call-overload
ew.cross_entropy(x, x, reduction="average")  # error: call-overload
ew.reduction(lambda a: a, merge="add")  # error: call-overload
gemm.matmul(x, x.T, epilogue="gelu_bia")  # error: call-overload
gemm.matmul(x, x.T, compute="tf23")  # error: call-overload
gemm.matmul.plan(x, x.T, epilogue="softmax")  # error: call-overload
gemm.linear(x, x.T, activation="tanh")  # error: call-overload
attention.forward(x, x, x, mask="casual")  # error: call-overload
attention.forward(x, x, x, layout="BSDH")  # error: call-overload
attention.forward(x, x, x, is_causal=True)  # error: call-overload
attention.forward.request((1, 1, 8, 8), (1, 1, 8, 8), layout="NHWC")  # error: arg-type
conv.forward(x, x, layout="NHCW")  # error: call-overload
conv.forward(x, x, padding="some")  # error: arg-type
conv.forward(x, x, activation="mish")  # error: call-overload
fft.fft(x, norm="orthogonal")  # error: call-overload
numbacc.random.Generator("phylox")  # error: call-overload
numbacc.random.Generator("philox", ordering="fast")  # error: call-overload
numbacc.zeros((2, 3), requires_grad=True)  # error: call-overload
numbacc.compiled(lambda x: x, warm_up=2)  # error: call-overload
numbacc.event().elapsed_time(1.0)  # error: arg-type
numbacc.stream(priority="high")  # error: arg-type

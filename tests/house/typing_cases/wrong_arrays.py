"""Wrong programs: results and arguments that are not what the code takes them for. Each line with an error says so."""

import numpy as np
import numpy.typing as npt

import numbacc
from numbacc import attention, gated, gemm
from numbacc import elementwise as ew
from numbacc.typing import DeviceArray

host = np.ones((4, 8))
x = numbacc.asarray(host)
ew.exp([1.0, 2.0])  # error: call-overload
ew.exp("x")  # error: call-overload
ew.add(x, "1")  # error: call-overload
gated.forward(3.0)  # error: call-overload
x + "1"  # error: operator
x + [1.0, 2.0]  # error: operator
x[host > 0]  # error: index
x.sum(axis="last")  # error: arg-type
x.reshape(8, 4, order="F")  # error: arg-type
wrong: npt.NDArray[np.float32] = ew.exp(x)  # error: assignment
other: DeviceArray = ew.exp(host)  # error: assignment
saved: DeviceArray = gated.forward(x, return_saved=True)  # error: assignment
gated.forward(x, return_saved=True).sum()  # error: attr-defined
o, stats, more = attention.forward(x, x, x, return_stats=True)  # error: misc
y: DeviceArray = gemm.matmul(x, x.T, epilogue="relu_aux")  # error: assignment
dx, dw = gemm.linear_backward(x, gemm.linear(x, x.T)[1])  # error: misc
ew.softmax_backward(x)  # error: call-overload
ew.kernel(3)  # error: call-overload
ew.concatenate(x)  # error: call-overload
drawn: DeviceArray = numbacc.random.Generator(7, device="cpu").normal(size=3)  # error: assignment
numbacc.random.Generator(7).normal(size=3).summ()  # error: attr-defined
ew.exp.plan(x)(x).copy_to_hosts()  # error: attr-defined
softmaxed: DeviceArray = ew.softmax.plan(host)(host)  # error: assignment
ew.kernel(lambda a: a + 1)("x")  # error: call-overload
ew.kernel(lambda a: a + 1)(x).summ()  # error: attr-defined
ew.reduction(lambda a: a * a)(x).summ()  # error: attr-defined
ew.reduction(lambda a: a * a)(x, dim=0, axis="last")  # error: arg-type
numbacc.asnumpy(x).copy_to_host()  # error: attr-defined

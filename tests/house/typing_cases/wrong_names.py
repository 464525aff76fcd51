"""Wrong programs: names that do not exist. Each line with an error says so."""

import numpy as np

import numbacc
from numbacc import attention, gated, gemm
from numbacc import elementwise as ew
from numbacc.gated import forwards  # error: attr-defined

x = numbacc.asaray(np.ones(3))  # error: attr-defined
y = numbacc.asarray(np.ones(3))
ew.softmaxx(y)  # error: attr-defined
gated.backwards(y, y)  # error: attr-defined
gemm.Epilogue.RELUU  # error: attr-defined
attention.SlidingWindows(3)  # error: attr-defined
y.summ()  # error: attr-defined
y.tolist()  # error: attr-defined
ew.exp.plam(y)  # error: attr-defined
ew.argmax.backward(y, y)  # error: attr-defined
ew.exp.plan(y).information  # error: attr-defined
ew.exp.plan(y).info.backends  # error: attr-defined
ew._FUNCTIONS  # error: attr-defined
gated._plans  # error: attr-defined

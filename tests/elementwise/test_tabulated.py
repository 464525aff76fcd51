"""Results of 16-bit numbers out of a table: where that is chosen, that bits are as of the direct way, and the PTX."""

from __future__ import annotations

import math

import numpy as np
import ptx
import pytest
from conftest import bits, sentinel
from skips import skip, skip_if

import numbacc
from numbacc import compiling
from numbacc import elementwise as ew
from numbacc.base import dtypes
from numbacc.base.dispatch import launcher_class, launching_by, simulated
from numbacc.base.layout import layout, row_major_strides
from numbacc.elementwise import operation
from numbacc.elementwise.rows import TABLE
from numbacc.functions.arithmetic import cbrt, exp, square_root
from numbacc.functions.symbolic import arithmetic_intensity
from numbacc.kernels import inspection
from numbacc.kernels.elementwise import geometry
from numbacc.kernels.specs import TABLE_BYTES
from numbacc.runtime.launch_order import Limits

HALVES = ("float16", "bfloat16")
LARGE = 2**26
#: What is looked up, of the table's functions of one array.
LONG = {
    "cbrt", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "angle", "elu", "selu", "celu",
    "softplus", "log_sigmoid", "tanhshrink", "softsign",
}  # fmt: skip
#: What has local memory: see `test_elementwise_ptx`.
ANGLES = {"sin", "cos", "tan"}


@ew.kernel
def capped(x, s):
    """s tanh(x / s)."""
    return s * math.atan(x / s)


@ew.kernel
def squared(x):
    return x * math.sqrt(x)


@ew.kernel
def both(x):
    return math.log(x), math.exp(x)


def orders(row, *given, out=None, addresses=None):
    """The launches of a function of layouts and types of numbers."""
    plan, found = operation.planned(row, given, out), []
    with launching_by(inspection.NotedOrder.into(found)):
        plan.choose(addresses or [0] * (len(plan.inputs) + len(plan.outputs)))
    return found


def dense(dtype, shape=(LARGE,), steps=None):
    info = dtypes.TABLE[dtype]
    strides = row_major_strides(shape, info.itemsize) if steps is None else tuple(n * info.itemsize for n in steps)
    return layout(shape, strides, info.numpy, 0)


def algorithm(*given, **more):
    (order,) = orders(*given, **more)
    return order.kernel.algorithm


def arguments(row, x):
    """An array, and numbers for options."""
    return [x] + [float] * (len(row.names) - 1)


# ---------------------------------------------------------------- which way is taken


def one_array():
    """The functions of one array of floats, that of truth values apart."""
    for name, entry in TABLE.items():
        row = entry.row
        if len(row.names) - row.options == 1 and "f" in row.meanings and row.rule != "bool":
            yield name, row


@pytest.mark.parametrize("dtype", HALVES)
def test_what_is_long_is_looked_up(dtype):
    found = {name for name, row in one_array() if algorithm(row, *arguments(row, dense(dtype))) == "tabulated"}
    assert found == LONG


def test_own_kernels_too():
    assert algorithm(capped._row, dense("float16"), float) == "tabulated"
    # Roots are a few instructions.
    assert algorithm(squared._row, dense("float16")) == "vector"
    assert algorithm(both._row, dense("float16")) == "vector"
    assert algorithm(TABLE["pow"].row, dense("bfloat16"), float) == "tabulated"
    assert "tabulated, 128-bit accesses" in capped.inspect(np.empty(LARGE, np.float16), 2.0).kernels[0].algorithm


@pytest.mark.parametrize(
    "given, more",
    [
        ((dense("float16", (geometry._TABLE_LEAST - 1,)),), {}),
        ((dense("float32"),), {}),
        ((dense("float16"),), {"out": (dense("float32"),)}),
        ((dense("float16", (2, LARGE), (LARGE + 8, 1)),), {}),
        ((dense("float16", (LARGE,), (0,)),), {"out": (dense("float16"),)}),
        ((dense("float16", (LARGE,), (2,)),), {}),
        ((dense("float16"),), {"addresses": [2, 0]}),
    ],
    ids=["small", "float32", "wider", "gaps", "one number", "strided", "aligned otherwise"],
)
def test_else_it_is_computed(given, more):
    assert algorithm(TABLE["log"].row, *given, **more) != "tabulated"


def test_they_are_compiled_ahead():
    ahead = set(compiling.kernels(["elementwise"]))
    for dtype in HALVES:
        (order,) = orders(TABLE["log"].row, dense(dtype))
        assert order.kernel.algorithm == "tabulated" and order.kernel in ahead


def test_two_arrays_are_computed():
    assert algorithm(TABLE["pow"].row, dense("float16"), dense("float16")) == "vector"


def test_gaps_that_are_none_are_one_row():
    assert algorithm(TABLE["log"].row, dense("float16", (256, LARGE // 256))) == "tabulated"
    assert algorithm(TABLE["log"].row, dense("float16"), addresses=[6, 6]) == "tabulated"


@pytest.mark.parametrize(
    "limits, grid, cluster",
    [
        (Limits(232448, 8, 132), 132, 2),
        (Limits(232448, 8, 148), 148, 2),
        (Limits(TABLE_BYTES, 1, 108), 108, 1),
        (Limits(TABLE_BYTES - 1, 1, 84), None, 1),
    ],
    ids=["H200", "B200", "A100", "no room"],
)
def test_blocks_stay_on_their_multiprocessors(monkeypatch, limits, grid, cluster):
    monkeypatch.setattr(inspection.NotedOrder, "limits", staticmethod(lambda device: limits))
    (order,) = orders(TABLE["log"].row, dense("float16"))
    if grid is None:
        assert order.kernel.algorithm == "vector"
        return
    assert (order.grid, order.cluster, order.shared, order.block) == ((grid, 1), cluster, TABLE_BYTES, (1024, 1))
    assert order.constants[-4:] == (cluster, LARGE, 0, LARGE // 8)


def test_what_is_long():
    """By what is called, however deep, once that is replaced by what kernels of the precision have."""

    def inside(x):
        return exp(x) + square_root(x)

    def outside(x):
        return inside(x) + math.floor(x)

    def deep(x):
        return inside(x) + cbrt(x)

    assert not arithmetic_intensity.is_long(inside, "float32", True) and not arithmetic_intensity.is_long(
        outside, "float32", True
    )
    assert arithmetic_intensity.is_long(deep, "float32", True)
    assert arithmetic_intensity.is_long(lambda x: math.lgamma(x), "float32", True)


# ---------------------------------------------------------------- results


@pytest.fixture
def looked_up(device_place, monkeypatch):
    """A function (whether results come out of a table) that settles it for arrays of any size."""

    def settle(is_table):
        monkeypatch.setattr(geometry, "_TABLE_LEAST", 1 if is_table else 2**62)
        if simulated() and is_table:
            monkeypatch.setattr(geometry, "_TABLE_THREADS", 64)
            monkeypatch.setattr(
                launcher_class(), "limits", staticmethod(lambda device: Limits(TABLE_BYTES, 1, 2)), raising=False
            )
        ew.cache_clear()

    yield settle
    monkeypatch.undo()
    ew.cache_clear()


def every(dtype, more=0, seed=0):
    """Every number of a dtype, in any order, and so many more."""
    found = np.random.default_rng(seed).permutation(2**16).astype(np.uint16)
    return np.concatenate([found, found[:more]]).view(dtypes.TABLE[dtype].numpy)


def check_both(place, looked_up, call, dtype, before, more):
    """That results have the same bits either way, of arrays that start so many elements behind 16 bytes."""
    x = place.operand(every(dtype, more), margins=[(before, 9)])
    found = []
    for is_table in (True, False):
        looked_up(is_table)
        out = place.empty(x.shape, x.values.dtype, margins=[(before, 9)])
        assert call(x.view, out=out.view) is out.view
        found.append(out.now())
        # What is not written would differ from what the direct way writes; a NaN may look like the sentinel.
        around = bits(place.get(out.base))
        assert (np.delete(around, np.s_[before : before + len(x.values)]) == bits(sentinel(out.values.dtype))).all()
    x.assert_untouched()
    np.testing.assert_array_equal(bits(found[0]), bits(found[1]))
    assert len(np.unique(bits(found[0]))) > 100


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", sorted(LONG - {"angle"}))
def test_bits_are_those_of_the_direct_way(device_place, looked_up, name, dtype):
    if device_place.is_slow:
        skip("slow")
    check_both(device_place, looked_up, getattr(ew, name), dtype, 3, 77)


@pytest.mark.parametrize("before, more", [(0, 0), (1, 6), (7, 2 * 1024 * 132 + 5)])
def test_ends_and_numbers_of_own_kernels(device_place, looked_up, before, more):
    if device_place.is_slow and (before, more) != (1, 6):
        skip("slow")
    check_both(device_place, looked_up, lambda x, out: capped(x, 3.0, out=out), "float16", before, more)


def test_indices_of_64_bits(device_place, looked_up, monkeypatch):
    """As arrays of 2^31 elements have them."""
    monkeypatch.setattr(geometry, "_needs_wide", lambda merged, chosen: True)
    check_both(device_place, looked_up, lambda x, out: capped(x, 3.0, out=out), "bfloat16", 1, 6)


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
def test_blocks_that_share_a_table(device_place, looked_up, monkeypatch, cluster):
    if device_place.is_slow:
        skip("slow")
    if cluster > launcher_class().limits(0).cluster:
        skip("clusters")
    monkeypatch.setattr(geometry, "_TABLE_CLUSTER", cluster)
    check_both(device_place, looked_up, ew.log, "bfloat16", 0, 2**22 + 3)


def test_in_place(device_place, looked_up):
    if device_place.is_slow:
        skip("slow")
    looked_up(False)
    x = every("bfloat16", 5)
    wanted = device_place.get(ew.log(device_place.put(x)))
    looked_up(True)
    y = device_place.put(x)
    assert ew.log(y, out=y) is y
    np.testing.assert_array_equal(bits(device_place.get(y)), bits(wanted))
    with pytest.raises(numbacc.LayoutError, match="overlaps x in part"):
        ew.log(y[8:], out=y[:-8])


def test_the_kernel_can_be_launched_on_arrays_aligned_otherwise(device_place, looked_up):
    """Element by element, as a capture does it where nothing may be compiled."""
    looked_up(True)
    values = every("float16", 11)
    x, out = device_place.operand(values, margins=[(1, 2)]), device_place.empty(values.shape, values.dtype)
    plan = ew.log.plan(device_place.put(values))
    order = plan.choose((0, 0)).launcher.order
    assert order.kernel.algorithm == "tabulated"
    wanted = device_place.get(plan(device_place.put(values)))
    places = x.view._address, out.view._address
    launcher = launcher_class()(geometry.for_any_alignment(order, [place % 16 for place in places]))
    assert not launcher.launch(0, 0, places, ())
    np.testing.assert_array_equal(bits(out.now()), bits(wanted))


# ---------------------------------------------------------------- what is compiled


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("name, dtype", [("log", "float16"), *((name, "bfloat16") for name in sorted(LONG))])
@pytest.mark.sampled(1)
def test_ptx(name, dtype):
    row = TABLE[name].row
    (order,) = orders(row, *arguments(row, dense(dtype)))
    found = ptx.compiled(order.kernel)
    # Accesses of 16 bytes, all of a thread's under way before the first element is looked up.
    loads = [access.nbytes for access in found.accesses if access.operation == "ld" and access.space != "local"]
    first = loads.index(16)
    assert loads[first : first + 5] == [16] * 4 + [2]
    assert {access.nbytes for access in found.accesses if access.space == "shared" and access.operation == "ld"} == {2}
    assert "st.shared::cluster.v4.b32" in found.text and "mapa" in found.text
    if name not in ANGLES:
        assert "local" not in {access.space for access in found.accesses}
    if ptx.ptxas():
        registers, spilled = found.usage((9, 0))
        assert registers <= 64 and not spilled


@skip_if(simulated(), "not simulated")
def test_ptx_of_older_gpus():
    """They have no clusters."""
    (order,) = orders(TABLE["log"].row, dense("float16"))
    text = ptx.compiled(order.kernel, (8, 0)).text
    assert "cluster" not in text and "mapa" not in text and "st.shared.v4.b32" in text

"""Plans of matrix products: what they say, that they do the same, and their caches."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused
from gemm_call import BY_COLUMNS, DTYPES, EPILOGUES, PADDED, Call, combinations

import numbacc
from numbacc import gemm
from numbacc.base.dispatch import runtime
from numbacc.errors import LayoutError, OptionError

pytestmark = pytest.mark.usefixtures("poison")

SHAPE = (3, 8, 4)


@combinations(5, kind=EPILOGUES, dtypes={name: DTYPES[name] for name in ("float32", "bfloat16", "float64")})
def test_a_plan_gives_the_same_bits_as_the_function(place, kind, dtypes):
    """Called again and again, with other memory laid out alike; and the same, written to `out`."""
    for options in ({}, {"layouts": {"out": PADDED, "c": BY_COLUMNS}, "beta": 0.5}):
        plan = Call(place, SHAPE, kind, *dtypes, **options).plan()
        for seed in range(1 if place.is_slow else 3):
            call = Call(place, SHAPE, kind, *dtypes, seed=seed, **options)
            one = call.results(call.run())
            arguments = {k: v for k, v in call.arguments.items() if k not in ("epilogue", "out_dtype", "compute")}
            two = call.results(plan(**arguments))
            for first, second in zip(one, two, strict=True):
                assert first is second is None or first.tobytes() == second.tobytes()
            call.verify(plan(**arguments))


@pytest.mark.parametrize("kind", EPILOGUES)
@pytest.mark.parametrize("dtypes", DTYPES.values(), ids=DTYPES)
def test_info(place, kind, dtypes):
    dtype, out_dtype, compute = dtypes
    info = Call(place, SHAPE, kind, *dtypes).plan().info
    uses = gemm.Epilogue(kind)
    assert info.op == f"gemm.matmul.{kind}"
    aux = "uint8" if uses.activation == "relu" else out_dtype
    read = [out_dtype] * uses.uses_bias + [aux] * uses.uses_aux
    written = [out_dtype, *[aux] * uses.produces_aux, *[out_dtype] * uses.produces_bias_grad]
    assert info.dtypes == (dtype, dtype, *read, *written)
    assert info.math_dtype == (compute or ("float64" if dtype == "float64" else "float32"))
    assert info.accumulator_dtype == ("float64" if dtype == "float64" else "float32")
    assert info.deterministic is True
    assert info.algorithm and 0 <= info.workspace_bytes <= 32 * 2**20
    backends = {
        "numpy": {"numpy"},
        "simulator": {"simulator" if kind == "none" else "simulator+kernel"},
        "gpu": {"cublasLt"} if kind == "none" else {"cublasLt", "cublasLt+kernel"},
    }
    assert info.backend in backends[place.name]
    # It has all of these; but these rows of aux do not start where it wants them, and it adds up columns of A only.
    if place.name == "gpu" and dtype != "float64" and not uses.uses_aux and kind != "bgrada":
        assert info.backend == "cublasLt"
    if place.name == "gpu" and dtype == "float64" and "gelu" in kind:
        assert info.backend == "cublasLt+kernel"  # whose own GELU is float32's


def test_info_of_c_and_of_an_empty_result(place):
    assert Call(place, SHAPE, beta=1.0).plan().info.dtypes == ("float32",) * 4
    info = Call(place, (0, 8, 4), "gelu_bias").plan().info
    assert info.workspace_bytes == 0 and info.algorithm


def test_a_plan_rejects_other_arrays(place):
    call = Call(place, SHAPE, "bias")
    plan, given = call.plan(), {k: v for k, v in call.arguments.items() if k in ("a", "b", "bias")}
    others = {
        "shape": Call(place, (4, 8, 4), "bias"),
        "dtype": Call(place, SHAPE, "bias", "float64"),
        "order": Call(place, SHAPE, "bias", layouts={"a": BY_COLUMNS}),
    }
    for other in others.values():
        refused(LayoutError, "plan", "a", run=lambda other=other: plan(**{**given, "a": other.arguments["a"]}))
    extra = place.put(np.ones((3, 8), np.float32))
    for more, name in (
        ({"bias": None}, "bias"),
        ({"aux": extra}, "aux"),
        ({"out": extra}, "out"),
        ({"c": extra, "beta": 1.0}, "c"),
        ({"scale_a": 2.0}, "scale_a"),
    ):
        refused(LayoutError, "plan", name, run=lambda more=more: plan(**{**given, **more}))
    refused(OptionError, "beta", "plan", run=lambda: plan(**given, beta=1.0))
    with_c = Call(place, SHAPE, beta=1.0)
    arguments = {k: v for k, v in with_c.arguments.items() if k in "abc"}
    refused(OptionError, "beta", "plan", run=lambda: with_c.plan()(**arguments))


def test_a_plan_takes_any_alpha_and_any_beta_but_0(place):
    call = Call(place, SHAPE, beta=1.0)
    plan, given = call.plan(), {k: v for k, v in call.arguments.items() if k in "abc"}
    for alpha, beta in ((2.0, -1.0), (0.0, 0.5)):
        call.inputs = call.inputs._replace(alpha=alpha, beta=beta)
        call.verify(plan(**given, alpha=alpha, beta=beta))


def test_a_plan_outlives_the_cache_of_layouts(place):
    from numbacc.base.layout import layout

    plan = Call(place, SHAPE).plan()
    layout.cache_clear()
    call = Call(place, SHAPE)
    call.verify(plan(call.arguments["a"], call.arguments["b"]))


def test_the_cache_of_plans(place):
    call = Call(place, SHAPE, "bias")
    gemm.cache_clear()
    assert gemm.cache_info()[:2] == (0, 0)
    assert gemm.algorithms() == []
    call.run()
    call.run()
    info = gemm.cache_info()
    assert (info.hits, info.misses, info.currsize) == (1, 1, 1)
    assert info.maxsize >= 1
    assert call.plan() is call.plan()
    assert gemm.cache_info().currsize == 1
    gemm.cache_clear()
    assert gemm.cache_info().currsize == 0


def test_names_and_members_of_epilogues_are_one(place):
    call = Call(place, SHAPE, "relu")
    one, two = (call.results(call.run(epilogue=kind))[0] for kind in ("relu", gemm.Epilogue.RELU))
    np.testing.assert_array_equal(one, two)


@pytest.mark.gpu
def test_algorithms_say_what_for():
    gemm.cache_clear()
    a, b = (numbacc.asarray(np.ones(shape, np.float32)) for shape in ((64, 32), (32, 48)))
    gemm.matmul(a, b, bias=numbacc.asarray(np.ones(48, np.float32)), epilogue="bias", workspace_limit=1 << 20)
    ((choice, algorithm),) = gemm.algorithms()
    assert choice.product.epilogue == "BIAS" and choice.product.d.dtype == "float32"
    assert (choice.product.d.rows, choice.product.d.columns, choice.limit) == (48, 64, 1 << 20)
    assert choice.capability == runtime().capability(0)
    assert algorithm.workspace_bytes <= 1 << 20 and algorithm.text
    gemm.cache_clear()
    assert gemm.algorithms() == []

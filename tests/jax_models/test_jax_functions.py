"""Functions of `numbacc.jax` against the same in jax.numpy: values, gradients, batches, errors, threads, processes."""

import doctest
import math
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from paths import ROOT
from skips import needed, skip

jax = needed("jax", "jax")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402
from jax_cases import CASES, arrays  # noqa: E402

import numbacc  # noqa: E402
import numbacc.jax as nj  # noqa: E402
from numbacc import bridges  # noqa: E402
from numbacc import elementwise as ew  # noqa: E402
from numbacc.jax import calls, ffi  # noqa: E402

#: JAX's name of a device.
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: Errors that are allowed, relative to the largest value: a few units of the last digit.
ERRORS = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.fixture(autouse=True)
def place(request):
    """Run on the test's device, with float64."""
    kind = request.node.callspec.params.get("device", "cpu") if hasattr(request.node, "callspec") else "cpu"
    try:
        device = jax.devices(kind)[0]
    except RuntimeError:
        skip("jax with a gpu")
    with jax.enable_x64(True), jax.default_device(device), jax.default_matmul_precision("highest"):
        yield


@pytest.fixture
def unoptimized():
    """XLA compiles twice as fast where it leaves most optimizations out, on a CPU."""
    jax.config.update("jax_disable_most_optimizations", jax.default_backend() == "cpu")
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def close(found, wanted, error):
    assert found.shape == wanted.shape
    wanted = np.asarray(wanted, np.float64)
    distance = np.abs(np.asarray(found, np.float64) - wanted).max(initial=0.0)
    assert distance <= error * max(1.0, np.abs(wanted).max(initial=0.0)), distance


def gradients(function, given, slope=None):
    y, pull = jax.vjp(function, *given)
    slope = jnp.cos(jnp.arange(y.size, dtype=jnp.float64)).reshape(y.shape) if slope is None else slope
    return y, *pull(slope.astype(y.dtype))


# ---------------------------------------------------------------- values and gradients


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_differences(name, device):
    check_grads(CASES[name].ours, arrays(CASES[name], "float64"), order=1, modes=["rev"], rtol=1e-5, atol=1e-5)


@pytest.mark.each_alone
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_jax(name, dtype, device):
    """JAX computes in float64, from the same rounded numbers; numbacc is compiled, and runs three times."""
    case, given = CASES[name], arrays(CASES[name], dtype)
    ours, wanted = jax.jit(lambda *t: gradients(case.ours, t)), None
    for _ in range(3):
        found = ours(*given)
        assert found[0].dtype == ("float32" if "cross_entropy" in name and dtype != "float64" else dtype)
        if wanted is None:
            slope = jnp.cos(jnp.arange(found[0].size, dtype=jnp.float64)).reshape(found[0].shape)
            theirs = jax.jit(lambda slope, *t: gradients(case.theirs, t, slope))
            wanted = theirs(slope.astype(found[0].dtype), *(each.astype("float64") for each in given))
        for k, (one, other) in enumerate(zip(found, wanted, strict=True)):
            close(one, other, (1 + bool(k)) * ERRORS[dtype])
        for one, x in zip(found[1:], given, strict=True):
            assert one.dtype == x.dtype


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_without_jit(name, device, unoptimized):
    """Every operation is dispatched on its own."""
    case, given = CASES[name], arrays(CASES[name], "float32")
    wanted = jax.jit(lambda *t: gradients(case.theirs, t))(*given)
    for one, other in zip(gradients(case.ours, given), wanted, strict=True):
        close(one, other, 2 * ERRORS["float32"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_batches(name, device, unoptimized):
    """All arrays have a batch, or the first, or the last; in the gradients of a batch, and a batch of gradients."""
    case, given = CASES[name], arrays(CASES[name], "float64", (3,))
    every = tuple(range(len(given)))
    batches = dict.fromkeys(((*every,), (0,), (len(given) - 1,)))
    axes = [tuple(0 if k in chosen else None for k in every) for chosen in batches]

    def parts(*t):
        return [[x if k in chosen else x[0] for k, x in enumerate(t)] for chosen in batches]

    def slopes(f):
        """Return the function of the gradients of each part of a batch."""
        return jax.grad(lambda *t: jnp.sin(f(*t)).sum(), every)

    def pulled(*t):
        return [gradients(jax.vmap(case.ours, a), here) for a, here in zip(axes, parts(*t), strict=True)]

    # JAX's are computed part by part: one function is compiled for all three.
    theirs = jax.jit(lambda slope, *t: (gradients(case.theirs, t, slope), slopes(case.theirs)(*t)))
    for chosen, a, found, here in zip(batches, axes, jax.jit(pulled)(*given), parts(*given), strict=True):
        slope = jnp.cos(jnp.arange(found[0].size, dtype=jnp.float64)).reshape(found[0].shape)
        each = [theirs(slope[n], *(x[n] if k in chosen else x for k, x in enumerate(here))) for n in range(3)]
        (y, *wanted), own = (jax.tree.map(lambda *t: jnp.stack(t), *group) for group in zip(*each, strict=True))
        # Gradients of an array without a batch are added up.
        wanted = [x if k in chosen else x.sum(0) for k, x in enumerate(wanted)]
        made = (*found, *jax.vmap(slopes(case.ours), a)(*here))
        for one, other in zip(made, (y, *wanted, *own), strict=True):
            close(one, other, ERRORS["float64"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["gated", "linear, gelu", "attention, bias", "softmax", "cross_entropy", "layer_norm"])
def test_batches_of_batches(name, device, unoptimized):
    case, given = CASES[name], arrays(CASES[name], "float64", (2, 3))
    given = [jnp.moveaxis(each, 1, 2) for each in given]
    found = jax.vmap(jax.vmap(case.ours, 1), 0)(*given)
    wanted = jax.jit(jax.vmap(jax.vmap(case.theirs, 1), 0))(*given)
    close(found, wanted, ERRORS["float64"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["gated", "linear", "attention", "conv2d", "rms_norm", "cross_entropy"])
def test_remat_and_scan(name, device, unoptimized):
    case, given = CASES[name], arrays(CASES[name], "float64")
    plain = jax.jit(lambda *t: gradients(case.theirs, t))(*given)
    for one, other in zip(jax.jit(lambda *t: gradients(jax.checkpoint(case.ours), t))(*given), plain, strict=True):
        close(one, other, ERRORS["float64"])

    def looped(f):
        return lambda x, *rest: jax.lax.scan(lambda s, k: (s + f(x * k, *rest).sum(), None), 0.0, jnp.arange(3.0))[0]

    for one, other in zip(gradients(looped(case.ours), given), gradients(looped(case.theirs), given), strict=True):
        close(one, other, ERRORS["float64"])


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_that_are_the_same_or_transposed(device):
    q = jnp.asarray(np.random.default_rng(2).standard_normal((1, 2, 5, 8)))
    theirs = CASES["attention"].theirs
    for _ in range(2):
        for given in ((q, q, q), (q, q + 1, q + 1), (q, q + 1, q + 2)):
            close(jax.jit(nj.attention)(*given), theirs(*given), ERRORS["float64"])
    x = jnp.asarray(np.random.default_rng(3).standard_normal((6, 4)))
    close(jax.jit(lambda x: nj.softmax(x.T[:, ::2]))(x), jax.nn.softmax(x.T[:, ::2], -1), ERRORS["float64"])


@pytest.mark.parametrize("device", DEVICES)
def test_empty_arrays(device):
    for _ in range(2):
        assert jax.jit(nj.gated)(jnp.ones((0, 8))).shape == (0, 4)
        assert nj.softmax(jnp.ones((0, 8))).shape == (0, 8)
        assert jax.grad(lambda x: nj.gated(x).sum())(jnp.ones((0, 8))).shape == (0, 8)


def test_without_float64():
    """The offsets of dropout are int64, which JAX does not support then."""
    with jax.enable_x64(False):
        x = jnp.ones((50, 50))
        y = nj.dropout(x, 0.5, key=jax.random.key(1))
        assert y.dtype == jnp.float32 and 0.4 < (y == 0).mean() < 0.6
        close(nj.softmax(x), jnp.full_like(x, 1 / 50), 1e-6)


# ---------------------------------------------------------------- derivatives that are not there, and wrong arguments


def test_other_derivatives_raise_errors():
    x = jnp.ones((3, 8))
    for name, function in (("softmax", nj.softmax), ("gated", nj.gated)):
        words = rf"numbacc\.jax\.{name} has no second derivatives"
        total = lambda x, f=function: jnp.sin(f(x)).sum()  # noqa: E731
        for twice in (jax.hessian(total), jax.grad(lambda x, t=total: jnp.sin(jax.grad(t)(x)).sum())):
            with pytest.raises(numbacc.UnsupportedError, match=words):
                twice(x)
        with pytest.raises(TypeError, match="forward-mode"):
            jax.jvp(function, (x,), (x,))


@pytest.mark.parametrize("jit", [jax.jit, lambda f: f])
def test_wrong_arguments(jit):
    x = jnp.ones((3, 8), jnp.float32)
    for error, words, run in (
        (TypeError, "int32", lambda: nj.gated(x.astype(jnp.int32))),
        (TypeError, "weight has dtype bfloat16", lambda: nj.linear(x, jnp.ones((2, 8), jnp.bfloat16))),
        (ValueError, r"weight has shape \(2, 9\)", lambda: nj.linear(x, jnp.ones((2, 9), jnp.float32))),
        (ValueError, "activation is 'tanh'", lambda: nj.linear(x, x, activation="tanh")),
        (ValueError, "3 arrays", lambda: nj.gated((x, x, x))),
        (ValueError, "odd", lambda: nj.gated(x[:, :7])),
        (ValueError, "rank 2", lambda: nj.conv(x, x)),
        (TypeError, "complex64", lambda: nj.softmax(x.astype(jnp.complex64))),
        (TypeError, "mask is an array", lambda: nj.attention(x, x, x, mask=jnp.ones((3, 3), bool))),
        (ValueError, "mask is 'diagonal'", lambda: nj.attention(x, x, x, mask="diagonal")),
        (TypeError, "dropout needs key=", lambda: nj.dropout(x, 0.5)),
        (ValueError, "kind='silu' is unknown", lambda: nj.gated(x, "silu")),
        (TypeError, "float8_e3m4", lambda: nj.softmax(x.astype(jnp.float8_e3m4))),
    ):
        with pytest.raises(error, match=words):
            jit(run)()


@pytest.mark.parametrize("device", DEVICES)
def test_an_error_of_a_run_is_jaxs(device):
    described = ffi.Description("gated", (True,), ("swiglu", -1, "second"))
    wrong = jax.ffi.ffi_call(ffi.TARGET, jax.ShapeDtypeStruct((4, 3), jnp.float32))
    ffi.register_gpu()
    for _ in range(2):
        with pytest.raises(Exception, match=r"ShapeError: out has shape \(4, 3\); the result has shape \(4, 4\)"):
            jax.jit(lambda x: wrong(x, **ffi.attributes(described)))(jnp.ones((4, 8), jnp.float32)).block_until_ready()


def test_a_kernel_of_another_process():
    """JAX may keep compiled functions on disk, which refer to a kernel by its digest."""
    described = ffi.Description("own_square_0123", (True,), ((0.0,), ()))
    run = jax.ffi.ffi_call(ffi.TARGET, jax.ShapeDtypeStruct((4,), jnp.float32))
    with pytest.raises(Exception, match=r"own_square_0123.*numbacc\.jax\.wrap"):
        jax.jit(lambda x: run(x, **ffi.attributes(described)))(jnp.ones(4, jnp.float32)).block_until_ready()


def test_versions_of_the_ffi():
    ffi.check_version()
    for wrong in ((1, 0), (0, 99), ()):
        with pytest.raises(ImportError, match=r"versions 0\.3 and 0\.4"):
            ffi._check_version(wrong)


def test_options_survive_their_text():
    described = ffi.Description("attention", (True, False), ("window", 3, 0.1 + 0.2, math.inf, None, (1, 2), True))
    assert ffi._described(ffi.attributes(described)["call"]) == described
    x = jnp.ones((3, 4))
    close(nj.softmax(x, axis=np.int64(0)), jnp.full_like(x, 1 / 3), 1e-12)


def test_every_call_has_a_batch_rule_or_none():
    """And no two calls share a name with different meanings."""
    from numbacc.jax import functions

    made = [each for each in vars(functions).values() if isinstance(each, calls.Call)]
    others = {"softmax", "softmax_backward", "log_softmax", "log_softmax_backward", "cross_entropy_share"}  # torch's
    assert {each.name for each in made} | others == {name for name in bridges.CALLS if not name.startswith("own_")}
    assert {each.name for each in made if each._batch is None} == {
        "conv_backward_filter",
        "dropout",
        "linear_cross_entropy",
    }


# ---------------------------------------------------------------- threads, other processes


@pytest.mark.parametrize("device", DEVICES)
def test_threads(device):
    """Each thread calls functions with other shapes."""
    wrong = []

    def work(n):
        try:
            with jax.enable_x64(True):
                x = jnp.asarray(np.random.default_rng(n).standard_normal((n + 2, 8)), jnp.float32)
                w = jnp.asarray(np.random.default_rng(n).standard_normal((4, 8)), jnp.float32)
                for _ in range(10):
                    close(jax.jit(nj.softmax)(x), jax.nn.softmax(x, -1), 1e-5)
                    close(jax.jit(nj.linear)(x, w), x @ w.T, 1e-4)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong, wrong[0]


EXIT = """
import jax, jax.numpy as jnp, numbacc.jax as nj
f = jax.jit(lambda x: sum(nj.gated(x + k) for k in range(20)))
f(jnp.ones((64, 256)))  # not waited for
"""


@pytest.mark.parametrize("device", DEVICES)
def test_the_interpreter_may_exit_while_calls_run(device):
    run = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


SHARDED = """
import jax, jax.numpy as jnp, numpy as np, numbacc.jax as nj
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
count = len(jax.devices())
mesh = Mesh(np.array(jax.devices()), ("d",))
x = jnp.asarray(np.random.default_rng(0).standard_normal((4 * count, 16)), jnp.float32)
w = jnp.asarray(np.random.default_rng(1).standard_normal((8, 16)), jnp.float32)
spread = jax.device_put(x, NamedSharding(mesh, P("d")))
def loss(x, w):
    return jnp.sin(nj.linear(nj.softmax(x), w, activation="relu")).sum()
def plain(x, w):
    return jnp.sin(jax.nn.relu(jax.nn.softmax(x) @ w.T)).sum()
wanted = jax.value_and_grad(plain, (0, 1))(x, w)
def parts(x, w):
    return jax.lax.psum(loss(x, w), "d")
ways = {
    "jit": jax.jit(loss),
    "shard_map": jax.jit(jax.shard_map(parts, mesh=mesh, in_specs=(P("d"), P()), out_specs=P())),
    "pmap": lambda x, w: jax.pmap(loss, in_axes=(0, None))(x.reshape(count, 4, 16), w).sum(),
}
for _ in range(3):
    for name, way in ways.items():
        for one, other in zip(jax.tree.leaves(jax.value_and_grad(way, (0, 1))(spread, w)), jax.tree.leaves(wanted)):
            np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3, err_msg=name)
print(count)
"""


def sharded(platform, **environment):
    """Run a function on all of JAX's devices, in a new process; return their number."""
    environment = {**os.environ, "JAX_PLATFORMS": platform, **environment}
    run = subprocess.run([sys.executable, "-c", SHARDED], capture_output=True, text=True, timeout=300, env=environment)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


def test_several_devices():
    assert sharded("cpu", XLA_FLAGS="--xla_force_host_platform_device_count=4") == 4


@pytest.mark.gpu
def test_several_gpus():
    assert sharded("cuda") == len(jax.devices("cuda"))


CACHED = """
import sys, jax, jax.numpy as jnp
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
import numbacc, numbacc.jax as nj
for _ in range(int(sys.argv[2])):  # other kernels first
    nj.wrap(numbacc.elementwise.kernel(lambda x: x * 7))
square = nj.wrap(numbacc.elementwise.kernel(lambda x: x * x))
print(jax.jit(lambda x: square(x) + nj.softmax(x))(jnp.arange(3.0)).tolist())
"""


def test_a_compiled_function_from_disk(tmp_path):
    """In another process, where kernels are wrapped in another order."""
    found = [
        subprocess.run([sys.executable, "-c", CACHED, str(tmp_path), n], capture_output=True, text=True, check=True)
        for n in ("0", "3")
    ]
    assert list(tmp_path.iterdir())
    assert found[0].stdout == found[1].stdout
    wanted = np.arange(3.0) ** 2 + np.exp(np.arange(3.0)) / np.exp(np.arange(3.0)).sum()
    np.testing.assert_allclose(eval(found[0].stdout), wanted, rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES[1:])
def test_calls_that_run_without_python(device, monkeypatch):
    """Kernels and calls of libraries, also with scratch memory; their results stay right at other addresses."""
    given = {
        name: arrays(CASES[name], "float32") for name in ("gated", "linear, gelu", "rms_norm", "layer_norm", "conv2d")
    }
    given["attention"] = arrays(CASES["attention"], "bfloat16")
    compiled = {name: jax.jit(lambda *t, f=CASES[name].ours: gradients(f, t)) for name in given}
    for name, run in compiled.items():
        for _ in range(2):
            jax.block_until_ready(run(*given[name]))
    gpu = next(each for each in ffi._kept if isinstance(each, ffi._GpuHandler))
    seen = []
    before = ffi._KnownCall.run
    monkeypatch.setattr(ffi._KnownCall, "run", lambda self, words: seen.append(self._plan.op) or before(self, words))
    for name, run in compiled.items():
        moved = [each * 1.25 for each in given[name]]
        held = jnp.ones(12345)  # so that results have other addresses
        for one, other in zip(run(*moved), gradients(CASES[name].theirs, moved), strict=True):
            close(one, other, 6e-2 if name == "attention" else 2e-4)
        del held
    # cuDNN's gradients of attention and convolutions may consist of several plans.
    assert gpu._prepared and {*seen} <= {"attention.backward", "conv.backward_data", "conv.backward_filter"}, seen


@pytest.mark.parametrize("device", DEVICES)
def test_recorded_calls_have_their_names(device):
    run = jax.jit(lambda x: nj.softmax(x) * 2)
    x = jnp.ones((3, 8), jnp.float32)
    for _ in range(2):
        run(x).block_until_ready()
    with numbacc.record() as log:
        run(x).block_until_ready()
    assert [call.function for call in log] == ["elementwise.softmax"]
    close(run(x), jnp.full_like(x, 2 / 8), 1e-6)


# ---------------------------------------------------------------- dropout


@pytest.mark.parametrize("device", DEVICES)
def test_dropout(device):
    x, key = jnp.ones((100, 100), jnp.float32), jax.random.key(5)
    run = jax.jit(lambda x, key: nj.dropout(x, 0.25, key=key))
    y = run(x, key)
    slope = jax.grad(lambda x: run(x, key).sum())(x)
    assert (y == slope).all()  # the same elements
    assert 0.2 < (y == 0).mean() < 0.3
    assert set(np.unique(y)) == {0.0, np.float32(4 / 3)}
    assert not (run(x, jax.random.key(6)) == y).all()
    assert (run(x, key) == y).all()
    assert nj.dropout(x, 0.25, training=False) is x
    keys = jax.random.split(key)
    several = jax.vmap(run, (None, 0))(x, keys)
    assert all((one == run(x, each)).all() for one, each in zip(several, keys, strict=True))
    assert (jax.vmap(run, (0, None))(jnp.stack([x, x]), key) == y).all()  # as in JAX: the same key


@pytest.mark.parametrize("device", DEVICES)
def test_dropout_of_attention(device):
    q, k, v = (jnp.asarray(np.random.default_rng(n).standard_normal((1, 2, 16, 8))) for n in range(3))
    run = lambda q, k, v, seed=5: nj.attention(q, k, v, dropout=0.5, key=jax.random.key(seed))  # noqa: E731
    assert (run(q, k, v) == run(q, k, v)).all()
    assert not (run(q, k, v) == run(q, k, v, 6)).all()
    check_grads(run, (q, k, v), order=1, modes=["rev"], rtol=1e-5, atol=1e-5)


def test_only_needed_gradients_of_a_bias(monkeypatch):
    """A bias without a gradient costs none."""
    seen = []
    before = bridges.CALLS["attention_backward"]
    monkeypatch.setitem(
        bridges.CALLS, "attention_backward", lambda outs, *given: seen.append(given[-1]) or before(outs, *given)
    )
    q = jnp.asarray(np.random.default_rng(1).standard_normal((1, 1, 4, 8)))
    bias = jnp.ones((4, 4))
    jax.grad(lambda q: nj.attention(q, q, q, bias=bias).sum())(q)
    assert seen and not any(seen)
    jax.grad(lambda b: nj.attention(q, q, q, bias=b).sum())(bias)
    assert seen[-1]


# ---------------------------------------------------------------- own kernels

cap = nj.wrap(ew.kernel(lambda x, s: s * math.tanh(x / s)))
both = nj.wrap(ew.kernel(lambda x, y, k=2.0: (x * y * k, x + y)))
dot = nj.wrap(ew.reduction(lambda x, y: x * y))
norms = nj.wrap(ew.reduction(lambda x: (x * x, abs(x)), after=lambda a, b, k=2.0: (math.sqrt(a), b * k)))
largest = nj.wrap(ew.reduction(lambda x, y: x * y, merge="max"))


def _plain_cap(x, s):
    return s * jnp.tanh(x / s)


def check(function, *given):
    check_grads(function, given, order=1, modes=["rev"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_own_kernels(device):
    x = jnp.asarray(np.random.default_rng(0).standard_normal((4, 3)))
    s = jnp.array([1.0, 2.0, 3.0])
    for _ in range(2):
        close(jax.jit(cap)(x, s), _plain_cap(x, s), 1e-12)
    check(cap, x, s)
    check(lambda x: cap(x, 3.0), x)
    check(lambda x, s: both(x, s, k=3.0), x, s)
    close(both(x, 2)[1], x + 2, 1e-12)
    for axes, there in (((0, None), s), ((1, 0), s), ((None, 0), jnp.array([1.0, 2.0]))):
        found, wanted = (jax.vmap(f, axes)(x, there) for f in (cap, _plain_cap))
        close(found, wanted, 1e-12)
        found, wanted = (
            jax.vmap(jax.grad(lambda *t, f=f: jnp.sin(f(*t)).sum(), (0, 1)), axes)(x, there) for f in (cap, _plain_cap)
        )
        for one, other in zip(found, wanted, strict=True):
            close(one, other, 1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_own_kernels_of_16_bits(dtype, device):
    x = jnp.asarray(np.random.default_rng(0).standard_normal(100), dtype)
    _, slope = jax.value_and_grad(lambda x: cap(x, 2.0).astype(jnp.float32).sum())(x)
    assert cap(x, 2.0).dtype == slope.dtype == x.dtype
    close(cap(x, 2.0), 2 * jnp.tanh(x.astype("float64") / 2), ERRORS[dtype])


@pytest.mark.parametrize("device", DEVICES)
def test_own_reductions(device):
    x = jnp.asarray(np.random.default_rng(0).standard_normal((4, 3, 5)))
    y = jnp.asarray(np.random.default_rng(1).standard_normal((3, 1)))
    for axis, keepdims in ((None, False), (1, False), ((0, -1), True), (-1, True)):
        found = lambda x, y, a=axis, k=keepdims: dot(x, y, axis=a, keepdims=k)  # noqa: E731
        wanted = lambda x, y, a=axis, k=keepdims: (x * y).sum(a, keepdims=k)  # noqa: E731
        close(found(x, y), wanted(x, y), 1e-12)
        check(found, x, y)
        many = jnp.stack([x, 2 * x])
        close(jax.vmap(found, (0, None))(many, y), jax.vmap(wanted, (0, None))(many, y), 1e-12)
        slopes = [
            jax.vmap(jax.grad(lambda *t, f=f: jnp.sin(f(*t)).sum(), (0, 1)), (0, None))(many, y)
            for f in (found, wanted)
        ]
        for one, other in zip(*slopes, strict=True):
            close(one, other, 1e-12)
    close(dot(x, 2.0, axis=0), 2 * x.sum(0), 1e-12)
    one, two = norms(x, axis=1, k=3.0)
    close(one, jnp.linalg.norm(x, axis=1), 1e-12)
    close(two, 3 * jnp.abs(x).sum(1), 1e-12)
    check(lambda x: norms(x, axis=(1, 2)), x)
    check(lambda x: largest(x, y, axis=-1), x)
    small = x.astype(jnp.bfloat16)
    assert dot(small, 1.0, axis=1).dtype == jnp.bfloat16
    with pytest.raises(IndexError, match="axis=3"):
        dot(x, y, axis=3)


def test_digests_of_kernels():
    """Equal functions have equal names, in any process; others have others."""
    digest = lambda kernel: bridges.OwnKernel(kernel, "an array").digest()  # noqa: E731
    square = ew.kernel(lambda x: x * x)
    assert digest(square) == digest(ew.kernel(lambda x: x * x)) != digest(ew.kernel(lambda x: x * x * x))
    assert digest(square) != digest(ew.kernel(lambda x: x * x, backward=lambda dy, x: dy * x))
    total = ew.reduction(lambda x: x)
    assert len({digest(each) for each in (total, ew.reduction(lambda x: x, merge="max"), square)}) == 3


def test_wrong_calls_of_own_kernels():
    with pytest.raises(TypeError, match="got only numbers"):
        both(1.0, 2.0)
    with pytest.raises(TypeError, match="and the options axis, keepdims"):
        dot(jnp.ones(2))
    with pytest.raises(TypeError, match=r"elementwise\.reduction returns, not function"):
        nj.wrap(lambda x: x)
    with pytest.raises(TypeError, match="x, y and the options k"):
        both(jnp.ones(2))


def test_examples_print_what_they_say(capsys):
    """Those of the docstring and of the page."""
    with jax.enable_x64(False):
        doctest.run_docstring_examples(nj.wrap, {"numbacc": numbacc})
        assert capsys.readouterr().out == ""
        text = (ROOT / "docs" / "jax.md").read_text()
        found = re.findall(r"^```python\n([^`]*)^```\n\nThis prints `(.*?)`", text, re.DOTALL | re.MULTILINE)
        assert len(found) == 2
        for code, printed in found:
            exec(code, {})
            assert capsys.readouterr().out.strip() == printed

"""Functions of `numbacc.torch` against torch's own: values, gradients, operators, compilation."""

import doctest
import gc
import itertools
import math
import re

import pytest
from paths import ROOT
from skips import needed

torch = needed("torch", "torch")
from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch_cases import CASES, tensors  # noqa: E402

import numbacc  # noqa: E402
import numbacc.torch as nt  # noqa: E402
from numbacc import elementwise as ew  # noqa: E402
from numbacc.torch import functions, operators  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: Errors that are allowed, relative to the largest value: a few units of the last digit.
ERRORS = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def close(found, wanted, error):
    wanted = wanted.double().cpu()
    distance = (found.double().cpu() - wanted).abs().max()
    assert distance <= error * max(1.0, wanted.abs().max()), float(distance)


def gradients(function, given, slope=None):
    y = function(*given)
    torch.manual_seed(11)
    slope = torch.randn(y.shape, dtype=torch.float64).to(y.device, y.dtype) if slope is None else slope
    return y, torch.autograd.grad(y, given, slope)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_differences(name, device):
    # Some of cuDNN's kernels for gradients of convolutions add in any order.
    given, any_order = tensors(CASES[name], "float64", device), 1e-12 if name.startswith("conv") else 0.0
    assert torch.autograd.gradcheck(CASES[name].ours, given, fast_mode=True, nondet_tol=any_order)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_torch(name, dtype, device):
    """torch computes in float64, from the same rounded numbers."""
    case, given = CASES[name], tensors(CASES[name], dtype, device)
    y, found = gradients(case.ours, given)
    assert y.dtype == (torch.float32 if "cross_entropy" in name else getattr(torch, dtype))
    wide = [each.detach().double().cpu().requires_grad_() for each in given]
    torch.manual_seed(11)
    slope = torch.randn(y.shape, dtype=torch.float64).to(y.dtype).double()
    wanted, slopes = gradients(case.theirs, wide, slope)
    close(y, wanted, ERRORS[dtype])
    for one, other, t in zip(found, slopes, given, strict=True):
        assert (one.shape, one.dtype, one.device) == (t.shape, t.dtype, t.device)
        close(one, other, 2 * ERRORS[dtype])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_strided_operands_and_slopes(name, device):
    case, dense = CASES[name], tensors(CASES[name], "float32", device)
    spread = []
    for each in dense:  # every second element of a larger tensor
        room = torch.full((*each.shape[:-1], 2 * each.shape[-1]), math.nan, device=device)
        room[..., ::2] = each.detach()
        spread.append(room[..., ::2].requires_grad_())
    ones = torch.ones((), device=device)
    y, wanted = gradients(case.ours, dense, ones.expand(case.ours(*dense).shape).contiguous())
    found, slopes = gradients(case.ours, spread, ones.expand(y.shape))
    for one, other in zip((found, *slopes), (y, *wanted), strict=True):
        close(one, other, ERRORS["float32"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_a_result_that_is_used_twice(name, device):
    case, given = CASES[name], tensors(CASES[name], "float32", device)
    y = case.ours(*given)
    (y.sum() + 2 * y.sum()).backward()
    again = [each.detach().clone().requires_grad_() for each in given]
    (3 * case.ours(*again)).sum().backward()
    for one, other in zip(given, again, strict=True):
        close(one.grad, other.grad, ERRORS["float32"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_only_needed_gradients(name, device):
    """The others are not computed, or at least not returned."""
    case, given = CASES[name], tensors(CASES[name], "float32", device)
    _, wanted = gradients(case.ours, given, torch.ones_like(case.ours(*given)))
    for k, _ in enumerate(given):
        chosen = [each.detach().requires_grad_(i == k) for i, each in enumerate(given)]
        y = case.ours(*chosen)
        (found,) = torch.autograd.grad(y, chosen[k], torch.ones_like(y))
        close(found, wanted[k], ERRORS["float32"])
    with torch.no_grad():
        y = case.ours(*given)
        assert not y.requires_grad
    close(y, case.ours(*given), ERRORS["float32"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_autocast(name, device):
    case, given = CASES[name], tensors(CASES[name], "float32", device)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = case.ours(*given)
    assert y.dtype == getattr(torch, case.under_autocast)
    for each, t in zip(torch.autograd.grad(y.sum(), given), given, strict=True):
        assert each.dtype == t.dtype and each.isfinite().all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", ["aot_eager", "inductor", pytest.param("reduce-overhead", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", CASES)
def test_compiled_without_a_break(name, how, device):
    if how == "reduce-overhead" and device == "cpu":
        how = "inductor"
    torch.compiler.reset()
    case, given = CASES[name], tensors(CASES[name], "float32", device)
    options = {"mode": how} if how == "reduce-overhead" else {"backend": how}
    made = torch.compile(lambda *t: case.ours(*t) * 2, fullgraph=True, **options)
    _, wanted = gradients(lambda *t: case.ours(*t) * 2, given)
    for _ in range(3):  # the third call replays a CUDA graph
        if how == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        _, found = gradients(made, given)
        for one, other in zip(found, wanted, strict=True):
            close(one, other, ERRORS["float32"])


# ---------------------------------------------------------------- operators


def _random(*shape, device="cpu"):
    return torch.randn(shape, device=device, requires_grad=True)


def _arguments(device):
    """Arguments of each operator that users' functions call."""
    r = lambda *shape: _random(*shape, device=device)  # noqa: E731
    target, cos = torch.tensor([1, 0, -100], device=device), torch.ones(4, 3, device=device)
    q, k, v = r(1, 2, 4, 8), r(1, 1, 4, 8), r(1, 1, 4, 8)
    return {
        "gated": (r(3, 8), "geglu", -1, "second"),
        "gated_pair": (r(3, 4), r(3, 4), "swiglu", "first"),
        "linear": (r(3, 8), r(4, 8), r(4), "relu"),
        "linear_gelu": (r(3, 8), r(4, 8), None),
        "attention": (q, k, v, None, None, "causal", 0, 0.5, 0.0),
        "attention_only": (q.detach(), k.detach(), v.detach(), None, None, "", 0, 0.5, 0.0),
        "conv": (r(2, 4, 6, 5), r(4, 4, 3, 3), r(4), [2, 2], [1, 1, 1, 1], [1, 1], 1),
        "rms_norm": (r(3, 8), r(8), 1e-6),
        "layer_norm": (r(3, 8), r(8), r(8), 1e-6),
        "softmax": (r(3, 8), 0),
        "log_softmax": (r(3, 8), -1),
        "cross_entropy": (r(3, 8), target, 1, "mean", -100, 0.1),
        "linear_cross_entropy": (r(3, 6), r(8, 6), target, r(8), "mean", -100, 0.1, True),
        "rope": (r(2, 4, 6), cos, cos, False),
        "dropout": (r(3, 8), torch.zeros(1, dtype=torch.int64, device=device), 0.3),
        "dropout_by_seed": (r(3, 8), 5, 0.3),
    }  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", _arguments("cpu"))
def test_torch_accepts_the_operator(name, device):
    arguments = _arguments(device)[name]
    found = torch.library.opcheck(getattr(torch.ops.numbacc, name).default, arguments)
    assert set(found.values()) == {"SUCCESS"}, found


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_that_share_memory_or_are_negated(device):
    """Before and after other tensors with the same shapes."""
    for _ in range(2):
        q, k, v = (torch.randn(1, 2, 5, 8, device=device) for _ in range(3))
        for given in ((q, q, q), (q, k, v), (q, k, k), (q, k, v)):
            wanted = torch.nn.functional.scaled_dot_product_attention(*(each.double() for each in given))
            close(nt.attention(*given), wanted, ERRORS["float32"])
        turned = torch.randn(3, 8, dtype=torch.complex64, device=device).conj().imag
        assert turned.is_neg()
        for x in (turned, torch.empty(3, 16, device=device)[:, ::2].copy_(turned), turned):
            close(nt.softmax(x), x.double().softmax(-1), ERRORS["float32"])


@pytest.mark.parametrize("device", DEVICES)
def test_few_plans_are_kept(device, monkeypatch):
    monkeypatch.setattr(operators, "_KEPT", 2)
    for _ in range(2):
        for n in range(3, 9):
            x = torch.randn(2, n, device=device)
            for _ in range(2):
                close(nt.softmax(x), x.double().softmax(-1), ERRORS["float32"])
    assert len(functions._softmax._known) <= 2


@pytest.mark.parametrize("device", DEVICES)
def test_calls_that_differ_from_the_last_one(device):
    """In layout, option, class, gradient mode, tensors with gradients, or arguments that are None; all pairs."""
    x, w = torch.randn(6, 8, device=device), torch.randn(8, device=device)
    given, weights = (x, x.clone().requires_grad_(), x[:4]), (w, torch.nn.Parameter(w.clone()), None)
    modes = torch.enable_grad, torch.no_grad, torch.inference_mode
    calls = [*itertools.product(given, weights, (1e-6,), modes), (x, w, 1.0, torch.enable_grad)]
    calls += [(x.double(), None, 1e-6, torch.enable_grad), (x.reshape(8, 6).t(), w, 1e-6, torch.no_grad)]

    def run(function, x, weight, eps, mode):
        with mode():
            return function(x, weight, eps)

    theirs = lambda x, weight, eps: torch.nn.functional.rms_norm(x, (8,), weight, eps)  # noqa: E731
    ours = lambda x, weight, eps: nt.rms_norm(x, weight, eps=eps)  # noqa: E731
    wanted = [run(theirs, *each) for each in calls]
    for both in itertools.product(range(len(calls)), repeat=2):
        for k in both:
            y = run(ours, *calls[k])
            assert (y.requires_grad, y.is_inference()) == (wanted[k].requires_grad, wanted[k].is_inference())
            assert y.dtype is wanted[k].dtype and (y - wanted[k]).abs().max() < 1e-5
    with torch.autocast(device):
        assert nt.rms_norm(x.bfloat16(), w).dtype == torch.float32
    assert nt.rms_norm(x.bfloat16(), w.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("device", DEVICES)
def test_plans_keep_no_memory_of_tensors(device):
    x, target = torch.randn(3, 8, device=device, requires_grad=True), torch.tensor([1, 0, 2], device=device)
    for operator in (functions._loss, functions._loss_backward, functions._softmax):
        operator.clear()
    y, loss = nt.softmax(x), nt.cross_entropy(x, target)
    loss.backward()
    kept = [StorageWeakRef(each.untyped_storage()) for each in (x, target, y, loss)]
    del x, target, y, loss
    gc.collect()
    assert len(functions._softmax._known) == len(functions._loss_backward._known) == 1
    assert all(each.expired() for each in kept)


@pytest.mark.parametrize("device", DEVICES)
def test_results_of_attention_have_the_memory_order_of_queries(device):
    q, k, v = (torch.randn(2, 5, 3, 8, device=device).transpose(1, 2) for _ in range(3))
    for _ in range(2):
        y = nt.attention(q, k, v)
        assert y.shape == q.shape and y.transpose(1, 2).is_contiguous()
        close(y, torch.nn.functional.scaled_dot_product_attention(*(each.double() for each in (q, k, v))), 2e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_recorded_calls_have_their_names(device):
    x = torch.randn(3, 8, device=device)
    nt.softmax(x)
    with numbacc.record() as log:
        nt.softmax(x)
    assert [call.function for call in log] == ["elementwise.softmax"]
    nt.softmax(x)


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning", "ignore:.*torch.jit:DeprecationWarning")
def test_torch_traces_calls_whose_plans_are_known():
    x, other, scalar = torch.randn(3, 8), torch.randn(3, 8), torch.tensor(2.0)
    for _ in range(2):
        nt.softmax(x), cap(scalar, 3.0)
    made = torch.jit.trace(nt.softmax, x)
    close(made(other), other.double().softmax(-1), ERRORS["float32"])
    made = torch.jit.trace(lambda x: cap(x, 3.0), scalar)
    close(made(scalar / 2), 3 * torch.tanh(scalar / 6), ERRORS["float32"])


def test_second_derivatives_raise_an_error():
    x = torch.randn(3, 8, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"numbacc\.torch\.softmax has no second derivatives"):
        torch.autograd.grad(nt.softmax(x).square().sum(), x, create_graph=True)


def test_wrong_tensors():
    x = torch.randn(3, 8)
    for error, words, run in (
        (TypeError, "int64", lambda: nt.gated(x.long())),
        (TypeError, "weight has dtype torch.bfloat16", lambda: nt.linear(x, torch.ones(2, 8, dtype=torch.bfloat16))),
        (ValueError, r"weight has shape \(2, 9\)", lambda: nt.linear(x, torch.ones(2, 9))),
        (ValueError, "3 tensors", lambda: nt.gated((x, x, x))),
        (ValueError, "rank 2", lambda: nt.conv(x, x)),
        (TypeError, "complex32", lambda: nt.softmax(x.to(torch.complex32))),
        (TypeError, "mask is a tensor", lambda: nt.attention(x, x, x, mask=torch.ones(3, 3, dtype=torch.bool))),
        (ValueError, "mask is 'diagonal'", lambda: nt.attention(x, x, x, mask="diagonal")),
    ):
        with pytest.raises(error, match=words):
            run()


# ---------------------------------------------------------------- dropout


@pytest.mark.parametrize("device", DEVICES)
def test_dropout(device):
    x = torch.ones(100, 100, device=device, requires_grad=True)
    torch.manual_seed(5)
    y = nt.dropout(x, 0.25)
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(y, slope)  # the same elements
    assert 0.2 < (y == 0).float().mean() < 0.3
    assert torch.equal(y[y != 0].unique().cpu(), torch.tensor([4 / 3]))
    assert not torch.equal(nt.dropout(x, 0.25), y)
    torch.manual_seed(5)
    assert torch.equal(nt.dropout(x, 0.25), y)
    assert nt.dropout(x, 0.25, training=False) is x


@pytest.mark.parametrize("device", DEVICES)
def test_one_plan_serves_all_seeds(device):
    operator, x = functions._drop_by_seed, torch.ones(3, 100, device=device, requires_grad=True)
    operator.clear()
    made = [operator.call(x, seed, 0.5) for seed in (1, 2, 1, 2**63 - 1)]
    assert torch.equal(made[0], made[2])
    assert not any(torch.equal(made[0], each) for each in (made[1], made[3]))
    for each in made:
        assert torch.equal(torch.autograd.grad(each.sum(), x)[0], each)
    layouts = {key[2] for key in operator._known}
    assert len(operator._known) == len(layouts) == 2  # of x, and of an expanded gradient


@pytest.mark.gpu
def test_seeds_are_torchs():
    """Eager dropout advances torch's generator; a graph draws on the GPU."""
    x = torch.ones(1000, device="cuda")
    torch.manual_seed(5)
    first = nt.dropout(x)
    state = torch.cuda.get_rng_state()
    second = nt.dropout(x)
    torch.cuda.set_rng_state(state)
    assert torch.equal(nt.dropout(x), second) and not torch.equal(first, second)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = nt.dropout(x)
    drawn = []
    for _ in range(2):
        graph.replay()
        drawn.append(y.clone())
    assert not torch.equal(*drawn) and all(0.3 < each.count_nonzero() / 1000 < 0.7 for each in drawn)


@pytest.mark.parametrize("device", DEVICES)
def test_dropout_of_attention(device):
    q, k, v = (_random(1, 2, 16, 8, device=device) for _ in range(3))
    torch.manual_seed(5)
    o = nt.attention(q, k, v, dropout=0.5)
    slopes = torch.autograd.grad(o.sum(), (q, k, v))
    torch.manual_seed(5)
    again = nt.attention(q, k, v, dropout=0.5)
    assert torch.equal(o, again)
    for one, other in zip(torch.autograd.grad(again.sum(), (q, k, v)), slopes, strict=True):
        close(one, other, 1e-5)
    assert not torch.equal(nt.attention(q, k, v, dropout=0.5), o)


# ---------------------------------------------------------------- own kernels

cap = nt.wrap(ew.kernel(lambda x, s: s * math.tanh(x / s)))


def _both(x, y, k=2.0):
    return x * y * k, x + y


both = nt.wrap(ew.kernel(_both))


@pytest.mark.parametrize("device", DEVICES)
def test_own_kernels(device):
    x = torch.randn(4, 3, dtype=torch.float64, device=device, requires_grad=True)
    s = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, device=device, requires_grad=True)
    close(cap(x, s), s * torch.tanh(x / s), 1e-12)
    assert torch.autograd.gradcheck(cap, (x, s))
    assert torch.autograd.gradcheck(lambda x: cap(x, 3.0), (x,))
    assert torch.autograd.gradcheck(lambda x, s: both(x, s, k=3.0), (x, s))
    torch.compiler.reset()
    made = torch.compile(lambda x: both(cap(x, 2.0), x)[0], fullgraph=True, backend="aot_eager")
    close(made(x), 4 * torch.tanh(x / 2) * x, 1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_own_kernels_of_16_bits(dtype, device):
    x = torch.randn(100, device=device).to(getattr(torch, dtype)).requires_grad_()
    y = cap(x, 2.0)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == x.dtype
    close(y, 2 * torch.tanh(x.double() / 2), ERRORS[dtype])


dot = nt.wrap(ew.reduction(lambda x, y: x * y))
norms = nt.wrap(ew.reduction(lambda x: (x * x, abs(x)), after=lambda a, b, k=2.0: (math.sqrt(a), b * k)))
largest = nt.wrap(ew.reduction(lambda x, y: x * y, merge="max"))


@pytest.mark.parametrize("device", DEVICES)
def test_own_reductions(device):
    x = torch.randn(4, 3, 5, dtype=torch.float64, device=device, requires_grad=True)
    y = torch.randn(3, 1, dtype=torch.float64, device=device, requires_grad=True)
    for axis, keepdims in ((None, False), (1, False), ((0, -1), True), (-1, True)):
        wanted = (x * y).sum() if axis is None else (x * y).sum(axis, keepdim=keepdims)
        found = dot(x, y, axis=axis, keepdims=keepdims)
        assert found.shape == wanted.shape
        close(found, wanted, 1e-12)
        assert torch.autograd.gradcheck(lambda x, y, a=axis, k=keepdims: dot(x, y, axis=a, keepdims=k), (x, y))
    close(dot(x, 2.0, axis=0), 2 * x.sum(0), 1e-12)
    one, two = norms(x, axis=1, k=3.0)
    close(one, x.norm(dim=1), 1e-12)
    close(two, 3 * x.abs().sum(1), 1e-12)
    assert torch.autograd.gradcheck(lambda x: norms(x, axis=(1, 2)), (x,))
    assert torch.autograd.gradcheck(lambda x: largest(x, y.detach(), axis=-1), (x,))
    torch.compiler.reset()
    made = torch.compile(lambda x, y: dot(x, y, axis=-1) * 2, fullgraph=True, backend="aot_eager")
    close(made(x, y), 2 * (x * y).sum(-1), 1e-12)
    close(torch.autograd.grad(made(x, y).sum(), y)[0], 2 * x.sum((0, 2))[:, None], 1e-12)
    small = x.detach().to(torch.bfloat16)
    assert dot(small, 1.0, axis=1).dtype == torch.bfloat16
    close(dot(small, 1.0, axis=1), small.double().sum(1), ERRORS["bfloat16"])
    with pytest.raises(IndexError, match="axis=3"):
        dot(x, y, axis=3)


def test_examples_print_what_they_say(capsys):
    """Those of the docstring and of the page."""
    doctest.run_docstring_examples(nt.wrap, {"numbacc": numbacc})
    assert capsys.readouterr().out == ""
    text = (ROOT / "docs" / "torch.md").read_text()
    found = re.findall(r"^```python\n([^`]*)^```\n\nThis prints `(.*?)`", text, re.DOTALL | re.MULTILINE)
    assert len(found) == 3
    for code, printed in found:
        exec(code, {})
        assert capsys.readouterr().out.strip() == printed


def test_wrong_calls_of_own_kernels():
    with pytest.raises(TypeError, match="got only numbers"):
        both(1.0, 2.0)
    with pytest.raises(TypeError, match="and the options axis, keepdims"):
        dot(torch.ones(2))
    with pytest.raises(TypeError, match=r"elementwise\.reduction returns, not function"):
        nt.wrap(lambda x: x)
    with pytest.raises(TypeError, match="x, y and the options k"):
        both(torch.ones(2))
    with pytest.raises(TypeError, match="options k"):
        both(torch.ones(2), torch.ones(2), q=1.0)

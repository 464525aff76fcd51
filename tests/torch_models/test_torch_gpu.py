"""Functions of `numbacc.torch` on GPUs: large arrays, graphs, streams, devices, alignment, memory."""

import math
import threading

import pytest
from skips import needed, skip

torch = needed("torch", "torch")
from torch_cases import CASES, tensors  # noqa: E402

import numbacc.torch as nt  # noqa: E402

pytestmark = pytest.mark.gpu
F = torch.nn.functional
#: Errors that are allowed, relative to the largest value.
ERRORS = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def close(found, wanted, error):
    wanted = wanted.double().cpu()
    distance = (found.double().cpu() - wanted).abs().max()
    assert distance <= error * max(1.0, float(wanted.abs().max())), float(distance)


def step(function, given, slope=None):
    """The result and its gradients."""
    y = function(*given)
    slope = torch.ones_like(y) if slope is None else slope
    return (y.detach(), *torch.autograd.grad(y, given, slope))


# ---------------------------------------------------------------- large arrays

_HEADS = (2, 8, 512, 64)


def _target(x):
    return torch.arange(x.shape[0], device=x.device) * 101 % x.shape[1]


#: Functions of ours, torch's, and the shapes of their tensors.
LARGE = {
    "gated": (
        lambda x: nt.gated(x, "geglu_tanh"),
        lambda x: x.chunk(2, -1)[0] * F.gelu(x.chunk(2, -1)[1], approximate="tanh"),
        ((512, 8192),),
    ),
    "linear": (nt.linear, F.linear, ((512, 1024), (768, 1024), (768,))),
    "linear, gelu": (
        lambda *t: nt.linear(*t, "gelu"),
        lambda *t: F.gelu(F.linear(*t), approximate="tanh"),
        ((512, 1024), (768, 1024), (768,)),
    ),
    "attention": (
        lambda *t: nt.attention(*t, mask="causal"),
        lambda *t: F.scaled_dot_product_attention(*t, is_causal=True),
        (_HEADS,) * 3,
    ),
    "conv": (
        lambda *t: nt.conv(*t, padding=1),
        lambda *t: F.conv2d(*t, padding=1),
        ((8, 64, 28, 28), (128, 64, 3, 3), (128,)),
    ),
    "layer_norm": (
        nt.layer_norm,
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        ((1024, 4096), (4096,), (4096,)),
    ),
    "rms_norm": (nt.rms_norm, lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), ((1024, 4096), (4096,))),
    "softmax": (nt.softmax, lambda x: x.softmax(-1), ((512, 32000),)),
    "cross_entropy": (
        lambda x: nt.cross_entropy(x, _target(x)),
        lambda x: F.cross_entropy(x, _target(x)),
        ((1024, 32000),),
    ),
}


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", LARGE)
def test_large_arrays(name, dtype):
    """Against torch in float64. Errors of gradients of weights grow with the root of the rows that they sum."""
    ours, theirs, shapes = LARGE[name]
    torch.manual_seed(4)
    scale = 0.2 if name.startswith(("linear", "conv")) else 1.0
    given = [(scale * torch.randn(s, device="cuda")).to(getattr(torch, dtype)).requires_grad_() for s in shapes]
    wide = [each.detach().double().requires_grad_() for each in given]
    slope = torch.randn(theirs(*wide).shape, device="cuda").to(getattr(torch, dtype))
    found = step(ours, given, slope.float() if name == "cross_entropy" else slope)
    for one, other in zip(found, step(theirs, wide, slope.double()), strict=True):
        close(one, other, 2 * ERRORS[dtype])


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize("name", CASES)
def test_graphs_of_torch(name):
    """Captured forward and backward; replayed on other values."""
    case, given = CASES[name], tensors(CASES[name], "float32", "cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step(case.ours, given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(case.ours, given)
    for each in found:
        each.fill_(math.nan)
    with torch.no_grad():
        for each in given:
            each.mul_(0.5).add_(0.1)
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    for one, other in zip(found, step(case.ours, given), strict=True):
        close(one, other, 1e-6)


# ---------------------------------------------------------------- streams, devices


@pytest.mark.parametrize("name", CASES)
def test_another_stream(name):
    """The arguments are written late on torch's current stream, and the results are read on it."""
    case, given = CASES[name], tensors(CASES[name], "float32", "cuda")
    wanted = step(case.ours, given)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        late = [torch.full_like(each, math.nan, requires_grad=False) for each in given]
        torch.cuda._sleep(50_000_000)
        for one, other in zip(late, given, strict=True):
            one.copy_(other.detach())
        found = step(case.ours, [each.requires_grad_() for each in late])
        copies = [each.clone() for each in found]
    side.synchronize()
    for one, other in zip(copies, wanted, strict=True):
        close(one, other, 1e-6)


def test_threads_with_streams_of_their_own():
    """They share the plans that operators keep. Handles of libraries belong to threads."""
    x, w, b = (torch.randn(s, device="cuda") for s in ((64, 128), (32, 128), (32,)))
    q = torch.randn(2, 4, 64, 32, device="cuda", dtype=torch.bfloat16)

    def work():
        y = nt.linear(x, w, b, "relu")
        return [y, nt.softmax(y), nt.attention(q, q * 2, q + 1, mask="causal"), nt.rms_norm(x, w[0])]

    wanted, found, errors = work(), {}, []
    torch.cuda.synchronize()

    def run(number):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(20):
                    made = work()
                torch.cuda.current_stream().synchronize()
            found[number] = made
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors and len(found) == 4
    for made in found.values():
        for one, other in zip(made, wanted, strict=True):
            close(one, other, 1e-6)


@pytest.mark.parametrize("name", CASES)
def test_another_gpu(name):
    """It is not the current device."""
    if torch.cuda.device_count() < 2:
        skip("two gpus")
    case = CASES[name]
    found = step(case.ours, tensors(case, "float32", "cuda:1"))
    assert {each.device.index for each in found} == {1} and torch.cuda.current_device() == 0
    for one, other in zip(found, step(case.ours, tensors(case, "float32", "cuda:0")), strict=True):
        close(one, other, 1e-6)


def test_tensors_of_two_places():
    x = torch.ones(4, 8, device="cuda")
    with pytest.raises(RuntimeError, match="tensors on cuda:0 and cpu"):
        nt.rms_norm(x, torch.ones(8))


# ---------------------------------------------------------------- operands in memory


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_misaligned_operands(name, dtype):
    """Each starts one element after an aligned address, as a slice of a larger tensor may."""
    case, given = CASES[name], tensors(CASES[name], dtype, "cuda")
    moved = []
    for each in given:
        room = torch.full((each.numel() + 1,), math.nan, dtype=each.dtype, device="cuda")
        moved.append(room[1:].view(each.shape))
        moved[-1].copy_(each.detach())
        moved[-1].requires_grad_()
    y = case.ours(*given)
    slope = torch.full((y.numel() + 1,), 0.5, dtype=y.dtype, device="cuda")[1:].view(y.shape)
    wanted = step(case.ours, given, torch.full_like(y, 0.5))
    for one, other in zip(step(case.ours, moved, slope), wanted, strict=True):
        close(one, other, ERRORS[dtype])


def _heads(x):
    return x.view(2, 256, 8, 64).transpose(1, 2)


#: Functions of tensors whose axes have another order in memory, and how many bytes torch allocates for their results.
PERMUTED = {
    "attention": (
        lambda q, k, v: nt.attention(_heads(q), _heads(k), _heads(v)),
        3,
        (2, 256, 512),
        lambda n: n * 2 + 2 * 8 * 256 * 4,
    ),
    "rope": (lambda x, c: nt.rope(_heads(x), c[0, :, :32], c[0, :, 32:64]), 2, (2, 256, 512), lambda n: n * 2),
    "gated": (lambda x: nt.gated(x.transpose(0, 1), "glu", axis=-1), 1, (512, 1024), lambda n: n),
    "a pair": (lambda a, b: nt.gated((a.T, b.T)), 2, (512, 1024), lambda n: n * 2),
    "softmax": (lambda x: nt.softmax(x.transpose(0, 1)), 1, (512, 1024), lambda n: n * 2),
    "linear": (lambda x, w: nt.linear(x.T, w.T), 2, (512, 512), lambda n: n * 2),
}


@pytest.mark.parametrize("name", PERMUTED)
def test_permuted_operands_are_not_copied(name):
    """torch allocates the results, and nothing else."""
    function, count, shape, nbytes = PERMUTED[name]
    given = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    function(*given)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    y = function(*given)
    peak = torch.cuda.max_memory_allocated() - before
    assert y.isfinite().all()
    assert peak <= nbytes(given[0].numel()) + 2048


def test_results_of_attention_transpose_back_without_a_copy():
    q, k, v = (torch.randn(2, 256, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    y = nt.attention(_heads(q), _heads(k), _heads(v), mask="causal")
    back = y.transpose(1, 2).reshape(2, 256, 512)
    assert back.data_ptr() == y.data_ptr()
    wide = [each.detach().double().requires_grad_() for each in (q, k, v)]
    wanted = F.scaled_dot_product_attention(*map(_heads, wide), is_causal=True)
    slope = torch.randn_like(y)
    close(y, wanted, ERRORS["bfloat16"])
    found = torch.autograd.grad(y, (q, k, v), slope)
    for one, other in zip(found, torch.autograd.grad(wanted, wide, slope.double()), strict=True):
        close(one, other, 2 * ERRORS["bfloat16"])


def test_images_with_channels_last():
    x = torch.randn(4, 16, 14, 14, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    w = torch.randn(32, 16, 3, 3, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    y = nt.conv(x.requires_grad_(), w.requires_grad_(), padding=1)
    assert y.is_contiguous(memory_format=torch.channels_last)
    dx, dw = torch.autograd.grad(y.sum(), (x, w))
    assert dx.is_contiguous(memory_format=torch.channels_last)
    wide = [each.detach().double().cpu().requires_grad_() for each in (x, w)]
    wanted = F.conv2d(*wide, padding=1)
    for one, other in zip((y, dx, dw), (wanted, *torch.autograd.grad(wanted.sum(), wide)), strict=True):
        close(one, other, 2 * ERRORS["bfloat16"])

"""AdamW and the norm of gradients for tensors, against torch's own in float32 and float64."""

from __future__ import annotations

import copy
import io

import pytest
from skips import needed, skip

torch = needed("torch", "torch")
import numbacc.torch as nt  # noqa: E402
from numbacc import nn  # noqa: E402


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        skip("gpu")
    return request.param


def model(device, dtype):
    torch.manual_seed(3)
    made = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 3))
    return made.to(device, dtype)


def groups(made, **options):
    matrices = [p for p in made.parameters() if p.ndim > 1]
    return [
        {"params": matrices, "weight_decay": 0.1},
        {"params": [p for p in made.parameters() if p.ndim < 2], **options},
    ]


def slopes(made, number):
    generator = torch.Generator().manual_seed(number)
    for p in made.parameters():
        p.grad = torch.randn(p.shape, generator=generator).to(p.device, p.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_steps_with_clipped_gradients(device, dtype):
    """The masters of bfloat16 weights are torch's float32 weights; the weights are those, rounded."""
    ours, theirs = model(device, dtype), model(device, dtype).float()
    mine = nt.AdamW(groups(ours, lr=2e-2), lr=1e-2, betas=(0.8, 0.9), max_norm=2.0)
    own = torch.optim.AdamW(groups(theirs, lr=2e-2), lr=1e-2, betas=(0.8, 0.9))
    for number in range(5):
        slopes(ours, number)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            q.grad = p.grad.float().clone()
        norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 2.0)
        own.step()
        assert mine.step(lambda: 7) == 7
        torch.testing.assert_close(mine.norm, norm, rtol=1e-5, atol=0)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        master = mine.state[p].get("master", p)
        torch.testing.assert_close(master.detach(), q.detach(), rtol=2e-5, atol=1e-6)
        assert torch.equal(p.detach(), master.detach().to(dtype))
    # Gradients that are not finite change nothing.
    before = [p.detach().clone() for p in ours.parameters()]
    next(ours.parameters()).grad[0, 0] = torch.inf
    mine.step()
    assert all(torch.equal(one, p.detach()) for one, p in zip(before, ours.parameters(), strict=True))


def test_a_state_that_is_saved_and_loaded(device):
    """Further steps are the same, in the dtypes of the state."""
    ours = model(device, torch.bfloat16)
    mine = nt.AdamW(groups(ours), lr=1e-2)
    for number in range(2):
        slopes(ours, number)
        mine.step()
    file = io.BytesIO()
    torch.save((ours.state_dict(), mine.state_dict()), file)
    file.seek(0)
    others = model(device, torch.bfloat16)
    again = nt.AdamW(groups(others), lr=1e-3)
    weights, state = torch.load(file)
    others.load_state_dict(weights)
    again.load_state_dict(state)
    for number in (2, 3):
        for each, optimizer in ((ours, mine), (others, again)):
            slopes(each, number)
            optimizer.step()
    for p, q in zip(ours.parameters(), others.parameters(), strict=True):
        assert torch.equal(p, q)
        assert {name: each.dtype for name, each in again.state[q].items()} == {
            "step": torch.int64, "master": torch.float32, "exp_avg": torch.float32, "exp_avg_sq": torch.float32
        }  # fmt: skip
    copy.deepcopy(again)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_norms(device, dtype):
    tensors = [torch.randn(each, device=device).to(dtype) for each in ((3, 5), (7,), ())]
    wanted = torch.sqrt(sum((each.double() ** 2).sum() for each in tensors))
    norm, factor = nt.clip_grad_norm(tensors, 1.0, write=False)
    torch.testing.assert_close(norm.double(), wanted, rtol=1e-5, atol=0)
    before, version = [each.double().clone() for each in tensors], tensors[0]._version
    scale = torch.full((1,), 0.5, device=device)
    norm, factor = nt.clip_grad_norm(tensors, 0.1, factor=scale)
    torch.testing.assert_close(factor.double(), 0.5 * 0.1 / (wanted * 0.5 + 1e-6), rtol=1e-5, atol=0)
    assert tensors[0]._version > version
    for each, own in zip(tensors, before, strict=True):
        torch.testing.assert_close(each.double(), own * factor.double(), rtol=1e-2, atol=1e-6)


def test_muon(device):
    """The results equal numbacc's. The singular values of the change are near each other."""
    p, g, m = (torch.randn(6, 4, device=device) for _ in range(3))
    before, copies = p.clone(), torch.zeros(6, 4, device=device, dtype=torch.bfloat16)
    wanted, state = p.cpu().numpy().copy(), m.cpu().numpy().copy()
    nn.muon_step(wanted, g.cpu().numpy(), state, rate=0.1, factor=0.5)
    version = p._version
    nt.muon_step([p], [g], [m], rate=0.1, factor=torch.full((1,), 0.5, device=device), copy=[copies])
    torch.testing.assert_close(p.cpu(), torch.from_numpy(wanted), rtol=0, atol=2e-3)
    torch.testing.assert_close(m.cpu(), torch.from_numpy(state))
    assert torch.equal(copies, p.bfloat16()) and p._version > version
    values = torch.linalg.svdvals((p - before) / (0.02 * 6**0.5))
    assert values.min() > 0.6 and values.max() < 1.3
    for dtype in (torch.float32, "float32"):
        more, of_numpy = [each.clone() for each in (p, g, m)], [each.cpu().numpy().copy() for each in (p, g, m)]
        nn.muon_step(*of_numpy, iterations=2, dtype="float32")
        nt.muon_step(*more, iterations=2, dtype=dtype)
        torch.testing.assert_close(more[0].cpu(), torch.from_numpy(of_numpy[0]), rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="iterations"):
        nt.muon_step(*more, iterations=0)


@pytest.mark.gpu
def test_a_step_in_a_graph_of_torchs():
    """Each replay is another step, with the gradients and the learning rate of that time."""
    ours, theirs = (model("cuda", torch.float32) for _ in range(2))
    rate = torch.full((1,), 1e-2, device="cuda")
    mine = nt.AdamW(ours.parameters(), lr=rate, max_norm=1.0)
    own = torch.optim.AdamW(theirs.parameters(), lr=1e-2)
    slopes(ours, 0), slopes(theirs, 0)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        mine.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        mine.step()
    for number in range(3):
        if number:
            for p, g in zip(ours.parameters(), theirs.parameters(), strict=True):
                p.grad.copy_(torch.full_like(p, 0.1 * number))
                g.grad = torch.full_like(p, 0.1 * number)
            graph.replay()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        own.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=2e-5, atol=1e-6)

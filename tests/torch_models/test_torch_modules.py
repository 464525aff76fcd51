"""Modules of `numbacc.torch` in torch's models: weights, training, copies, data parallel, graphs."""

import copy
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from skips import needed, skip

torch = needed("torch", "torch")

import numbacc.torch as nt  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: Modules of ours -> torch's own, and the shape of an input.
PAIRS = {
    "Linear": (lambda: nt.Linear(8, 4), lambda: torch.nn.Linear(8, 4), (3, 8)),
    "Conv1d": (lambda: nt.Conv1d(8, 4, 3, stride=2), lambda: torch.nn.Conv1d(8, 4, 3, stride=2), (2, 8, 9)),
    "Conv2d": (
        lambda: nt.Conv2d(8, 4, 3, padding="same"),
        lambda: torch.nn.Conv2d(8, 4, 3, padding="same"),
        (2, 8, 6, 5),
    ),
    "Conv3d": (lambda: nt.Conv3d(8, 4, 2, bias=False), lambda: torch.nn.Conv3d(8, 4, 2, bias=False), (1, 8, 3, 3, 3)),
    "LayerNorm": (lambda: nt.LayerNorm(8), lambda: torch.nn.LayerNorm(8), (3, 8)),
    "RMSNorm": (lambda: nt.RMSNorm(8), lambda: torch.nn.RMSNorm(8), (3, 8)),
    "Softmax": (lambda: nt.Softmax(), lambda: torch.nn.Softmax(), (2, 3, 8)),
    "LogSoftmax": (lambda: nt.LogSoftmax(-1), lambda: torch.nn.LogSoftmax(-1), (3, 8)),
    "Dropout": (lambda: nt.Dropout(0.0), lambda: torch.nn.Dropout(0.0), (3, 8)),
}


def model(hidden=32):
    return torch.nn.Sequential(
        nt.Linear(16, 2 * hidden), nt.Gated("geglu"), nt.RMSNorm(hidden), nt.Dropout(0.1),
        nt.Linear(hidden, hidden, activation="gelu"), nt.LayerNorm(hidden), nt.Linear(hidden, 4),
    )  # fmt: skip


def data(device):
    torch.manual_seed(3)
    x = torch.randn(64, 16, device=device)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def train(module, device, steps=60):
    x, target = data(device)
    optimizer, loss = torch.optim.AdamW(module.parameters(), 0.01), nt.CrossEntropyLoss()
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        each = loss(module(x), target)
        each.backward()
        optimizer.step()
        found.append(float(each.detach()))
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PAIRS)
def test_weights_are_those_of_torch(name, device, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    ours, theirs, shape = PAIRS[name]
    one, other = ours().to(device), theirs().to(device)
    one.load_state_dict(other.state_dict())
    assert isinstance(one, type(other))
    x = torch.randn(shape, device=device, requires_grad=True)
    torch.testing.assert_close(one(x), other(x), rtol=1e-4, atol=1e-5)
    y = torch.compile(one, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(y, other(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_attention_and_positions(device):
    """The modules without weights; the positions go on where the first part ends."""
    q, k, v = (torch.randn(2, 3, 6, 8, device=device, requires_grad=True) for _ in range(3))
    bias = torch.randn(6, 6, device=device)
    made = nt.Attention(scale=0.3, dropout=0.5).to(device).eval()
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.3)
    torch.testing.assert_close(made(q, k, v, bias), wanted, rtol=1e-4, atol=1e-5)
    assert (made.train()(q, k, v) != made(q, k, v)).any()
    turn = nt.RotaryEmbedding(8, 6, base=100.0).to(device)
    angles = torch.arange(6)[:, None] * 100.0 ** -(torch.arange(0, 8, 2) / 8)
    a, b = q.cpu().chunk(2, -1)
    both = (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())
    torch.testing.assert_close(turn(q).cpu(), torch.cat(both, -1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(turn(q[:, :, 2:], start=2), turn(q)[:, :, 2:])
    assert not turn.state_dict()


@pytest.mark.parametrize("device", DEVICES)
def test_a_model_learns(device):
    losses = train(model().to(device), device)
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("device", DEVICES)
def test_copies_and_files(device):
    made = model().to(device).eval()
    x, _ = data(device)
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    for other in (copy.deepcopy(made), torch.load(file, weights_only=False)):
        assert torch.equal(other(x), made(x))


def test_wrong_options():
    with pytest.raises(ValueError, match="activation is 'tanh'"):
        nt.Linear(2, 2, activation="tanh")
    with pytest.raises(ValueError, match="padding_mode is 'reflect'"):
        nt.Conv2d(2, 2, 3, padding_mode="reflect")
    with pytest.raises(ValueError, match="normalizes the last axis"):
        nt.LayerNorm((2, 3))
    with pytest.raises(ValueError, match="no weights of classes"):
        nt.CrossEntropyLoss(torch.ones(3))


@pytest.fixture
def group(request):
    """A process group of this process alone."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("device", DEVICES)
def test_data_parallel(device, group):
    made = model().to(device)
    losses = train(torch.nn.parallel.DistributedDataParallel(made), device)
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("device", DEVICES)
def test_fully_sharded(device, group):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    made = model().to(device)
    fully_shard(made, mesh=init_device_mesh(device, (1,)))
    losses = train(made, device)
    assert losses[-1] < 0.3 * losses[0]


def test_two_processes_train_as_one(tmp_path):
    command = [sys.executable, Path(__file__).with_name("two_processes.py"), tmp_path / "store"]
    runs = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in (0, 1)
    ]
    told = [run.communicate()[0] for run in runs]
    assert all("ddp as one process\nfsdp as one process" in each for each in told), told


@pytest.mark.gpu
def test_a_graph_of_a_training_step():
    made = model().cuda()
    x, target = data("cuda")
    loss = nt.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(made.parameters(), 0.01, capturable=True)

    def step():
        optimizer.zero_grad()
        each = loss(made(x), target)
        each.backward()
        optimizer.step()
        return each

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        first = float(step().detach())
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        last = step()
    for _ in range(60):
        graph.replay()
    assert float(last.detach()) < 0.3 * first


@pytest.mark.gpu
def test_torchs_current_stream():
    made, (x, _) = model().cuda().eval(), data("cuda")
    wanted = made(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)  # x is written late
        late = torch.zeros_like(x)
        late.copy_(x)
        found = made(late)
    side.synchronize()
    assert torch.equal(found, wanted)


@pytest.mark.gpu
def test_a_second_gpu():
    if torch.cuda.device_count() < 2:
        skip("two gpus")
    made, (x, _) = model().to("cuda:1").eval(), data("cuda:1")
    torch.testing.assert_close(made(x).cpu(), made.to("cpu")(x.cpu()), rtol=1e-4, atol=1e-5)

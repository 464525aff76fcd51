"""The modules of `numbacc.nn`: gradients against central differences, flat buffers, copies, generation."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc

import numpy as np
import pytest
from conftest import refused
from skips import skip_if

import numbacc
from numbacc import attention, nn
from numbacc import elementwise as ew
from numbacc.base import dtypes
from numbacc.base.dispatch import simulated
from numbacc.errors import DTypeError, OptionError, ShapeError
from numbacc.gemm import layers
from numbacc.nn import functions

pytestmark = [pytest.mark.usefixtures("poison"), pytest.mark.sampled(98, simulated=0)]


class Residual(nn.Module):
    """A module with its argument as residual."""

    def __init__(self, inner):
        self.inner = inner

    def __call__(self, x):
        return self.inner(x, x)


class Normed(nn.Module):
    """A residual connection around a norm and a module."""

    def __init__(self, norm, inner):
        self.norm, self.inner = norm, inner

    def __call__(self, x):
        return self.inner(x, x, norm=self.norm)


class Loss(nn.Module):
    """A model whose result is a loss of it and a target."""

    def __init__(self, loss, *arguments):
        self.loss, self.arguments = loss, arguments

    def __call__(self, x):
        return self.loss(x, TARGET)


TARGET = np.array([[1, 4, -100], [0, 2, 3]])
#: Name -> (a function that makes the module, the shape of its argument).
MODULES = {
    "linear": (lambda: nn.Linear(4, 6), (2, 3, 4)),
    "linear, relu, residual": (lambda: Residual(nn.Linear(4, 4, activation="relu")), (5, 4)),
    "linear, gelu, no bias": (lambda: nn.Linear(4, 6, False, "gelu"), (5, 4)),
    "rms norm": (lambda: nn.RMSNorm(4), (2, 3, 4)),
    "layer norm": (lambda: nn.LayerNorm(4), (2, 3, 4)),
    "gated mlp": (lambda: Residual(nn.GatedMLP(4, 6)), (2, 3, 4)),
    "gated mlp, reglu": (lambda: nn.GatedMLP(4, 6, "reglu", bias=True, recomputes=True), (5, 4)),
    "attention": (lambda: nn.Attention(8, 4, 2, length=5), (2, 5, 8)),
    "attention, window": (
        lambda: Residual(nn.Attention(8, 2, rope=None, bias=True, mask=attention.CausalSlidingWindow(2))), (2, 5, 8),
    ),
    "attention, other heads": (lambda: nn.Attention(6, 2, 1, head=4, mask=None, length=8), (1, 5, 6)),
    "normed attention": (lambda: Normed(nn.RMSNorm(8), nn.Attention(8, 4, 2, length=5)), (2, 5, 8)),
    "normed mlp": (lambda: Normed(nn.LayerNorm(4), nn.GatedMLP(4, 6, bias=True)), (2, 3, 4)),
    "normed mlp, recomputed": (lambda: Normed(nn.RMSNorm(4), nn.GatedMLP(4, 6, recomputes=True)), (2, 3, 4)),
    "conv": (lambda: nn.Conv(3, 4, (3, 2), padding=1, stride=(2, 1)), (2, 3, 5, 4)),
    "conv, channels last": (lambda: nn.Conv(4, 4, (3,), groups=2, layout="NWC", bias=False), (2, 6, 4)),
    "cross entropy": (lambda: nn.Sequential(nn.Linear(4, 5), Loss(nn.CrossEntropy(label_smoothing=0.1))), (2, 3, 4)),
    "linear cross entropy": (lambda: Loss(nn.LinearCrossEntropy(4, 5, reduction="sum")), (2, 3, 4)),
    "linear cross entropy, chunks": (lambda: Loss(nn.LinearCrossEntropy(4, 5)), (2, 3, 4)),
    "tied, chunks": (lambda: Loss(nn.LinearCrossEntropy(4, 5, nn.Embedding(5, 4, std=0.5))), (2, 3, 4)),
    "tied": (lambda: Loss(nn.LinearCrossEntropy(4, 5, nn.Embedding(5, 4, std=0.5))), (2, 3, 4)),
    "sequential": (lambda: nn.Sequential(nn.Linear(4, 6), nn.wrap(ew.tanh), nn.RMSNorm(6)), (5, 4)),
}  # fmt: skip


def loss_of(place, model, x, weights):
    """A variable: the sum of the model's results, weighted; of a loss three times."""
    y = model(x)
    return y * 3.0 if y.ndim == 0 else (y * place.put(weights(y.shape))).sum()


def weights(shape):
    return np.random.default_rng(5).standard_normal(shape)


@pytest.fixture
def target(place, monkeypatch):
    monkeypatch.setitem(globals(), "TARGET", place.put(np.array([[1, 4, -100], [0, 2, 3]])))


def with_gradients(place, model, values, **options):
    """(loss, flat gradients, gradient of x)."""
    with nn.Tape() as tape:
        x = nn.Variable(place.put(values) if isinstance(values, np.ndarray) else values)
        loss = loss_of(place, model, x, options.get("weights", weights))
    tape.backward(loss)
    return float(loss), place.get(model.buffers.gradients), place.get(x.gradient)


@pytest.mark.parametrize("name", MODULES)
def test_gradients(place, name, target, monkeypatch):
    make, shape = MODULES[name]
    if "chunks" in name:
        monkeypatch.setattr(functions, "_WHOLE", 0)
    rng = np.random.default_rng(1)
    model, values = make().initialize("float64", seed=2), rng.standard_normal(shape)
    buffers = model.buffers
    for each in buffers.parameters:  # biases and norms are not as at first
        each.value[...] = place.put(place.get(each.value) + 0.3 * rng.standard_normal(each.shape))
    flat, (_, slope, dx) = place.get(buffers.values), with_gradients(place, model, values)
    assert np.isfinite(slope).all()
    for which in ("parameters", "x"):
        directions = rng.standard_normal(flat.shape), rng.standard_normal(shape)
        exact = (slope @ directions[0]) if which == "parameters" else (dx * directions[1]).sum()
        losses = []
        for step in (1e-6, -1e-6):
            moved = flat + step * directions[0] * (which == "parameters")
            buffers.values[...] = place.put(moved)
            argument = place.put(values + step * directions[1] * (which == "x"))
            y = model(argument)
            assert not isinstance(y, nn.Variable)
            y = place.get(y)
            losses.append(float(3.0 * y if y.ndim == 0 else (y * weights(y.shape)).sum()))
        assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(exact, rel=2e-7, abs=1e-8), which


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dtypes_and_gradients_that_are_summed(place, dtype):
    """Gradients in narrow dtypes are near exact ones; in float32 buffers they add up without rounding to the dtype."""
    rng, half = np.random.default_rng(3), dtypes.dtype(dtype)
    model, exact = (
        nn.Sequential(
            nn.Conv(8, 8, (3,), padding=1, layout="NWC"), nn.Linear(8, 8), nn.LayerNorm(8), Residual(nn.GatedMLP(8, 8))
        )
        for _ in range(2)
    )
    model.initialize(dtype, seed=1, gradient_dtype="float32")
    exact.initialize("float64")
    exact.load_state_dict(model.state_dict())
    values = rng.standard_normal((2, 3, 8)).astype(half)

    def narrow(shape):
        return weights(shape).astype(half)

    _, wanted, dx = with_gradients(place, exact, values.astype(np.float64))
    _, _, found = with_gradients(place, model, values, weights=narrow)
    eps = 2.0**-20 if half.itemsize == 4 else 2.0**-6
    for _ in range(2):
        with nn.Tape() as tape:
            loss = loss_of(place, model, nn.Variable(place.put(values)), narrow)
        tape.backward(loss, accumulate=True)
    assert model.buffers.gradients.dtype == np.float32 and model.buffers.values.dtype == half
    flat = place.get(model.buffers.gradients)
    assert np.abs(flat - 3 * wanted).max() <= 3 * eps * np.abs(wanted).max()
    assert np.abs(found.astype(np.float64) - dx).max() <= eps * np.abs(dx).max()
    for each in model.buffers.parameters:
        assert each.span.start % 64 == 0


def test_strided_arguments(place):
    """Arguments of any layout give the same as contiguous ones."""
    rng = np.random.default_rng(4)
    model = nn.Sequential(nn.RMSNorm(8), Residual(nn.Attention(8, 2, 1, length=6)), Residual(nn.GatedMLP(8, 8)))
    model.initialize("float32")
    values = rng.standard_normal((2, 6, 8)).astype(np.float32)
    found = [
        with_gradients(place, model, place.operand(values, **how).view)
        for how in ({}, {"order": (1, 0, 2)}, {"margins": ((0, 0), (1, 0), (0, 3))}, {"steps": (1, 2, 1)})
    ]
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_no_gradient_of_an_array(place, monkeypatch):
    """A layer whose argument is an array computes the gradients of its parameters alone."""
    calls, product = [], layers.matmul
    monkeypatch.setattr(layers, "matmul", lambda *given, **options: calls.append(0) or product(*given, **options))
    model, x = nn.Linear(4, 3, activation="relu").initialize("float64"), place.put(np.ones((5, 4)))
    found = []
    for argument in (nn.Variable(x), x):
        calls.clear()
        with nn.Tape() as tape:
            loss = model(argument).sum()
        tape.backward(loss)
        found.append((len(calls), place.get(model.buffers.gradients)))
    assert [count for count, _ in found] == [3, 2]
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize(
    ("dropout", "checkpointing", "arrays"), [(0.0, False, 15.25), (0.0, "gates", 12.5), (0.1, "norms", 10.5)]
)
def test_saved_bytes(dropout, checkpointing, arrays):
    """Each layer keeps the norms' arguments and results, q, k and v, attention's result, the first product, the gate's.

    Gates take inner / width = 2.75 arrays of the width.
    """
    shape, width, inner = (2, 64), 128, 352

    def saved(layers):
        model = nn.Transformer(
            96,
            width=width,
            layers=layers,
            heads=4,
            kv_heads=2,
            length=shape[1],
            inner=inner,
            dropout=dropout,
            checkpointing=checkpointing,
        ).initialize("float32", device="cpu")
        tokens = np.zeros(shape, np.int32)
        with nn.Tape() as tape:  # makes what is made once
            loss = model(tokens, tokens)
        del tape, loss
        gc.collect(1)
        tracemalloc.start()
        with nn.Tape() as tape:
            loss = model(tokens, tokens)
        gc.collect(1)
        nbytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert tape is not None and np.isfinite(float(loss))
        return nbytes

    each = 2 * 64 * width * 4
    assert arrays <= (saved(2) - saved(1)) / each < arrays + 0.5


class Tied(nn.Module):
    """A model with parameters in lists and dictionaries, one of them twice."""

    def __init__(self):
        self.table = nn.Embedding(6, 4)
        self.parts = {"a": nn.Linear(4, 4), "b": [0]}
        self.norms = [nn.LayerNorm(4), None]
        self.head = nn.LinearCrossEntropy(4, 6, self.table)

    def __call__(self, tokens, target=None):
        x = self.norms[0](self.parts["a"](self.table(tokens)))
        return self.head.logits(x) if target is None else self.head(x, target)


def trained(place, model, optimizer, steps, first=0):
    """The losses of steps."""
    losses = []
    for k in range(first, first + steps):
        tokens = place.put(np.random.default_rng(k).integers(0, 6, (2, 5)))
        with nn.Tape() as tape:
            loss = model(tokens, tokens)
        tape.backward(loss)
        optimizer.step()
        losses.append(float(loss))
    return losses


def test_names_states_and_copies(place):
    """States are loaded by name; pickled and deep copies are trained like the original, and share no memory with it."""
    model = Tied().initialize("bfloat16", seed=1)
    names = ["table.weight", "parts.a.weight", "parts.a.bias", "norms.0.weight", "norms.0.bias"]
    assert list(model.parameters()) == names and len(list(model.modules())) == 5
    assert model.norms[0].buffers is model.buffers
    assert [each.decay for each in model.parameters().values()] == [True, True, False, False, False]
    optimizer = nn.AdamW(model, 0.05, max_norm=1.0)
    trained(place, model, optimizer, 2)
    pair = [model, optimizer]
    copies = [copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))]
    other = Tied().initialize("bfloat16", seed=7)
    another = nn.AdamW(other, 0.05, max_norm=1.0)
    other.load_state_dict({name: place.get(each) for name, each in model.state_dict().items()})
    another.load_state_dict({name: place.get(each) for name, each in optimizer.state_dict().items()})
    wanted, state = trained(place, model, optimizer, 3, 2), place.get(model.buffers.values)
    for one, own in (*copies, (other, another)):
        assert one.parts["a"].weight.value is not model.parts["a"].weight.value
        assert trained(place, one, own, 3, 2) == wanted
        np.testing.assert_array_equal(place.get(one.buffers.values), state)
        np.testing.assert_array_equal(place.get(one.table.weight.value), state[:24].reshape(6, 4))
    # The next step begins with the loaded values.
    zeros = {name: np.zeros(each.shape, np.float32) for name, each in model.parameters().items()}
    model.load_state_dict(zeros)
    np.testing.assert_array_equal(place.get(optimizer.master), 0)
    refused(OptionError, "lacks ['norms.0.bias']", run=lambda: model.load_state_dict(dict(list(zeros.items())[:4])))
    model.load_state_dict({"norms.0.bias": np.ones(4)}, strict=False)
    np.testing.assert_array_equal(place.get(model.norms[0].bias.value), 1)
    refused(
        ShapeError,
        "norms.0.bias has shape",
        run=lambda: model.load_state_dict({**zeros, "norms.0.bias": zeros[names[0]]}),
    )
    refused(DTypeError, "dtype=int32", run=lambda: Tied().initialize("int32"))
    refused(OptionError, "no buffers yet", run=lambda: Tied().buffers)


def by_hand(p, g, m, v, t, rate, decay, factor):
    """AdamW's step in float64, in place."""
    g = g * factor
    m += 0.1 * (g - m)
    v += 0.05 * (g * g - v)
    p -= rate * (m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.95**t)) + 1e-8) + decay * p)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("max_norm", [None, 0.5])
def test_adamw(place, dtype, max_norm):
    """Steps follow the formula; the rate is read from its array."""
    model = Tied().initialize(dtype, seed=1)
    buffers, optimizer = model.buffers, nn.AdamW(model, 0.01, max_norm=max_norm)
    size, border = buffers.values.shape[0], buffers.decayed
    exact = [place.get(optimizer.master).astype(np.float64)] + [np.zeros(size) for _ in "mv"]
    decays = np.where(np.arange(size) < border, 0.1, 0.0)
    for t in (1, 2, 3):
        slope = np.random.default_rng(t).standard_normal(size).astype(dtypes.dtype(dtype))
        buffers.gradients[...] = place.put(slope)
        norm = float(np.linalg.norm(slope.astype(np.float64)))
        optimizer.rate = 0.01 * t
        optimizer.step()
        by_hand(
            *exact[:1], slope.astype(np.float64), *exact[1:], t, 0.01 * t, decays,
            1.0 if max_norm is None else max_norm / norm,
        )  # fmt: skip
        if max_norm is not None:
            assert float(place.get(optimizer.norm)) == pytest.approx(norm, rel=1e-3)
        np.testing.assert_allclose(place.get(optimizer.master), exact[0], rtol=2e-5, atol=1e-6)
    rounded = exact[0].astype(dtypes.dtype(dtype)).astype(np.float64)
    np.testing.assert_allclose(place.get(buffers.values).astype(np.float64), rounded, rtol=2**-7, atol=1e-6)
    assert int(place.get(optimizer.count)[0]) == 3


def test_dropout(place):
    """It keeps the mean, is off without a tape, and drops others in the next step and in another module."""
    first, second = nn.Dropout(0.25), nn.Dropout(0.25)
    whole = Tied()
    whole.extra = [first, second]
    whole.initialize("float32")
    ones = place.put(np.ones(4000 if place.name == "numpy" else 256, np.float32))
    assert first(ones) is ones
    masks = []
    for _ in range(2):
        x = nn.Variable(ones)
        with nn.Tape() as tape:
            y, z, again = first(x), second(x), first(x)
            loss = (y * 1.0 + z * 0.0 + again * 0.0).sum()
        tape.backward(loss)
        np.testing.assert_array_equal(place.get(x.gradient), place.get(y.value))
        masks += [place.get(each.value) for each in (y, z, again)]
    assert all((one != two).any() for k, one in enumerate(masks) for two in masks[:k])
    assert {*np.unique(masks)} == {0, np.float32(1 / 0.75)} and abs(np.mean(masks) - 1) < 0.1
    refused(OptionError, "dropout=1", run=lambda: nn.Dropout(1.0))
    with nn.Tape():
        refused(OptionError, "initialize", run=lambda: nn.Dropout()(ones))


def test_generation(place):
    """Generation with the cache gives the same tokens as whole passes, also for parts of a prompt."""
    model = nn.Transformer(13, width=8, layers=2, heads=4, kv_heads=2, length=6, inner=8, std=0.5).initialize("float64")
    prompt = np.array([[3, 1], [7, 12]])
    found = nn.generate(model, prompt, 3, temperature=0)
    known = prompt
    for _ in range(3):
        known = np.concatenate([known, place.get(model(place.put(known)))[:, -1].argmax(-1)[:, None]], axis=1)
    np.testing.assert_array_equal(found, known)
    whole, cache = place.get(model(place.put(known))), nn.KVCache(2, 6)
    parts = [
        place.get(model(place.put(known[:, part].copy()), cache=cache)) for part in (slice(2), slice(2, 4), slice(4, 5))
    ]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-9, atol=1e-9)
    # Beyond the model's length, the older half is forgotten.
    longer = nn.generate(model, prompt, 9, temperature=0.5, top_k=2, seed=1)
    assert longer.shape == (2, 11) and (longer[:, :2] == prompt).all() and longer.max() < 13
    np.testing.assert_array_equal(longer, nn.generate(model, prompt, 9, temperature=0.5, top_k=2, seed=1))
    np.testing.assert_array_equal(nn.generate(model, prompt, 2, top_k=1), nn.generate(model, prompt, 2, temperature=0))
    refused(ShapeError, "the cache has room", run=lambda: model(place.put(known), cache=nn.KVCache(2, 4)))
    refused(ShapeError, "length=6", run=lambda: model(place.put(np.zeros((1, 7), np.int64))))
    with nn.Tape():
        refused(OptionError, "cache", run=lambda: model(place.put(known), cache=nn.KVCache(2, 6)))
    refused(OptionError, "temperature", run=lambda: nn.generate(model, prompt, 1, temperature=-1))
    refused(ShapeError, "tokens", run=lambda: nn.generate(model, prompt[0], 1))
    refused(OptionError, "kv_heads", run=lambda: nn.Attention(8, 4, 3))
    refused(OptionError, "norms", run=lambda: nn.Transformer(5, width=8, layers=1, heads=2, checkpointing="all"))


def transformer_by_hand(p, tokens, heads, kv_heads):
    """The logits of a transformer in float64, written out in NumPy. Weights are by name."""

    def norm(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w

    def rotated(x):
        half = x.shape[-1] // 2
        angle = np.arange(x.shape[1])[:, None] * 10000.0 ** (-np.arange(half) / half)
        cos, sin, a, b = np.cos(angle)[:, None], np.sin(angle)[:, None], x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    x = p["embedding.weight"][tokens]
    batch, length, width = x.shape
    d, seen = width // heads, np.tri(length, dtype=bool)
    for i in range(sum("qkv" in name for name in p)):
        at = f"layers.{i}."
        w = {name.removeprefix(at): each for name, each in p.items() if name.startswith(at)}
        qkv = (norm(x, w["norm.weight"]) @ w["attention.qkv.weight"]).reshape(batch, length, -1, d)
        q, k, v = rotated(qkv[:, :, :heads]), rotated(qkv[:, :, heads:-kv_heads]), qkv[:, :, -kv_heads:]
        o = np.empty_like(q)
        for n, h in np.ndindex(batch, heads):
            own = h // (heads // kv_heads)
            e = np.where(seen, np.exp(q[n, :, h] @ k[n, :, own].T / np.sqrt(d)), 0.0)
            o[n, :, h] = e / e.sum(-1, keepdims=True) @ v[n, :, own]
        x = x + o.reshape(batch, length, -1) @ w["attention.out.weight"]
        gate, up = np.split(norm(x, w["mlp_norm.weight"]) @ w["mlp.up.weight"], 2, axis=-1)
        x = x + gate / (1 + np.exp(-gate)) * up @ w["mlp.down.weight"]
    return norm(x, p["norm.weight"]) @ p["head.weight"]


def test_transformers_compute_what_their_sources_say(place):
    rng = np.random.default_rng(6)
    model = nn.Transformer(9, width=16, layers=2, heads=4, kv_heads=2, length=6, inner=8, std=0.4).initialize("float64")
    for each in model.buffers.parameters:  # norms are not 1
        each.value[...] = place.put(place.get(each.value) + 0.2 * rng.standard_normal(each.shape))
    tokens = rng.integers(0, 9, (2, 6))
    target = rng.integers(0, 9, (2, 6))
    logits = transformer_by_hand({name: place.get(each) for name, each in model.state_dict().items()}, tokens, 4, 2)
    np.testing.assert_allclose(place.get(model(place.put(tokens))), logits, rtol=1e-10, atol=1e-10)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = -np.take_along_axis(logs, target[..., None], -1).mean()
    assert float(place.get(model(place.put(tokens), place.put(target)))) == pytest.approx(wanted, rel=1e-10)


def test_gradients_do_not_depend_on_what_is_kept(place):
    rng, state, found = np.random.default_rng(7), None, []
    tokens = rng.integers(0, 9, (2, 6))
    for checkpointing in (False, "gates", "norms", True):
        options = {"width": 16, "layers": 2, "heads": 2, "length": 6, "inner": 8, "std": 0.4}
        model = nn.Transformer(9, **options, checkpointing=checkpointing).initialize("float64")
        state = state or {name: 0.2 + place.get(each) for name, each in model.state_dict().items()}
        model.load_state_dict(state)
        with nn.Tape() as tape:
            loss = model(place.put(tokens), place.put(tokens))
        tape.backward(loss)
        found.append(place.get(model.buffers.gradients))
    assert np.abs(found[0]).max() > 0
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-9, atol=1e-12)


@skip_if(simulated(), "not simulated")
def test_transformers_learn():
    """A tied transformer with dropout and checkpoints repeats a sequence."""
    model = nn.Transformer(
        5, width=16, layers=1, heads=2, length=8, inner=16, tied=True, dropout=0.02, checkpointing=True, std=0.2
    ).initialize("float32")
    optimizer, tokens = nn.AdamW(model, 0.02), numbacc.asarray(np.arange(16, dtype=np.int32).reshape(2, 8) % 5)
    losses = []
    for _ in range(40):
        with nn.Tape() as tape:
            loss = model(tokens[:, :-1], tokens[:, 1:])
        tape.backward(loss)
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.3 < losses[0]


@pytest.mark.gpu
def test_captured_training():
    """Launches of a captured step train as plain steps do; its inputs, the rate and dropout's masks may change."""
    rng = np.random.default_rng(0)
    batches = [rng.integers(0, 11, (4, 17), dtype=np.int32) for _ in range(6)]
    found = []
    for captured in (False, True):
        model = nn.Transformer(11, width=32, layers=2, heads=4, kv_heads=2, length=16).initialize("bfloat16")
        optimizer, inputs, losses = nn.AdamW(model, 0.01, max_norm=1.0), numbacc.asarray(batches[0].copy()), []

        def step(model=model, optimizer=optimizer, inputs=inputs):
            with nn.Tape() as tape:
                loss = model(inputs[:, :-1], inputs[:, 1:])
            tape.backward(loss)
            optimizer.step()
            return loss.value

        for k, batch in enumerate(batches):
            inputs[...], optimizer.rate = batch, 0.01 / (k + 1)
            if captured and k == 1:
                with numbacc.graph() as graph:
                    loss = step()
            if captured and k:
                graph.launch()
            else:
                loss = step()
            losses.append(float(numbacc.asnumpy(loss)))
        found.append(losses)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)

"""A training step of a transformer: by `numbacc.nn`, written by hand with numbacc's functions, and by torch.

All have the same weights and the same batches: RMSNorm, RoPE, grouped heads, SwiGLU, cross entropy; AdamW with float32
copies of bfloat16 parameters.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc import attention, elementwise, gated, gemm, nn

from . import peers
from .harness import RESOLUTION, Report

#: Steps whose losses are compared.
_STEPS = 10
_DECAY, _BETA1, _BETA2, _EPS = 0.1, 0.9, 0.95, 1e-6


#: Both steps of numbacc measure cuBLASLt's algorithms at the first call of each shape.
_product = partial(gemm.matmul, tune=True)


class Config(NamedTuple):
    """The shape of a model and of a batch, and the learning rate."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    vocabulary: int
    length: int
    batch: int
    inner: int
    rate: float

    def model(self, checkpointing: bool | str = False) -> nn.Transformer:
        """Return the model, without its buffers."""
        return nn.Transformer(
            self.vocabulary, width=self.width, layers=self.layers, heads=self.heads, kv_heads=self.kv_heads,
            length=self.length, inner=self.inner, checkpointing=checkpointing,
        )  # fmt: skip


#: A is like GPT-2 small, B like a model of characters.
CONFIGS = {
    "A": Config(12, 768, 12, 4, 50304, 1024, 8, 2048, 6e-4),
    "B": Config(4, 256, 4, 2, 96, 256, 64, 704, 1e-3),
}


def _batches(config: Config) -> list[Any]:
    """Return batches of tokens, of unequal frequency, so that there is something to learn."""
    rng = np.random.default_rng(1)
    shape = _STEPS, config.batch, config.length + 1
    return list((config.vocabulary * rng.random(shape) ** 3).astype(np.int32))


# ---------------------------------------------------------------- numbacc


class ByModules:
    """The step by `numbacc.nn`."""

    def __init__(self, config: Config, dtype: str, checkpointing: bool | str = False):
        self.model = config.model(checkpointing).initialize(dtype, tune=True)
        self.optimizer = nn.AdamW(self.model, config.rate, beta1=_BETA1, beta2=_BETA2, weight_decay=_DECAY)

    def step(self, tokens: Any, target: Any) -> Any:
        with nn.Tape() as tape:
            loss = self.model(tokens, target)
        tape.backward(loss)
        self.optimizer.step()
        return loss.value


class ByHand:
    """The same step without a tape: each gradient is written out. The buffers belong to the same model."""

    def __init__(self, config: Config, dtype: str):
        self.config, model = config, config.model().initialize(dtype, tune=True)
        self.buffers, self.optimizer = (
            model.buffers,
            nn.AdamW(model, config.rate, beta1=_BETA1, beta2=_BETA2, weight_decay=_DECAY),
        )
        found = model.parameters()
        self.w = {name.removesuffix(".weight"): each.value for name, each in found.items()}
        self.g = {name.removesuffix(".weight"): each.gradient for name, each in found.items()}
        tables = elementwise.rope_tables(config.length, config.width // config.heads)
        self.tables = [each[:, None] for each in tables]

    def _parts(self, x: Any) -> tuple[Any, Any, Any]:
        h, k = self.config.heads, self.config.kv_heads
        return x[:, :, :h], x[:, :, h : h + k], x[:, :, h + k :]

    def _layer(self, i: int, x: Any) -> tuple[Any, tuple[Any, ...]]:
        c, w, at = self.config, self.w, f"layers.{i}."
        h = elementwise.rms_norm(x, w[at + "norm"])
        qkv = _product(h, w[at + "attention.qkv"]).reshape((c.batch, c.length, -1, c.width // c.heads))
        rotated = qkv[:, :, : c.heads + c.kv_heads]
        elementwise.rope(rotated, *self.tables, out=rotated)
        o, stats = attention.forward(*self._parts(qkv), mask="causal", layout="BSHD", return_stats=True)
        rows = o.reshape((len(x), -1))
        y = _product(rows, w[at + "attention.out"], c=x, beta=1.0)
        h2 = elementwise.rms_norm(y, w[at + "mlp_norm"])
        u = _product(h2, w[at + "mlp.up"])
        z = gated.forward(u, "swiglu", gate="first")
        return _product(z, w[at + "mlp.down"], c=y, beta=1.0), (x, h, qkv, o, stats, rows, y, h2, u, z)

    def _layer_backward(self, i: int, d: Any, kept: tuple[Any, ...]) -> None:
        """Replace d, the gradient of the layer's result, by that of its argument."""
        c, w, g, at = self.config, self.w, self.g, f"layers.{i}."
        x, h, qkv, o, stats, rows, y, h2, u, z = kept
        dz = _product(d, w[at + "mlp.down"].T)
        _product(z.T, d, out=g[at + "mlp.down"])
        du = gated.backward(dz, u, "swiglu", gate="first", out=u)
        dh2 = _product(du, w[at + "mlp.up"].T)
        _product(h2.T, du, out=g[at + "mlp.up"])
        _norm_backward(dh2, y, w[at + "mlp_norm"], d, g[at + "mlp_norm"])
        do = _product(d, w[at + "attention.out"].T)
        _product(rows.T, d, out=g[at + "attention.out"])
        dqkv = numbacc.empty_like(qkv)
        attention.backward(
            do.reshape(o.shape), *self._parts(qkv), o, stats, mask="causal", layout="BSHD", out=self._parts(dqkv)
        )
        rotated = dqkv[:, :, : c.heads + c.kv_heads]
        elementwise.rope_backward(rotated, *self.tables, out=rotated)
        drows = dqkv.reshape((len(x), -1))
        dh = _product(drows, w[at + "attention.qkv"].T)
        _product(h.T, drows, out=g[at + "attention.qkv"])
        _norm_backward(dh, x, w[at + "norm"], d, g[at + "norm"])

    def step(self, tokens: Any, target: Any) -> Any:
        c, w, g = self.config, self.w, self.g
        x = elementwise.take(w["embedding"], tokens, axis=0).reshape((-1, c.width))
        kept = []
        for i in range(c.layers):
            x, saved = self._layer(i, x)
            kept.append(saved)
        h = elementwise.rms_norm(x, w["norm"])
        logits = _product(h, w["head"]).reshape((*target.shape, c.vocabulary))
        loss, _ = elementwise.cross_entropy_and_gradient(logits, target, out=(None, logits))
        dlogits = logits.reshape((len(x), -1))
        dh = _product(dlogits, w["head"].T)
        _product(h.T, dlogits, out=g["head"])
        d, _ = elementwise.rms_norm_backward(dh, x, w["norm"], out=(numbacc.empty_like(x), g["norm"]))
        for i in reversed(range(c.layers)):
            self._layer_backward(i, d, kept.pop())
        d = d.reshape((*tokens.shape, c.width))
        elementwise.take_backward(d, w["embedding"], tokens, axis=0, out=g["embedding"])
        self.optimizer.step()
        return loss


def _norm_backward(dy: Any, x: Any, weight: Any, total: Any, dweight: Any) -> None:
    """Add the gradient of a norm's argument to `total`."""
    elementwise.rms_norm_backward(dy, x, weight, out=(total, dweight), accumulate=(True, False))


def _captured(made: Any, tokens: Any, target: Any) -> tuple[Callable[[], Any], Any]:
    """Return a call that launches the step as a graph, and the array of its loss."""
    with numbacc.graph() as graph:
        loss = made.step(tokens, target)
    return graph.launch, loss


# ---------------------------------------------------------------- torch


def torch_model(torch: Any, config: Config, weights: dict[str, Any], dtype: Any, device: str = "cuda") -> Any:
    """Return the model as a torch module. Its parts are `embedding`, `layers` and `head`, which computes the loss.

    Args:
        weights: name -> NumPy array or tensor, as numbacc's model names and shapes them.
    """
    functional, c = torch.nn.functional, config
    angles = np.outer(np.arange(c.length), 10000.0 ** (-2 * np.arange(c.width // c.heads // 2) / (c.width // c.heads)))

    def parameter(name: str) -> Any:
        value = torch.as_tensor(weights[name])
        # torch's linear layers have weights of shape (outputs, inputs).
        own = value if value.ndim == 1 or name == "embedding" else value.T
        return torch.nn.Parameter(own.to(device, dtype).contiguous().clone())

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, number: int) -> None:
            super().__init__()
            at = f"layers.{number}."
            self.norm, self.mlp_norm = parameter(at + "norm"), parameter(at + "mlp_norm")
            self.qkv, self.out = parameter(at + "attention.qkv"), parameter(at + "attention.out")
            self.up, self.down = parameter(at + "mlp.up"), parameter(at + "mlp.down")

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            n, d = x.shape[0], (c.width,)

            def rope(x: Any) -> Any:
                a, b = x.float().chunk(2, dim=-1)
                return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)

            h = functional.rms_norm(x, d, self.norm, _EPS)
            qkv = functional.linear(h, self.qkv).view(n, c.length, -1, c.width // c.heads)
            q, k, v = qkv.transpose(1, 2).split((c.heads, c.kv_heads, c.kv_heads), dim=1)
            o = functional.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True, enable_gqa=True)
            x = x + functional.linear(o.transpose(1, 2).reshape(n, c.length, -1), self.out)
            u = functional.linear(functional.rms_norm(x, d, self.mlp_norm, _EPS), self.up)
            gate, up = u.chunk(2, dim=-1)
            return x + functional.linear(functional.silu(gate) * up, self.down)

    class Head(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.head = parameter("norm"), parameter("head")

        def forward(self, x: Any, target: Any) -> Any:
            logits = functional.linear(functional.rms_norm(x, (c.width,), self.norm, _EPS), self.head)
            return functional.cross_entropy(logits.float().view(-1, c.vocabulary), target.reshape(-1).long())

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = parameter("embedding")
            self.layers = torch.nn.ModuleList(Block(number) for number in range(c.layers))
            self.head = Head()
            for name, f in (("cos", np.cos), ("sin", np.sin)):
                self.register_buffer(name, torch.from_numpy(f(angles).astype(np.float32)).to(device))

        def forward(self, tokens: Any, target: Any) -> Any:
            x = functional.embedding(tokens, self.embedding)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin)
            return self.head(x, target)

    return Model()


class ByTorch:
    """The step by torch: bfloat16 parameters with float32 copies and torch's fused AdamW, or all in float32."""

    def __init__(
        self,
        torch: Any,
        config: Config,
        weights: dict[str, Any],
        dtype: str,
        mode: str | None = None,
        device: str = "cuda",
    ):
        self._torch = torch
        model = torch_model(torch, config, weights, getattr(torch, dtype), device)
        self._params = list(model.parameters())
        self._is_narrow = dtype == "bfloat16"
        self._masters = [p.detach().float().clone() for p in self._params] if self._is_narrow else self._params
        for each in self._masters if self._is_narrow else ():
            each.grad = torch.zeros_like(each)
        groups = [
            {"params": [m for m in self._masters if (m.ndim > 1) == decays], "weight_decay": _DECAY * decays}
            for decays in (True, False)
        ]
        self._optimizer = torch.optim.AdamW(
            groups, lr=config.rate, betas=(_BETA1, _BETA2), fused=True, capturable=device == "cuda"
        )
        self._call = torch.compile(model, mode=mode) if mode else model
        self._marks = mode == "reduce-overhead"

    def step(self, tokens: Any, target: Any) -> Any:
        torch = self._torch
        if self._marks:
            torch.compiler.cudagraph_mark_step_begin()
        for p in self._params:
            p.grad = None
        loss = self._call(tokens, target)
        loss.backward()
        if self._is_narrow:
            torch._foreach_copy_([m.grad for m in self._masters], [p.grad for p in self._params])
        self._optimizer.step()
        if self._is_narrow:
            with torch.no_grad():
                torch._foreach_copy_(self._params, self._masters)
        return loss.detach()


def _torch_graph(torch: Any, made: ByTorch, tokens: Any, target: Any) -> Callable[[], Any]:
    """Return a call that replays a whole step as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            made.step(tokens, target)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made.step(tokens, target)
    return graph.replay  # type: ignore[no-any-return]


# ---------------------------------------------------------------- figures


def run(report: Report, torch: Any, *, quick: bool = False) -> None:
    """All figures of training steps."""
    for name, config in CONFIGS.items():
        label = (
            f"training step {name}, {config.layers} layers of {config.width}, {config.batch} x {config.length} tokens"
        )
        if report.wants(label):
            _Comparison(report, torch, label, config, quick).run()


class _Comparison:
    """The works of one configuration, with their losses, peaks of memory and times."""

    def __init__(self, report: Report, torch: Any, label: str, config: Config, quick: bool):
        self._report, self._torch, self._label, self._config = report, torch, label, config
        self._quick, self._batches = quick, _batches(config)
        self._works: dict[str, Callable[[], Any]] = {}
        self._losses: dict[str, Any] = {}
        self._peaks: dict[str, float] = {}
        self._missing: dict[str, str] = {}
        self._kept: list[Any] = []

    def run(self) -> None:
        weights = {
            name.removesuffix(".weight"): numbacc.asnumpy(each)
            for name, each in self._config.model().initialize("float32", device="cpu").state_dict().items()
        }
        host = self._batches[0]
        tokens, target = (numbacc.asarray(np.ascontiguousarray(each)) for each in (host[:, :-1], host[:, 1:]))
        makers = {"by hand": ByHand, "ours": ByModules}
        made = {name: self._add_ours(name, maker, tokens, target) for name, maker in makers.items()}
        for again in ("gates", "norms"):
            self._add_ours(f"ours, {again} again", partial(ByModules, checkpointing=again), tokens, target)
        hand, table = (self._by_function(each, tokens, target) for each in made.values())
        torch = self._torch
        self._tokens, self._target = (
            torch.from_numpy(each).cuda() for each in (host[:, :-1].copy(), host[:, 1:].copy())
        )
        exact = ByTorch(torch, self._config, weights, "float32")
        self._losses["exact"] = self._torch_losses(exact)
        del exact
        torch.cuda.empty_cache()
        self._attempt("torch", lambda: self._add_torch("torch", weights, None))
        if not self._quick:
            self._attempt("torch.compile", lambda: self._add_torch("torch.compile", weights, "default"))
            mode = "reduce-overhead"
            self._attempt(f"torch.compile {mode}", lambda: self._add_torch(f"torch.compile {mode}", weights, mode))
        self._figures(table, hand)

    def _attempt(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            first = next(iter(str(error).strip().splitlines()), "")
            self._missing[name] = f"{type(error).__name__}: {first[:160]}"

    def _add_ours(self, name: str, maker: Callable[..., Any], tokens: Any, target: Any) -> Any:
        gc.collect()
        numbacc.current_stream().synchronize()
        numbacc.peak_memory(reset=True)
        before = numbacc.peak_memory()
        made = maker(self._config, "bfloat16")
        losses = []
        for k, batch in enumerate(self._batches):
            tokens[...], target[...] = batch[:, :-1].copy(), batch[:, 1:].copy()
            losses.append(made.step(tokens, target))
            if k == 0:  # the first step measures algorithms
                numbacc.current_stream().synchronize()
                numbacc.peak_memory(reset=True)
        self._losses[name] = np.array([float(numbacc.asnumpy(each)) for each in losses])
        self._peaks[name] = (numbacc.peak_memory() - before) / 2**30
        launch, loss = _captured(made, tokens, target)
        self._kept += [loss, made]
        self._works[name] = launch
        if "again" not in name:
            self._works[f"{name}, no graph"] = lambda: made.step(tokens, target)
        return made

    def _torch_losses(self, made: ByTorch) -> Any:
        losses = []
        for k, batch in enumerate(self._batches):
            for to, given in ((self._tokens, batch[:, :-1]), (self._target, batch[:, 1:])):
                to.copy_(self._torch.from_numpy(given.copy()))
            losses.append(made.step(self._tokens, self._target).clone())
            if k == 0:  # the first step compiles
                self._torch.cuda.synchronize()
                self._torch.cuda.reset_peak_memory_stats()
        return np.array([float(each) for each in losses])

    def _add_torch(self, name: str, weights: dict[str, Any], mode: str | None) -> None:
        torch = self._torch
        torch.compiler.reset()
        # What is freed later would make the peak above the memory of now too small: garbage, and cuBLAS's workspaces of
        # all streams, which `reduce-overhead` frees.
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        base = torch.cuda.memory_allocated()
        made = ByTorch(torch, self._config, weights, "bfloat16", mode)
        self._losses[name] = self._torch_losses(made)
        self._peaks[name] = (torch.cuda.max_memory_allocated() - base) / 2**30
        self._works[name] = lambda: made.step(self._tokens, self._target)
        if mode != "reduce-overhead":
            self._works[f"{name} in a graph"] = _torch_graph(torch, made, self._tokens, self._target)

    def _by_function(self, made: Any, tokens: Any, target: Any) -> dict[str, float]:
        """Return the milliseconds of a step by function, from events around each call."""
        made.step(tokens, target)
        numbacc.current_stream().synchronize()
        # The GPU is busy while the host queues the step, so that no time is a gap between two calls.
        self._torch.cuda._sleep(400_000_000)
        with numbacc.record() as log:
            made.step(tokens, target)
        sums: dict[str, float] = {}
        for call in log:
            shapes = (
                ""
                if not call.function.startswith("gemm.")
                else " x ".join(str(each.shape) for each in call.inputs[:2] if each is not None)
            )
            key = f"{call.function} {shapes}".strip()
            sums[key] = sums.get(key, 0.0) + (call.gpu_us or 0.0) / 1000
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def _figures(self, table: dict[str, float], hand: dict[str, float]) -> None:
        times = _medians(self._torch, self._works, 7 if self._quick else 15)
        exact = self._losses.pop("exact")
        errors = {name: float(abs(found - exact).max()) for name, found in self._losses.items()}
        right = errors["ours"] <= 2 * max(errors.get("torch", 0.0), errors["by hand"]) + 1e-3
        compiled = [ms for name, ms in times.items() if name.startswith("torch.compile")]
        best = min(compiled or [ms for name, ms in times.items() if name.startswith("torch")])
        ratio, share_of_hand = times["ours"] / best, times["ours"] / times["by hand"]
        about = {"missing": self._missing} if self._missing else {}
        self._report.add(
            name=self._label, right=right, ms=times["ours"], ratio=ratio, bound=0.85, holds=ratio <= 0.85 + RESOLUTION,
            peers={f"{name} ms": ms for name, ms in times.items() if name != "ours"},
            tokens_per_second=self._config.batch * self._config.length / times["ours"] * 1000,
            loss_errors=errors, **about,
        )  # fmt: skip
        self._report.add(
            name=f"{self._label}, against the step by hand", right=right, ms=times["ours"], ratio=share_of_hand,
            bound=1.01, holds=share_of_hand <= 1.01 + RESOLUTION,
        )  # fmt: skip
        others = {name: each for name, each in self._peaks.items() if name.startswith("torch.compile")}
        least = min((others or self._peaks).values())
        share = self._peaks["ours"] / least
        self._report.add(
            name=f"{self._label}, memory", gib=self._peaks["ours"], ratio=share, bound=1.0,
            holds=share <= 1.0 + RESOLUTION,
            peers={f"{name} GiB": each for name, each in self._peaks.items() if name != "ours"},
        )  # fmt: skip
        for name, sums in (("by function", table), ("the step by hand, by function", hand)):
            self._report.add(name=f"{self._label}, {name}", ms=sum(sums.values()), peers=sums)


def _medians(torch: Any, works: dict[str, Callable[[], Any]], rounds: int, each: int = 4) -> dict[str, float]:
    """Return the median milliseconds of a step of each work, of several steps in a row.

    The works take turns, each time in another order: a GPU that is hot after another work is slower.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    order, rng = list(works.items()), np.random.default_rng(0)
    for _ in range(rounds):
        rng.shuffle(order)
        for name, work in order:
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(each):
                work()
            torch.cuda.synchronize()
            times[name].append((time.perf_counter() - start) / each * 1000)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Measure without the other figures of the subject."""
    report = Report()
    run(report, peers.import_torch())


if __name__ == "__main__":
    main()

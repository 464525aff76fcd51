"""Data-parallel training on all GPUs of this host: share of perfect, replicated and sharded state, weak and strong.

`numbacc.distributed.launch` starts new processes for each number of GPUs. This module is their program, too. *Perfect*
is the step of one GPU without communication, measured on all GPUs at once, in turns with the step that is judged. In
weak scaling each GPU has the configuration's batch; in strong scaling they share it. The peers are torch's
DistributedDataParallel and FSDP2 (`fully_shard`) with torch.compile.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import numbacc
from numbacc import distributed, elementwise, nn
from numbacc.base.dispatch import has_gpu, runtime

from . import peers
from .harness import RESOLUTION, Report
from .training import _BETA1, _BETA2, _DECAY, CONFIGS, ByTorch, Config, torch_model

#: Configurations; "1B" has 1.15e9 parameters. Its rate is low: with 3e-4 and no warm-up, its first losses jump, and two
#: runs of one program differ by 0.4.
_CONFIGS = {**CONFIGS, "1B": Config(20, 2048, 16, 8, 50304, 1024, 8, 5632, 3e-5)}
#: Configurations so large that the memory of a GPU holds only two steps at once.
_LARGE = ("1B",)
#: Steps whose losses are compared with those of one GPU that has the whole batch.
_STEPS = 6
#: Name -> options of `ParallelAdamW.for_model`.
_VARIANTS: dict[str, dict[str, Any]] = {
    "replicated": {"shard": False},
    "sharded": {"shard": True, "registered": False},
    "sharded, by copies": {"shard": True, "registered": True},
}
#: torch's ways of data-parallel training.
_TORCH = ("DistributedDataParallel", "FSDP2", "DistributedDataParallel in a graph")
#: The least share of perfect that is promised for a configuration and a number of GPUs, by the fastest variant.
_BOUNDS = {("A", 2): 0.97, ("A", 8): 0.95}
#: Seconds after which the processes of a run are ended.
_LIMIT = 600


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of training on several GPUs."""
    found = runtime().device_count()
    if found < 2:
        print("no figure of distributed: this host has one GPU")
        return
    for name in ("A",) if quick else ("A", "1B"):
        for count in (each for each in (1, 2, 4, 8) if each <= found):
            known = ("weak", "strong")[: 1 if count == 1 else 2]  # with one GPU, both are the same
            scalings = [each for each in known if report.wants(_label(name, each, count))]
            if scalings:
                job = {"name": name, "scalings": scalings, "variants": _VARIANTS, "torch": [] if quick else _TORCH}
                measure(report, job, count)


def _label(name: str, scaling: str, count: int) -> str:
    return f"training {name}, {scaling}, {count} GPU" + "s" * (count > 1)


def measure(report: Report, job: Mapping[str, Any], count: int) -> None:
    """Report the figures of a number of GPUs.

    Args:
        job: the configuration's "name", or its "config"; "scalings"; "variants", as `_VARIANTS`; "torch", the names of
            torch's ways; "limit" in seconds, and the number of "rounds". What differs for a scaling stands under its
            name: {"weak": {"rounds": 5}}.
    """
    if job["torch"] and count > 1:
        # Once, rather than in each rank at the same time.
        distributed.launch([sys.executable, "-m", "benchmarks.distributed", json.dumps({**job, "compile": count})], 1)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.distributed", json.dumps({**job, "folder": folder})]
        status = distributed.launch(command, count)
        for scaling in job["scalings"]:
            path = Path(folder) / f"{scaling}.json"
            label = _label(job["name"], scaling, count)
            if path.exists():
                _figures(report, label, json.loads(path.read_text()))
            if status or not path.exists():
                report.add(name=f"{label}, processes", right=False, missing={"the end": f"status {status}"})


def _figures(report: Report, label: str, found: dict[str, Any]) -> None:
    """Report the figures that rank 0 wrote. The fastest of numbacc's variants is compared with the targets."""
    variants = found["variants"]
    ours = [each for each in variants if variants[each]["ours"]]
    best = min(ours, key=lambda each: variants[each]["ms"], default="")
    torch_ms = min((one["ms"] for one in variants.values() if not one["ours"]), default=None)
    bound = _BOUNDS.get((found["name"], found["gpus"])) if found["scaling"] == "weak" else None
    for each, one in variants.items():
        agrees = one["largest_difference"] <= found["tolerance"]
        goal: dict[str, Any] = {}
        if each == best:
            reached = []
            if bound is not None:
                goal["bound"] = bound
                reached.append(one["share"] >= bound - RESOLUTION)
            if torch_ms is not None:
                goal["torch_ms"] = torch_ms
                reached.append(one["ms"] <= torch_ms * (1 + RESOLUTION))
            if reached:
                goal["holds"] = all(reached)
            if found["missing"]:
                goal["missing"] = found["missing"]
        report.add(
            name=f"{label}, {each}", **{"right" if one["ours"] else "agrees": agrees}, ms=one["ms"],
            ratio=one["share"], **goal, alone_ms=one["alone_ms"], tokens_per_second=one["tokens_per_second"],
            exposed_ms=one.get("exposed_ms"), gib=one["gib"], losses=one["losses"], one_gpu_losses=found["losses"],
            largest_difference=one["largest_difference"], cards=found["cards"], nccl=found["nccl"],
            bus_gb_per_s=found["bus_gb_per_s"],
        )  # fmt: skip
    if found["missing"]:
        print(f"not measured: {found['missing']}", flush=True)


# ---------------------------------------------------------------- the program of each rank


class _Silent:
    """In place of NCCL: does nothing, so that a step takes as long as its own work."""

    calls = 0

    def __init__(self, device: int):
        self.device = device

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class _Step:
    """A training step of `numbacc.nn` on this rank's part of the batch.

    Args:
        values: the parameters at the start; drawn if None.
        options: those of `ParallelAdamW.for_model`; None for a step without communication.
    """

    def __init__(self, team: Any, config: Config, values: Any, options: dict[str, Any] | None):
        self.model = _model(config, values)
        shared: dict[str, Any] = {"beta1": _BETA1, "beta2": _BETA2, "weight_decay": _DECAY}
        self.ready: Any = None
        self.optimizer: Any
        if options is None:
            self.optimizer = nn.AdamW(self.model, config.rate, **shared)
        else:
            self.optimizer = distributed.ParallelAdamW.for_model(team, self.model, config.rate, **shared, **options)
            self.ready = self.optimizer.ready

    def step(self, tokens: Any, target: Any, parts: int = 1) -> Any:
        """Make a step. The batch may be computed in several parts, whose gradients are added."""
        losses, count = [], len(tokens) // parts
        for k in range(parts):
            rows = slice(k * count, (k + 1) * count)
            with nn.Tape() as tape:
                loss = self.model(tokens[rows], target[rows])
            tape.backward(loss, 1 / parts, accumulate=k > 0, ready=self.ready if k == parts - 1 else None)
            losses.append(loss.value)
        self.optimizer.step()
        return losses[0] if parts == 1 else sum(float(numbacc.asnumpy(each)) for each in losses) / parts


def _model(config: Config, values: Any) -> Any:
    """Return the model in bfloat16, with these parameters, or with drawn ones. The GPU draws: there may be 1e9."""
    made = config.model()
    deviations = {}
    for name, each in made.parameters().items():
        if callable(each.initial):
            deviations[name], each.initial = each.initial.keywords["std"], 0.0
    made.initialize("bfloat16", seed=0)
    if values is not None:
        made.buffers.values[...] = values
        return made
    random = numbacc.random.Generator(0)
    for name, each in made.parameters().items():
        if name in deviations:
            each.value[...] = random.normal(0.0, deviations[name], each.shape, dtype="bfloat16")
    return made


def _config(job: Mapping[str, Any]) -> Config:
    return Config(*job["config"]) if "config" in job else _CONFIGS[job["name"]]


def _batch(config: Config, scaling: str, size: int) -> int:
    """Return the number of sequences of each rank."""
    return config.batch // (1 if scaling == "weak" else size)


class _Bench:
    """The measurements of one configuration and scaling in one rank."""

    def __init__(self, team: Any, job: dict[str, Any], scaling: str):
        self.team, self.name, self.scaling = team, job["name"], scaling
        self.job = {**job, **job.get(scaling, {})}
        size, whole = team.world_size, _config(job)
        batch = _batch(whole, scaling, size)
        self.config, self.whole = whole._replace(batch=batch), whole._replace(batch=batch * size)
        self.is_large = self.name in _LARGE
        rng = np.random.default_rng(1)
        shape = _STEPS, self.whole.batch, whole.length + 1
        self.batches = list((whole.vocabulary * rng.random(shape) ** 3).astype(np.int32))
        self.own = slice(team.rank * batch, (team.rank + 1) * batch)
        self.found: dict[str, Any] = {}
        self.missing: dict[str, str] = {}
        self.losses: list[float] = []
        self.bus: dict[str, float] = {}
        self.alone: Any = None
        self.alone_ms = 0.0

    def measure(self, values: Any) -> None:
        """Measure everything, and write what is known after each variant.

        Args:
            values: the parameters at the start.
        """
        host = self._split(self.batches[0][self.own])
        self.values = values
        self.tokens, self.target = map(numbacc.asarray, host)
        self.losses = self._whole_losses()
        if self.team.world_size > 1 and has_gpu():
            self.bus = self._bus()
        self.alone = self._captured(_Step(self.team, self.config, values, None))
        variants = self.job["variants"]
        if self.team.world_size == 1 and variants:
            variants = {"numbacc": None}
        for name, options in variants.items():
            self._attempt(name, lambda options=options: self._variant(options))  # type: ignore[misc]
        torch = peers.import_torch() if self.job["torch"] else None
        if torch is not None:
            if not variants:
                self.alone_ms = self._medians({"alone": self.alone})["alone"]
            if self.is_large:
                self.alone = None
            self._release()
            self._torch(torch)
        self.alone = None
        self._release()

    def _write(self) -> None:
        """Write the figures that are known."""
        if self.team.rank:
            return
        from numbacc.libraries import nccl

        for one in self.found.values():
            one["largest_difference"] = max(abs(x - y) for x, y in zip(one["losses"], self.losses, strict=True))
        several = self.team.world_size > 1
        about = {
            "name": self.name, "gpus": self.team.world_size, "scaling": self.scaling, "variants": self.found,
            "losses": self.losses, "tolerance": 0.02, "missing": self.missing, "bus_gb_per_s": self.bus,
            "cards": [runtime().device_name(0) if has_gpu() else "CPU"] * self.team.world_size,
            "nccl": nccl.version() if several and self.team._nccl is not None else None,
        }  # fmt: skip
        path = Path(self.job["folder"]) / f"{self.scaling}.json"
        path.with_suffix(".new").write_text(json.dumps(about))
        path.with_suffix(".new").replace(path)

    def _attempt(self, name: str, work: Callable[[], Any]) -> None:
        """Do work on all ranks, and remember why it failed."""
        problem, start = "", time.perf_counter()
        try:
            self.found[name] = work()
        except numbacc.RankError:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:300]}"
            print(f"rank {self.team.rank}, {name}: {problem}", file=sys.stderr, flush=True)
        self._release()
        # A rank that fails alone leaves the others waiting: they end together.
        if self.team.all_reduce(np.array(float(bool(problem)))):
            self.found.pop(name, None)
            self.missing[name] = problem
        self._write()
        if self.team.rank == 0 and name in self.found:
            figures = {key: each for key, each in self.found[name].items() if key != "losses"}
            seconds = time.perf_counter() - start
            print(_label(self.name, self.scaling, self.team.world_size), name, figures, f"{seconds:.1f} s", flush=True)

    @staticmethod
    def _split(batch: Any) -> tuple[Any, Any]:
        return np.ascontiguousarray(batch[:, :-1]), np.ascontiguousarray(batch[:, 1:])

    def _release(self) -> None:
        gc.collect()
        if has_gpu():
            numbacc.current_stream().synchronize()
            numbacc.release_memory()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()

    # ------------------------------------------------------------ works

    def _losses(self, step: Callable[[Any, Any], Any], whole: bool = False) -> list[float]:
        """Return the losses of the first steps: means over the ranks, which each have their part of the batch."""
        losses = []
        for batch in self.batches:
            tokens, target = map(numbacc.asarray, self._split(batch if whole else batch[self.own]))
            found = step(tokens, target)
            losses.append(found if isinstance(found, float) else float(numbacc.asnumpy(found)))
        return [float(each) for each in self.team.all_reduce(np.array(losses), "mean")]

    def _whole_losses(self) -> list[float]:
        """Return the losses of one GPU that has the whole batch. All ranks compute them, to wait for none."""
        made = _Step(self.team, self.whole, self.values, None)
        # In parts, if it is too large for the memory of one GPU.
        parts = max(1, self.whole.batch * self.whole.length // (8192 if self.is_large else 32768))
        return self._losses(lambda tokens, target: made.step(tokens, target, parts), whole=True)

    def _captured(self, made: _Step) -> Callable[[], Any]:
        """Return a call of the step, which launches a graph if there is a GPU."""
        made.step(self.tokens, self.target)
        if not has_gpu():
            return lambda: made.step(self.tokens, self.target)
        with numbacc.graph() as graph:
            loss = made.step(self.tokens, self.target)
        kept = made, loss

        def launch(kept: Any = kept) -> None:
            graph.launch()

        launch()
        return launch

    def _variant(self, options: dict[str, Any] | None) -> dict[str, Any]:
        self._release()
        if has_gpu():
            numbacc.peak_memory(reset=True)
        before = numbacc.peak_memory() if has_gpu() else 0
        made = _Step(self.team, self.config, self.values, options)
        losses = self._losses(made.step)
        launch = self._captured(made)
        peak = numbacc.peak_memory() - before if has_gpu() else 0
        if (options or {}).get("registered"):
            # NCCL's memory: parameters, gradients and their pieces.
            peak += 3 * int(self.values.nbytes)
        times = self._medians({"time": launch, "alone": self.alone})
        self.alone_ms = times["alone"]
        found = self._figures_of(times, losses, peak) | {"ours": True}
        if self.team.world_size > 1 and has_gpu():
            del made, launch
            self._release()
            with self._without_communication():
                silent = self._captured(
                    _Step(self.team, self.config, self.values, {**(options or {}), "registered": False})
                )
            found["exposed_ms"] = times["time"] - self._medians({"time": silent})["time"]
        return found

    def _figures_of(self, times: Mapping[str, float], losses: Sequence[float], peak: int) -> dict[str, Any]:
        alone = times.get("alone", self.alone_ms)
        return {
            "ms": times["time"], "alone_ms": alone, "share": alone / times["time"], "losses": list(losses),
            "gib": peak / 2**30, "tokens_per_second": self.whole.batch * self.whole.length / times["time"] * 1000,
        }  # fmt: skip

    @contextlib.contextmanager
    def _without_communication(self) -> Iterator[None]:
        own = self.team._nccl
        self.team._nccl = _Silent(own.device)
        try:
            yield
        finally:
            self.team._nccl = own

    def _medians(self, works: dict[str, Callable[[], Any] | None]) -> dict[str, float]:
        """Return the median milliseconds of each work on the slowest rank. The works take turns."""
        each = 2 if self.is_large else 4
        own = {name: work for name, work in works.items() if work is not None}
        times: dict[str, list[float]] = {name: [] for name in own}
        for work in own.values():
            work()
        for _ in range(self.job.get("rounds", 15)):
            for name, work in own.items():
                self._wait()
                self.team.barrier()
                start = time.perf_counter()
                for _ in range(each):
                    work()
                self._wait()
                seconds = np.array(time.perf_counter() - start)
                times[name].append(float(self.team.all_reduce(seconds, "max")) / each * 1000)
        return {name: statistics.median(found) for name, found in times.items()}

    def _wait(self) -> None:
        if has_gpu():
            numbacc.current_stream().synchronize()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.synchronize()

    def _bus(self) -> dict[str, float]:
        """Return NCCL's bandwidth for 256 MiB, as the bytes that each GPU sends in a second."""
        size, rank = self.team.world_size, self.team.rank
        x = numbacc.zeros(2**27, "bfloat16")
        own = x[rank * (x.size // size) : (rank + 1) * (x.size // size)]
        works: dict[str, Any] = {
            "all_reduce": lambda: self.team.all_reduce(x, out=x),
            "reduce_scatter": lambda: self.team.reduce_scatter(x, out=own),
            "all_gather": lambda: self.team.all_gather(own, out=x),
        }
        times = self._medians(works)
        sent = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
        return {name: sent[name] * x.nbytes * (size - 1) / size / ms / 1e6 for name, ms in times.items()}

    # ------------------------------------------------------------ torch

    def _torch(self, torch: Any) -> None:
        """Add torch's steps, with the same weights and batches."""
        gpu = torch.cuda.is_available()
        if gpu:
            torch.cuda.init()
        if not torch.distributed.is_initialized():
            # Errors that torch looks for while a graph is captured would end the capture.
            os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
            _start_torch(torch, self.job["folder"], self.team.rank, self.team.world_size)
        if self.team.world_size == 1:
            self._attempt("torch, compiled", lambda: self._by_torch(torch, ""))
            return
        for name in self.job["torch"]:
            self._attempt(f"torch {name}, compiled", lambda name=name: self._by_torch(torch, name))  # type: ignore[misc]

    def _by_torch(self, torch: Any, name: str) -> dict[str, Any]:
        """Measure a way of training, by its name in `_TORCH`; "" for one GPU alone."""
        torch.compiler.reset()
        gpu = torch.cuda.is_available()
        # DistributedDataParallel can be captured in a graph if it was made on such a stream.
        side: Any = torch.cuda.Stream() if gpu else None
        with torch.cuda.stream(side) if gpu else contextlib.nullcontext():
            if gpu:
                side.wait_stream(torch.cuda.default_stream())
                torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated() if gpu else 0
            made = self._made_by_torch(torch, name)
            tokens, target = self._tensors(torch, self.batches[0])
            step: Callable[[Any, Any], Any] = made.step

            def work() -> None:
                step(tokens, target)

            if name.endswith("in a graph"):
                step, work = _torch_graph(torch, made, tokens, target)
            losses = [float(step(*self._tensors(torch, batch))) for batch in self.batches]
            peak = torch.cuda.max_memory_allocated() - before if gpu else 0
            times = self._medians({"time": work, "alone": self.alone})
        means = self.team.all_reduce(np.array(losses), "mean")
        return self._figures_of(times, [float(each) for each in means], peak) | {"ours": False}

    def _tensors(self, torch: Any, batch: Any) -> list[Any]:
        """Return this rank's tokens and targets of a batch."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return [torch.from_numpy(each).to(device) for each in self._split(batch[self.own])]

    def _made_by_torch(self, torch: Any, name: str) -> Any:
        model = _model(self.config, self.values)
        weights = {
            key.removesuffix(".weight"): numbacc.to_torch(each).clone() for key, each in model.state_dict().items()
        }
        gpu = torch.cuda.is_available()
        if name == "FSDP2":
            return _Fsdp(torch, self.config, weights, "cuda" if gpu else "cpu")
        made = ByTorch(torch, self.config, weights, "bfloat16", device="cuda" if gpu else "cpu")
        call = made._call
        if name:
            call = _data_parallel(torch, call)
        if self.is_large or name.endswith("in a graph"):
            _compile_layers(made._call)
            made._call = call
        else:
            made._call = torch.compile(call)
        return made


def _compile_layers(model: Any) -> None:
    """Let torch compile a layer, whose code all layers share, and the head. It takes less time than the whole model."""
    for each in (*model.layers, model.head):
        each.compile(dynamic=False)


def _data_parallel(torch: Any, model: Any) -> Any:
    """Return torch's DistributedDataParallel of a model."""
    device = [torch.cuda.current_device()] if torch.cuda.is_available() else None
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=device, gradient_as_bucket_view=True)


def _start_torch(torch: Any, folder: str, rank: int, size: int) -> None:
    """Let torch's processes meet by a file in this folder."""
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(backend, init_method=f"file://{folder}/torch", rank=rank, world_size=size)


def _torch_graph(
    torch: Any, made: ByTorch, tokens: Any, target: Any
) -> tuple[Callable[[Any, Any], Any], Callable[[], None]]:
    """Capture torch's step with its communication, and return a step and a launch without new batches.

    The step starts from the weights that the model has now.

    Args:
        tokens, target: the tensors that the graph reads; the step copies its batch to them.
    """
    first = [each.detach().to("cpu", copy=True) for each in made._params]
    # DistributedDataParallel needs eleven steps before the capture.
    for _ in range(11):
        made.step(tokens, target)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
        loss = made.step(tokens, target)
    with torch.no_grad():
        for state in made._optimizer.state.values():
            for each in state.values():
                each.zero_()
        for each in {id(params): params for params in (made._params, made._masters)}.values():
            torch._foreach_copy_(each, first)

    def step(new_tokens: Any, new_target: Any) -> Any:
        tokens.copy_(new_tokens)
        target.copy_(new_target)
        graph.replay()
        return loss

    return step, graph.replay


class _Fsdp:
    """The step by FSDP2: sharded float32 parameters, bfloat16 in forward and backward, torch's fused AdamW.

    The bfloat16 parameters are gathered once for each step, as numbacc does.
    """

    def __init__(
        self, torch: Any, config: Config, weights: dict[str, Any], device: str = "cuda", compiled: bool = True
    ):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        self._model = torch_model(torch, config, weights, torch.float32, device)
        narrow = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, cast_forward_inputs=False
        )
        options: dict[str, Any] = {"mp_policy": narrow, "reshard_after_forward": False}
        if compiled:
            _compile_layers(self._model)
        for each in (*self._model.layers, self._model.head):
            fully_shard(each, **options)
        fully_shard(self._model, **options)
        params = list(self._model.parameters())
        groups = [
            {"params": [p for p in params if (p.ndim > 1) == decays], "weight_decay": _DECAY * decays}
            for decays in (True, False)
        ]
        self._optimizer = torch.optim.AdamW(groups, lr=config.rate, betas=(_BETA1, _BETA2), fused=device == "cuda")

    def step(self, tokens: Any, target: Any) -> Any:
        self._optimizer.zero_grad()
        loss = self._model(tokens, target)
        loss.backward()
        self._optimizer.step()
        return loss.detach()


def _fill_cache(job: Mapping[str, Any]) -> None:
    """Compile torch's layers for the batches of a job, so that its ranks find them in torch's cache.

    Args:
        job: as of `measure`; "compile" is its number of GPUs.
    """
    torch = peers.import_torch()
    config = _config(job)
    if torch is None or not (job["name"] in _LARGE or any(each.endswith("in a graph") for each in job["torch"])):
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        _start_torch(torch, folder, 0, 1)
        for scaling in job["scalings"]:
            # All layers have the same code, and weights do not matter.
            small = config._replace(layers=2, batch=_batch(config, scaling, job["compile"]))
            shapes = {name.removesuffix(".weight"): each.shape for name, each in small.model().parameters().items()}
            weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
            # Inside DistributedDataParallel, torch divides the head's graph at the limits of its buckets.
            for divided in (False, True):
                made = ByTorch(torch, small, weights, "bfloat16", device=device)
                call = _data_parallel(torch, made._call) if divided else made._call
                torch.compiler.reset()
                _compile_layers(made._call)
                made._call = call
                made.step(*torch.zeros((2, small.batch, small.length), dtype=torch.int32, device=device))
        torch.distributed.destroy_process_group()


def main(text: str) -> None:
    """Measure in one rank; rank 0 writes the figures to the job's folder.

    Args:
        text: the job in JSON, as of `measure`, with its "folder". With "compile", the cache of torch is filled.
    """
    job = json.loads(text)
    if "compile" in job:
        _fill_cache(job)
        return
    end = threading.Timer(job.get("limit", _LIMIT), _stop)
    end.daemon = True
    end.start()
    team = distributed.init()
    with numbacc.stream() if has_gpu() else contextlib.nullcontext():
        values = elementwise.copy(_model(_config(job), None).buffers.values)
        for scaling in job["scalings"]:
            _Bench(team, job, scaling).measure(values)
        team.barrier()
    if team._control is not None:
        team._control.finish()
    sys.stdout.flush()
    # Graphs, NCCL and torch are not taken down in any order.
    os._exit(0)


def _stop() -> None:
    print("the time limit of the run is over", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    main(*sys.argv[1:])

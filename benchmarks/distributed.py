"""Data-parallel training on all GPUs of this host: share of perfect, replicated and sharded state, weak and strong.

Each number of GPUs is measured in processes of its own, which `numbacc.distributed.launch` starts: this module is their
program, too. *Perfect* is the step of one GPU without communication, measured on all GPUs at once, in turns with the
step that is judged. In weak scaling each GPU has the configuration's batch; in strong scaling they share it.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import numbacc
from numbacc import distributed, nn
from numbacc.base.dispatch import runtime

from . import peers
from .harness import RESOLUTION, Report
from .training import _BETA1, _BETA2, _DECAY, CONFIGS, ByTorch, Config

#: Configurations; "1B" has 1.15e9 parameters.
_CONFIGS = {**CONFIGS, "1B": Config(20, 2048, 16, 8, 50304, 1024, 8, 5632, 3e-4)}
#: Steps whose losses are compared with those of one GPU that has the whole batch.
_STEPS = 6
#: Name -> options of `ParallelAdamW`.
_VARIANTS: dict[str, dict[str, Any]] = {
    "replicated, during backward": {"shard": False, "overlap": "backward"},
    "sharded, during backward": {"shard": True, "overlap": "backward"},
    "replicated, during update": {"shard": False, "overlap": "update"},
    "sharded, during update": {"shard": True, "overlap": "update"},
    "sharded, by copies, during backward": {"shard": True, "overlap": "backward", "registered": True},
    "sharded, by copies of 128 MiB": {"shard": True, "overlap": "backward", "registered": True, "bucket_bytes": 2**27},
    "sharded, by copies, during update": {"shard": True, "overlap": "update", "registered": True},
}
#: The variants of quick runs.
_QUICK = ("sharded, by copies", "sharded, during backward", "replicated, during backward")
#: The least share of perfect that is promised for a configuration on two GPUs, by the fastest variant.
_BOUNDS = {"A": 0.97}


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of training on several GPUs."""
    found = runtime().device_count()
    if found < 2:
        print("no figure of distributed: this host has one GPU")
        return
    for name in ("A",) if quick else ("A", "1B"):
        for scaling in ("weak", "strong"):
            for count in (each for each in (2, 4, 8) if each <= found):
                label = f"training {name}, {scaling}, {count} GPUs"
                if report.wants(label):
                    _launch(report, label, name, scaling, count, quick)


def _launch(report: Report, label: str, name: str, scaling: str, count: int, quick: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = ["quick"] if quick else []
        command = [sys.executable, "-m", "benchmarks.distributed", name, scaling, folder, *options]
        status = distributed.launch(command, count)
        path = Path(folder) / "figures.json"
        if status or not path.exists():
            report.add(name=label, right=False, missing=f"the processes ended with status {status}")
            return
        found = json.loads(path.read_text())
    _figures(report, label, name, count, found)


def _figures(report: Report, label: str, name: str, count: int, found: dict[str, Any]) -> None:
    """Report what rank 0 wrote: each variant, and the fastest of all."""
    variants = found["variants"]
    best = max((each for each in variants if variants[each]["ours"]), key=lambda each: variants[each]["share"])
    for each, one in variants.items():
        right = one["largest_difference"] <= found["tolerance"]
        goal: dict[str, Any] = {}
        if each == best and name in _BOUNDS and found["scaling"] == "weak":
            goal = {"bound": _BOUNDS[name], "holds": one["share"] >= _BOUNDS[name] - RESOLUTION}
        report.add(
            name=f"{label}, {each}", right=right, ms=one["ms"], ratio=one["share"], **goal,
            alone_ms=one["alone_ms"], tokens_per_second=one["tokens_per_second"], exposed_ms=one.get("exposed_ms"),
            gib=one["gib"], losses=one["losses"], one_gpu_losses=found["losses"], cards=found["cards"],
            nccl=found["nccl"], bus_gb_per_s=found["bus_gb_per_s"],
        )  # fmt: skip
    if found["missing"]:
        print(f"not measured: {found['missing']}")
    assert count == found["gpus"]


# ---------------------------------------------------------------- the program of each rank


class _Silent:
    """In place of NCCL: does nothing, so that a step takes as long as its own work."""

    def __init__(self, device: int):
        self.device = device

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class _Step:
    """A training step of `numbacc.nn` on this rank's part of the batch.

    Args:
        options: those of `ParallelAdamW`, and whether the flat arrays are in registered memory; None for a step
            without communication.
    """

    def __init__(self, team: Any, config: Config, options: dict[str, Any] | None):
        self.model = config.model().initialize("bfloat16", seed=0)
        shared: dict[str, Any] = {"beta1": _BETA1, "beta2": _BETA2, "weight_decay": _DECAY}
        self.ready: Any = None
        self.optimizer: Any
        if options is None:
            self.optimizer = nn.AdamW(self.model, config.rate, **shared)
        else:
            buffers, options = self.model.buffers, dict(options)
            if options.pop("registered", False):
                buffers.move(
                    *[team._registered_empty(each.shape, each.dtype) for each in (buffers.values, buffers.gradients)]
                )
            self.optimizer = distributed.ParallelAdamW(
                team, buffers.gradients, buffers.values, config.rate, decayed=buffers.decayed, **shared, **options
            )
            self.ready = self.optimizer.ready

    def step(self, tokens: Any, target: Any, parts: int = 1) -> Any:
        """Make a step. The batch may be computed in several parts, whose gradients are added."""
        losses, count = [], len(tokens) // parts
        for k in range(parts):
            rows = slice(k * count, (k + 1) * count)
            with nn.Tape() as tape:
                loss = self.model(tokens[rows], target[rows])
            tape.backward(loss, 1 / parts, accumulate=k > 0, ready=self.ready)
            losses.append(loss.value)
        self.optimizer.step()
        return losses[0] if parts == 1 else sum(float(numbacc.asnumpy(each)) for each in losses) / parts


class _Bench:
    """The measurements of one configuration in one rank."""

    def __init__(self, name: str, scaling: str, folder: Path, quick: bool):
        self.team = distributed.init()
        size, whole = self.team.world_size, _CONFIGS[name]
        self.name, self.scaling, self.folder, self.quick = name, scaling, folder, quick
        batch = whole.batch if scaling == "weak" else whole.batch // size
        self.config, self.whole = whole._replace(batch=batch), whole._replace(batch=batch * size)
        rng = np.random.default_rng(1)
        shape = _STEPS, self.whole.batch, whole.length + 1
        self.batches = list((whole.vocabulary * rng.random(shape) ** 3).astype(np.int32))
        self.own = slice(self.team.rank * batch, (self.team.rank + 1) * batch)
        self.found: dict[str, Any] = {}
        self.missing: dict[str, str] = {}

    def measure(self) -> None:
        main = numbacc.stream()
        with main:
            self.main = main
            host = self._split(self.batches[0][self.own])
            self.tokens, self.target = map(numbacc.asarray, host)
            losses = self._whole_losses()
            bus = self._bus()
            alone = self._alone()
            for name, options in _VARIANTS.items():
                if self.quick and not name.startswith(_QUICK):
                    continue
                self._attempt(name, lambda options=options: self._variant(options, alone))  # type: ignore[misc]
            torch = None if self.quick else peers.import_torch()
            if torch is not None:
                self._torch(torch, alone)
        if self.team.rank == 0:
            for one in self.found.values():
                one["largest_difference"] = max(abs(x - y) for x, y in zip(one["losses"], losses, strict=True))
            from numbacc.libraries import nccl

            cards = [runtime().device_name(0)] * self.team.world_size
            about = {
                "gpus": self.team.world_size, "scaling": self.scaling, "variants": self.found, "losses": losses,
                "tolerance": 0.02, "cards": cards, "nccl": nccl.version(), "bus_gb_per_s": bus,
                "missing": self.missing,
            }  # fmt: skip
            (self.folder / "figures.json").write_text(json.dumps(about))
        self.team.barrier()

    def _attempt(self, name: str, work: Callable[[], Any]) -> None:
        """Do work on all ranks, and remember why it failed."""
        problem = ""
        try:
            self.found[name] = work()
        except numbacc.RankError:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:300]}"
            print(f"rank {self.team.rank}, {name}: {problem}", file=sys.stderr, flush=True)
        # A rank that fails alone leaves the others waiting: they end together.
        if self.team.all_reduce(np.array(float(bool(problem)))):
            self.found.pop(name, None)
            self.missing[name] = problem
        elif self.team.rank == 0:  # what is known, should a later variant hang
            print(name, {key: each for key, each in self.found[name].items() if key != "losses"}, flush=True)

    @staticmethod
    def _split(batch: Any) -> tuple[Any, Any]:
        return np.ascontiguousarray(batch[:, :-1]), np.ascontiguousarray(batch[:, 1:])

    # ------------------------------------------------------------ works

    def _losses(self, step: Callable[[Any, Any], Any], whole: bool = False) -> list[float]:
        """Return the losses of the first steps: means over the ranks, which each have their part of the batch."""
        losses = []
        for batch in self.batches:
            tokens, target = map(numbacc.asarray, self._split(batch if whole else batch[self.own]))
            losses.append(float(numbacc.asnumpy(step(tokens, target))))
        return [float(each) for each in self.team.all_reduce(np.array(losses), "mean")]

    def _whole_losses(self) -> list[float]:
        """Return the losses of one GPU that has the whole batch. All ranks compute them, to wait for none."""
        made = _Step(self.team, self.whole, None)
        # In parts, if it is too large for the memory of one GPU.
        parts = max(1, self.whole.batch * self.whole.length // (32768 if self.name != "1B" else 8192))
        return self._losses(lambda tokens, target: made.step(tokens, target, parts), whole=True)

    def _alone(self) -> Callable[[], Any]:
        made = _Step(self.team, self.config, None)
        return self._captured(made)

    def _captured(self, made: _Step) -> Callable[[], Any]:
        made.step(self.tokens, self.target)
        with numbacc.graph() as graph:
            loss = made.step(self.tokens, self.target)
        kept = made, loss

        def launch(kept: Any = kept) -> None:
            graph.launch()

        launch()
        return launch

    def _variant(self, options: dict[str, Any], alone: Callable[[], Any]) -> dict[str, Any]:
        self.main.synchronize()
        numbacc.release_memory()
        numbacc.peak_memory(reset=True)
        before = numbacc.peak_memory()
        made = _Step(self.team, self.config, options)
        losses = self._losses(made.step)
        launch = self._captured(made)
        self.main.synchronize()
        peak = numbacc.peak_memory() - before
        with self._without_nccl():
            silent = self._captured(_Step(self.team, self.config, {**options, "registered": False}))
        times = self._medians({"ours": launch, "alone": alone, "silent": silent})
        return {
            "ours": True, "ms": times["ours"], "alone_ms": times["alone"], "share": times["alone"] / times["ours"],
            "exposed_ms": times["ours"] - times["silent"], "losses": losses, "gib": peak / 2**30,
            "tokens_per_second": self.whole.batch * self.whole.length / times["ours"] * 1000,
        }  # fmt: skip

    @contextlib.contextmanager
    def _without_nccl(self) -> Iterator[None]:
        own = self.team._nccl
        self.team._nccl = _Silent(own.device)
        try:
            yield
        finally:
            self.team._nccl = own

    def _medians(self, works: dict[str, Callable[[], Any]], each: int = 4) -> dict[str, float]:
        """Return the median milliseconds of each work on the slowest rank. The works take turns."""
        times: dict[str, list[float]] = {name: [] for name in works}
        for work in works.values():
            work()
        for _ in range(9 if self.quick else 15):
            for name, work in works.items():
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
        self.main.synchronize()
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.cuda.synchronize()

    def _bus(self) -> dict[str, float]:
        """Return NCCL's bandwidth for 256 MiB, as the bytes that each GPU sends in a second."""
        size, rank = self.team.world_size, self.team.rank
        x = numbacc.zeros(2**27, "bfloat16")
        own = x[rank * (x.size // size) : (rank + 1) * (x.size // size)]
        works = {
            "all_reduce": lambda: self.team.all_reduce(x, out=x),
            "reduce_scatter": lambda: self.team.reduce_scatter(x, out=own),
            "all_gather": lambda: self.team.all_gather(own, out=x),
        }
        times = self._medians(works)
        sent = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
        return {name: sent[name] * x.nbytes * (size - 1) / size / ms / 1e6 for name, ms in times.items()}

    # ------------------------------------------------------------ torch

    def _torch(self, torch: Any, alone: Callable[[], Any]) -> None:
        """Add torch's DistributedDataParallel, compiled, with the same weights and batches."""
        distributed_torch = torch.distributed
        meeting = f"file://{self.folder}/torch-{self.team.world_size}"
        distributed_torch.init_process_group(
            "nccl", init_method=meeting, rank=self.team.rank, world_size=self.team.world_size
        )
        state = self.config.model().initialize("float32", device="cpu", seed=0).state_dict()
        weights = {name.removesuffix(".weight"): numbacc.asnumpy(each) for name, each in state.items()}
        tokens, target = (torch.from_numpy(each).cuda() for each in self._split(self.batches[0][self.own]))

        def work() -> dict[str, Any]:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            made = ByTorch(torch, self.config, weights, "bfloat16")
            wrapped = torch.nn.parallel.DistributedDataParallel(
                made._call, device_ids=[torch.cuda.current_device()], gradient_as_bucket_view=True
            )
            made._call = torch.compile(wrapped)
            losses = []
            for batch in self.batches:
                given = (torch.from_numpy(each).cuda() for each in self._split(batch[self.own]))
                losses.append(float(made.step(*given)))
            peak = torch.cuda.max_memory_allocated() - before
            times = self._medians({"theirs": lambda: made.step(tokens, target), "alone": alone})
            return {
                "ours": False, "ms": times["theirs"], "alone_ms": times["alone"],
                "share": times["alone"] / times["theirs"], "gib": peak / 2**30,
                "losses": [float(each) for each in self.team.all_reduce(np.array(losses), "mean")],
                "tokens_per_second": self.whole.batch * self.whole.length / times["theirs"] * 1000,
            }  # fmt: skip

        self._attempt("torch DistributedDataParallel, compiled", work)
        distributed_torch.destroy_process_group()


def main(name: str, scaling: str, folder: str, *options: str) -> None:
    """Measure in one rank; rank 0 writes the figures to `folder`."""
    _Bench(name, scaling, Path(folder), "quick" in options).measure()
    sys.stdout.flush()
    # Graphs, NCCL and torch are not taken down in any order.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""`python -m numbacc train`: a transformer learns to write, character by character.

The model is `nn.Transformer`. It gets `length` characters of the text and predicts the next one at each position. The
loss is the mean cross entropy, in nats per character: log of the number of characters for a model that knows nothing.
Optimizer: AdamW, with a linear warm-up of the rate and a cosine decay to a tenth.

Without --text, the text is that of CC0 1.0, which is in the public domain; see notebooks/data/README.md. On a GPU, a
step runs as one CUDA graph. Without a GPU, NumPy computes everything, and the model is smaller by default.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import numbacc

from . import distributed, nn, notebook_copies
from .base import dispatch

Array = NDArray[Any]

#: The share of the text that is held out, at its end.
HELD_OUT = 0.1
#: Steps between two readings of the loss, which wait for the GPU.
READ_EVERY = 10

#: Options of the model and of its training -> their defaults on a CPU and on a GPU, and their meaning.
OPTIONS: dict[str, tuple[Any, Any, str]] = {
    "steps": (400, 2000, "steps of the optimizer"),
    "batch": (16, 64, "sequences in a step"),
    "length": (64, 256, "characters in a sequence"),
    "width": (96, 256, "length of the vectors"),
    "layers": (2, 4, "layers"),
    "heads": (4, 4, "heads of queries"),
    "kv-heads": (2, 2, "heads of keys and values"),
    "dropout": (0.1, 0.1, "probability to drop elements"),
    "rate": (3e-3, 1e-3, "largest learning rate"),
    "dtype": ("float32", "bfloat16", "dtype of the parameters"),
}


class TrainingText(NamedTuple):
    """A text as tokens, one for each character.

    Attributes:
        characters: all characters that occur, in order. A token is a position in it.
        train, held_out: tokens, int32.
    """

    characters: str
    train: Array
    held_out: Array

    def encode(self, text: str) -> Array:
        """Return the tokens of a text. Characters that do not occur are left out."""
        places = {each: number for number, each in enumerate(self.characters)}
        return np.array([places[each] for each in text if each in places], np.int32)

    def decode(self, tokens: Sequence[int] | Array) -> str:
        """Return the text of tokens."""
        return "".join(self.characters[token] for token in tokens)


def read_text(path: str | Path | None = None) -> TrainingText:
    """Read a text file in UTF-8, by default the text that numbacc ships.

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read. ValueError: it has fewer than 1000 characters.
    """
    found = notebook_copies.source() / "data" / "cc0-legal-code.txt" if path is None else Path(path)
    text = found.read_text(encoding="utf-8")
    if len(text) < 1000:
        raise ValueError(f"{found} has {len(text)} characters; at least 1000 are needed")
    characters = "".join(sorted(set(text)))
    tokens = TrainingText(characters, np.empty(0), np.empty(0)).encode(text)
    first = round((1 - HELD_OUT) * len(tokens))
    return TrainingText(characters, tokens[:first], tokens[first:])


def batch_of(tokens: Array, batch: int, length: int, seed: tuple[int, ...]) -> tuple[Array, Array]:
    """Return random parts of a text, and the same parts one character later, each (batch, length)."""
    starts = np.random.default_rng(seed).integers(0, len(tokens) - length, batch)
    parts = tokens[starts[:, None] + np.arange(length + 1)]
    return np.ascontiguousarray(parts[:, :-1]), np.ascontiguousarray(parts[:, 1:])


class Progress(NamedTuple):
    """The state after some steps: the mean training loss since the last one, and tokens per second."""

    step: int
    loss: float
    tokens_per_second: float


class Training:
    """A model with its optimizer and its text.

    With several processes, each computes its part of a batch, and the gradients are averaged.

    Args:
        text: the text.
        options: the keys of `OPTIONS`, with "_" for "-", and "seed".
        team: the processes; this one alone by default.

    Attributes:
        model, optimizer: made of the options.
        step: the number of steps that were made.
        curve: (step, training loss) of each reading.
    """

    def __init__(self, text: TrainingText, options: Mapping[str, Any], team: distributed.Communicator | None = None):
        self.text, self.options = text, dict(options)
        o, self.team = self.options, team or distributed.init()
        if o["batch"] % self.team.world_size:
            raise ValueError(f"--batch {o['batch']} must be a multiple of the {self.team.world_size} processes")
        if min(len(text.train), len(text.held_out)) <= o["length"]:
            raise ValueError(f"the text is too short: its held-out tenth must be longer than --length {o['length']}")
        self.model = nn.Transformer(
            len(text.characters), width=o["width"], layers=o["layers"], heads=o["heads"], kv_heads=o["kv_heads"],
            length=o["length"], dropout=o["dropout"],
        ).initialize(o["dtype"], seed=o["seed"], tune=numbacc.has_gpu())  # fmt: skip
        self.optimizer = distributed.ParallelAdamW.for_model(
            self.team, self.model, o["rate"], max_norm=1.0, shard=False
        )
        self.step = 0
        self.curve: list[tuple[int, float]] = []
        self._compiled = numbacc.compiled(self._train)

    def _train(self, tokens: Any, target: Any) -> Any:
        """Make a step, and return the loss of the whole batch."""
        with nn.Tape() as tape:
            loss = self.model(tokens, target)
        tape.backward(loss, ready=self.optimizer.ready)
        self.optimizer.step()
        return self.team.all_reduce(loss.value, "mean")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: it grows for the first twentieth, then falls to a tenth."""
        last = int(self.options["steps"])
        warm = max(last // 20, 1)
        if step < warm:
            return float(self.options["rate"]) * (step + 1) / warm
        done = min((step - warm) / max(last - warm, 1), 1.0)
        factor = 0.55 + 0.45 * math.cos(math.pi * done)
        return float(self.options["rate"]) * factor

    def run(self, steps: int) -> Iterator[Progress]:
        """Make steps up to a number, and yield the state after some of them."""
        o, start, losses = self.options, time.perf_counter(), []
        while self.step < steps:
            self.optimizer.rate = self.rate(self.step)
            given = batch_of(self.text.train, o["batch"], o["length"], (o["seed"], self.step))
            losses.append(self._compiled(*(each[self.team.rank :: self.team.world_size].copy() for each in given)))
            self.step += 1
            if self.step % READ_EVERY == 0 or self.step == steps:
                mean = float(np.mean([numbacc.asnumpy(each) for each in losses]))
                now = time.perf_counter()
                speed = len(losses) * o["batch"] * o["length"] / (now - start)
                start, losses = now, []
                self.curve.append((self.step, mean))
                yield Progress(self.step, mean, speed)

    def held_out_loss(self) -> float:
        """Return the mean loss of the held-out text."""
        length, losses = self.options["length"], []
        for first in range(0, len(self.text.held_out) - length, length):
            part = self.text.held_out[None, first : first + length + 1]
            given = (numbacc.asarray(np.ascontiguousarray(each)) for each in (part[:, :-1], part[:, 1:]))
            losses.append(float(numbacc.asnumpy(self.model(*given))))
        return float(np.mean(losses))

    def sample(self, start: str, count: int, seed: int = 0) -> str:
        """Return a text that begins with `start`, and `count` characters of the model's."""
        tokens = self.text.encode(start)
        if not len(tokens):
            tokens = self.text.train[:1]
        found = nn.generate(self.model, tokens[None], count, temperature=0.8, seed=seed)
        return self.text.decode(found[0])

    def save(self, path: str | Path) -> None:
        """Write model, optimizer and options to a file in the format safetensors."""
        arrays = {f"model.{name}": each for name, each in self.model.state_dict().items()}
        arrays |= {f"optimizer.{name}": each for name, each in self.optimizer.state_dict().items()}
        about = {
            "options": json.dumps(self.options), "characters": json.dumps(self.text.characters),
            "step": str(self.step), "curve": json.dumps(self.curve),
        }  # fmt: skip
        numbacc.save(path, arrays, metadata=about)

    def load(self, path: str | Path) -> None:
        """Go on from a file that `save` wrote.

        Raises:
            ValueError: it was written for another model or another text.
        """
        about = numbacc.load_metadata(path)
        before = json.loads(about["options"])
        shape = ("width", "layers", "heads", "kv_heads", "length", "dtype")
        changed = [name for name in shape if before[name] != self.options[name]]
        if changed or json.loads(about["characters"]) != self.text.characters:
            what = ", ".join(f"--{name.replace('_', '-')} {before[name]}" for name in changed) or "another text"
            raise ValueError(f"{path} was written with {what}")
        arrays = numbacc.load(path, device="cpu")
        for prefix, owner in (("model.", self.model), ("optimizer.", self.optimizer)):
            own = {name.removeprefix(prefix): each for name, each in arrays.items() if name.startswith(prefix)}
            owner.load_state_dict(own)
        self.step, self.curve = int(about["step"]), [tuple(each) for each in json.loads(about["curve"])]


def chart(curve: Sequence[tuple[int, float]], width: int = 64, height: int = 10) -> str:
    """Return a curve of losses over steps as text."""
    steps, losses = (np.array(each, float) for each in zip(*curve, strict=True))
    low, high = losses.min(), max(losses.max(), losses.min() + 1e-9)
    columns = np.interp(np.linspace(steps[0], steps[-1], width), steps, losses)
    rows = np.rint((high - columns) / (high - low) * (height - 1)).astype(int)
    lines = []
    for row in range(height):
        label = f"{high - (high - low) * row / (height - 1):6.2f} " if row in (0, height - 1) else " " * 7
        lines.append(label + "|" + "".join("*" if each == row else " " for each in rows).rstrip())
    lines.append(" " * 7 + "+" + "-" * width)
    return "\n".join([*lines, f"{'':8}{int(steps[0]):<{width // 2}}{int(steps[-1]):>{width - width // 2}} steps"])


def main(argv: list[str]) -> int:
    """Train, and show the loss, its curve and samples. The exit status is 0, or 1 if something is missing or wrong."""
    options = _parse(argv)
    if dispatch.simulated():
        print("the CUDA simulator is too slow for training: unset NUMBA_ENABLE_CUDASIM", file=sys.stderr)
        return 1
    try:
        from tqdm import tqdm
    except ImportError as error:
        print(f'{error}. The command needs one more package:\npip install "numbacc[demo]"', file=sys.stderr)
        return 1
    try:
        if options.gpus > 1 and "WORLD_SIZE" not in os.environ:
            return distributed.launch([sys.executable, "-m", "numbacc", "train", *argv], options.gpus)
        training = Training(read_text(options.text), _of_model(options))
        if options.checkpoint is not None and options.checkpoint.exists():
            training.load(options.checkpoint)
            print(f"{options.checkpoint}: going on after step {training.step}")
    except (OSError, ValueError, numbacc.Error) as error:
        print(error, file=sys.stderr)
        return 1
    if training.team.rank:
        for _ in training.run(options.steps):
            pass
        return 0
    text, count = training.text, training.model.buffers.parameters
    where = "a GPU" if numbacc.has_gpu() else "NumPy"
    print(
        f"{len(text.train)} characters to learn from, {len(text.held_out)} held out, {len(text.characters)} different; "
        f"{sum(math.prod(each.shape) for each in count)} parameters in {options.dtype}, on {where}"
        + f", {training.team.world_size} processes"
        * (training.team.world_size > 1)
    )
    bar = tqdm(total=options.steps, initial=training.step, unit="step")
    began, first = time.perf_counter(), training.step
    try:
        for found in training.run(options.steps):
            bar.update(found.step - bar.n)
            bar.set_postfix(loss=f"{found.loss:.3f}", tokens_per_s=f"{found.tokens_per_second:,.0f}")
            if found.step % options.every < READ_EVERY and found.step < options.steps:
                _show(training, bar, options)
    except KeyboardInterrupt:
        print(f"\nstopped after step {training.step}", file=sys.stderr)
    bar.close()
    seconds = time.perf_counter() - began
    if options.checkpoint is not None:
        training.save(options.checkpoint)
        print(f"wrote {options.checkpoint}: the same command goes on from there, with more --steps")
    if training.curve:
        print(f"\ntraining loss, nats per character\n{chart(training.curve)}")
    made = (training.step - first) * options.batch * options.length
    if made:
        print(f"\n{seconds:.1f} s, {made / seconds:,.0f} tokens per second")
    print(f"held-out loss {training.held_out_loss():.3f}; {math.log(len(text.characters)):.3f} knows nothing")
    print(f"\n{training.sample(options.start, options.sample)}")
    return 0


def _show(training: Training, bar: Any, options: argparse.Namespace) -> None:
    """Print the held-out loss and a short sample, and write the checkpoint."""
    sample = training.sample(options.start, 60, seed=training.step).replace("\n", " ")
    bar.write(f"step {training.step}: held-out loss {training.held_out_loss():.3f}  {sample!r}")
    if options.checkpoint is not None:
        training.save(options.checkpoint)


def _of_model(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that `Training` takes."""
    names = [name.replace("-", "_") for name in OPTIONS]
    return {name: getattr(options, name) for name in (*names, "seed")}


def _parse(argv: list[str]) -> argparse.Namespace:
    column = 1 if numbacc.has_gpu() else 0
    parser = argparse.ArgumentParser("python -m numbacc train", description="A transformer learns to write.")
    parser.add_argument("--text", type=Path, help="a text file in UTF-8; by default the text of CC0 1.0")
    parser.add_argument("--checkpoint", type=Path, help="where the model is written, and read if the file exists")
    parser.add_argument("--gpus", type=int, default=1, help="the number of processes, one for each GPU (1)")
    for name, (*defaults, meaning) in OPTIONS.items():
        default = defaults[column]
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{meaning} ({default})")
    parser.add_argument("--every", type=int, default=200, help="steps between samples and checkpoints (200)")
    parser.add_argument("--sample", type=int, default=400, help="characters to write at the end (400)")
    parser.add_argument("--start", default="The ", help="the beginning of samples ('The ')")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and samples (0)")
    options = parser.parse_args(argv)
    counts = ("gpus", "steps", "batch", "length", "width", "layers", "heads", "kv_heads", "every")
    for name in counts:
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.seed < 0 or options.sample < 0 or options.rate <= 0:
        parser.error("--seed and --sample must be at least 0, and --rate above 0")
    return options

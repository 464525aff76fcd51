"""`python -m numbacc demo`: a small gated network learns to read handwritten digits.

The network has one hidden layer. With x the images as rows, and a gated activation from `numbacc.gated`,

    h = x W₁ + b₁          64 pixels -> two halves of 128 units
    y = gated(h)           256 -> 128
    z = y W₂ + b₂          128 -> 10 classes
    L = mean over rows of -log softmax(z)[label]

The layers run on the GPU if there is one, else in NumPy. The dense layers are `gemm.linear` and `gemm.linear_backward`.
The loss and the update of the parameters run in NumPy on the host, where the parameters are stored. Each step copies
them and a batch of images to the GPU, and copies the logits and the gradients back.

The data are 1,797 images of 8 x 8 pixels from the UCI handwritten digits (Alpaydin and Kaynak 1998), as
scikit-learn ships them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import numbacc

from . import gated, gemm
from .base import dispatch
from .gemm.layers import SavedLinear
from .random import Generator

Array = NDArray[Any]
Parameters = dict[str, Array]  #: W1, b1, W2, b2; gradients have the same keys

HIDDEN = 128
BATCH = 64
EPOCHS = 40
LEARNING_RATE = 0.1
MOMENTUM = 0.9
REQUIRED_ACCURACY = 0.95
GRADIENT_TOLERANCE = 1e-6


class SavedLayers(NamedTuple):
    """Results that the backward pass needs: h, and the objects that `gemm.linear` saved for both dense layers."""

    first: SavedLinear
    hidden: Any
    second: SavedLinear


class Digits(NamedTuple):
    """Images as rows of 64 standardised pixels, and the digits that they show."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array


def load_digits(seed: int = 0, test_fraction: float = 0.2) -> Digits:
    """Load the UCI digits, shuffled, split, and standardised with statistics of the training images only.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    from sklearn import datasets

    images, labels = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    test, train = np.split(order, [round(test_fraction * len(images))])
    # One scale for all pixels: border pixels hardly vary, and separate scales would amplify their noise.
    mean, scale = images[train].mean(axis=0), images[train].std()
    standard = ((images - mean) / scale).astype(np.float32)
    return Digits(standard[train], labels[train], standard[test], labels[test])


def initial_parameters(seed: int = 0, dtype: Any = np.float32) -> Parameters:
    """Return random weights of variance 1 / inputs, so that signals keep their size between layers; biases are 0."""
    rng = np.random.default_rng(seed)

    W1 = rng.standard_normal((64, 2 * HIDDEN)) / np.sqrt(64)
    W2 = rng.standard_normal((HIDDEN, 10)) / np.sqrt(HIDDEN)
    initial = {"W1": W1, "b1": np.zeros(2 * HIDDEN), "W2": W2, "b2": np.zeros(10)}
    return {name: value.astype(dtype) for name, value in initial.items()}


def cross_entropy(logits: Array, labels: Array) -> tuple[float, Array]:
    """Return L = mean of -log p[label] with p = softmax(z), and dz = (p - onehot(label)) / rows."""
    rows = np.arange(len(labels))
    # Subtracting a constant does not change the softmax; subtracting the maximum keeps exp from overflowing.
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    dlogits = np.exp(log_p)
    dlogits[rows, labels] -= 1
    return float(-log_p[rows, labels].mean()), dlogits / len(labels)


def forward(parameters: Parameters, images: Array, kind: str) -> tuple[Array, SavedLayers]:
    """Return the logits z, on the host, and the results that the backward pass needs, on the device."""
    W1, b1, W2, b2 = (numbacc.asarray(parameters[name]) for name in ("W1", "b1", "W2", "b2"))
    hidden, first = gemm.linear(numbacc.asarray(images), W1, b1)
    active = gated.forward(hidden, kind)
    logits, second = gemm.linear(active, W2, b2)
    return numbacc.asnumpy(logits), SavedLayers(first, hidden, second)


def backprop(parameters: Parameters, images: Array, labels: Array, kind: str) -> tuple[float, Parameters]:
    """Return L, and its gradient with respect to every parameter, by the chain rule."""
    logits, saved = forward(parameters, images, kind)
    loss, dlogits = cross_entropy(logits, labels)
    dactive, dW2, db2 = gemm.linear_backward(numbacc.asarray(dlogits), saved.second)
    dhidden = gated.backward(dactive, saved.hidden, kind)
    _, dW1, db1 = gemm.linear_backward(dhidden, saved.first)
    gradients = {"W1": dW1, "b1": db1, "W2": dW2, "b2": db2}
    return loss, {name: numbacc.asnumpy(gradient) for name, gradient in gradients.items()}


def accuracy(parameters: Parameters, images: Array, labels: Array, kind: str) -> float:
    """Return the fraction of images whose largest logit is that of their label."""
    logits, _ = forward(parameters, images, kind)
    return float((logits.argmax(axis=1) == labels).mean())


def train(parameters: Parameters, data: Digits, kind: str, epochs: int, seed: int = 0) -> Iterator[float]:
    """Train in place by gradient descent with momentum, and yield each epoch's mean loss when it is done.

    v <- μ v - η dL/dw, w <- w + v
    """
    rng = np.random.default_rng(seed)
    velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
    for _ in range(epochs):
        losses = []
        order = rng.permutation(len(data.train_labels))
        # The few images that do not fill a batch are left out of this epoch.
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            images, labels = data.train_images[batch], data.train_labels[batch]
            loss, gradients = backprop(parameters, images, labels, kind)
            losses.append(loss)
            for name, gradient in gradients.items():
                velocity[name] = MOMENTUM * velocity[name] - LEARNING_RATE * gradient
                parameters[name] += velocity[name]
        yield float(np.mean(losses))


class GradientCheck(NamedTuple):
    """The slope of the loss along one direction, by backpropagation and by differences, and their relative error."""

    parameter: str
    backward: float
    differences: float
    error: float


def check_gradients(data: Digits, kind: str, seed: int = 0, step: float = 1e-5) -> list[GradientCheck]:
    """Compare the gradient with central differences of the loss.

    For each parameter w, along a direction d:

        <dL/dw, d>  =  (L(w + s d) - L(w - s d)) / 2s + O(s²)

    Everything is float64: in float32 the rounding error of L, divided by s, would hide a mistake. The network is
    untrained, since the gradients of a trained one are close to zero.
    """
    rng = np.random.default_rng(seed)
    images, labels = data.train_images[:BATCH].astype(np.float64), data.train_labels[:BATCH]
    parameters = initial_parameters(seed, np.float64)
    _, gradients = backprop(parameters, images, labels, kind)

    def loss(name: str, offset: Array) -> float:
        logits, _ = forward({**parameters, name: parameters[name] + offset}, images, kind)
        return cross_entropy(logits, labels)[0]

    checks = []
    for name, gradient in gradients.items():
        # Random sizes, but the gradient's signs: no terms cancel, so the relative error is meaningful.
        direction = np.copysign(rng.standard_normal(gradient.shape), gradient)
        direction /= np.linalg.norm(direction)
        slope = float(np.sum(gradient * direction))
        differences = (loss(name, step * direction) - loss(name, -step * direction)) / (2 * step)
        error = abs(slope - differences) / max(abs(slope), abs(differences), sys.float_info.min)
        checks.append(GradientCheck(name, slope, differences, error))
    return checks


def what_ran_where(parameters: Parameters, data: Digits, kind: str) -> str:
    """Return a table of the operations of a training step, from their plans' `info`."""
    logits, (first, hidden, second) = forward(parameters, data.train_images[:BATCH], kind)
    images, W1, active, W2 = first.x, first.w, second.x, second.w
    b1, b2 = numbacc.asarray(parameters["b1"]), numbacc.asarray(parameters["b2"])
    # A gradient has the shape, dtype and device of its array, and plans depend on nothing else.
    dlogits, dactive, dhidden = numbacc.asarray(logits), active, hidden
    steps: dict[str, Any] = {
        "h = x W1 + b1": gemm.matmul.plan(images, W1, bias=b1, epilogue="bias"),
        "y = gated(h)": gated.forward.plan(hidden, kind),
        "z = y W2 + b2": gemm.matmul.plan(active, W2, bias=b2, epilogue="bias"),
        "dy = dz W2ᵀ": gemm.matmul.plan(dlogits, W2.T),
        "dW2 = yᵀ dz, db2": gemm.matmul.plan(active.T, dlogits, epilogue="bgradb"),
        "dh = dy gated'(h)": gated.backward.plan(dactive, hidden, kind),
        "dx = dh W1ᵀ": gemm.matmul.plan(dhidden, W1.T),
        "dW1 = xᵀ dh, db1": gemm.matmul.plan(images.T, dhidden, epilogue="bgradb"),
    }
    device = "cpu" if isinstance(hidden, np.ndarray) else f"cuda:{hidden.device}"
    rows = []
    for step, plan in steps.items():
        info = plan.info
        rows.append((step, info.op, info.backend, info.algorithm, info.math_dtype, device))
    return table(("step", "operation", "backend", "algorithm", "math", "device"), rows)


def bandwidth_table(rows: int = 8192, columns: int = 14336) -> str:
    """Measure each gated activation in bfloat16 on the GPU, in TB/s and relative to the speed of a copy."""
    from .runtime.timing import copy_of, gpu_ms

    draws = Generator("philox", seed=7)
    x, dx = (draws.normal(size=(rows, 2 * columns), dtype="bfloat16") for _ in range(2))
    y, dy = (draws.normal(size=(rows, columns), dtype="bfloat16") for _ in range(2))
    lines = []
    for kind in gated.KINDS:
        for direction, call, arrays in (
            ("forward", partial(gated.forward, x, kind, out=y), (x, y)),
            ("backward", partial(gated.backward, dy, x, kind, out=dx), (dy, x, dx)),
        ):
            moved = sum(array.nbytes for array in arrays)
            times = gpu_ms({"gated": call, "copy": copy_of(moved)}, repeats=10)
            speed, share = moved / times["gated"] * 1e-9, times["copy"] / times["gated"]
            lines.append((kind, direction, f"{speed:.2f}", f"{share:.0%}"))
    return table(("kind", "direction", "TB/s", "of copy"), lines)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a plain text table whose columns are as wide as their longest cells."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def main(argv: list[str]) -> int:
    """Run the demo. The exit status is 0 if accuracy and gradients are good, 1 if not, 2 if simulated."""
    options, verdict = _parse(argv), {True: "pass", False: "FAIL"}
    kind, seed = options.kind, options.seed
    if dispatch.simulated():
        print("the CUDA simulator is too slow for training: unset NUMBA_ENABLE_CUDASIM", file=sys.stderr)
        return 2
    try:
        from tqdm import tqdm

        data = load_digits(seed)
    except ImportError as error:
        print(f'{error}. The demo needs more packages:\npip install "numbacc[demo]"', file=sys.stderr)
        return 1

    print(f"{kind} on UCI digits: {len(data.train_labels)} to train on, {len(data.test_labels)} held out")
    parameters = initial_parameters(seed)
    progress = tqdm(train(parameters, data, kind, options.epochs, seed), "training", options.epochs)
    for loss in progress:
        progress.set_postfix(loss=f"{loss:.4f}")

    reached = accuracy(parameters, data.test_images, data.test_labels, kind)
    accurate = reached > REQUIRED_ACCURACY
    print(f"\nheld-out accuracy {reached:.1%}, required above {REQUIRED_ACCURACY:.0%}: {verdict[accurate]}")

    checks = check_gradients(data, kind, seed)
    correct = all(check.error < GRADIENT_TOLERANCE for check in checks)
    print(f"\ngradient check, relative error required below {GRADIENT_TOLERANCE:.0e}: {verdict[correct]}")
    rows = [(c.parameter, f"{c.backward:.9f}", f"{c.differences:.9f}", f"{c.error:.1e}") for c in checks]
    print(table(("parameter", "backward", "differences", "relative error"), rows))

    print(f"\nwhat ran where\n{what_ran_where(parameters, data, kind)}")
    if dispatch.has_gpu():
        print(f"\n{bandwidth_table()}")
    return 0 if accurate and correct else 1


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m numbacc demo", description="A gated network reads digits.")
    parser.add_argument("--kind", choices=gated.KINDS, default="swiglu", help="the activation (swiglu)")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"passes over the data ({EPOCHS})")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the order (0)")
    options = parser.parse_args(argv)
    if options.epochs < 1 or options.seed < 0:
        parser.error("--epochs must be at least 1, and --seed at least 0")
    return options

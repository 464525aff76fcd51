"""`python -m numbacc demo`: a small gated network learns to read handwritten digits.

The network has one hidden layer. With x the images as rows, and a gated activation from `numbacc.gated`,

    h = x W₁ + b₁          64 pixels -> two halves of 128 units
    y = gated(h)           256 -> 128
    z = y W₂ + b₂          128 -> 10 classes
    L = mean over rows of -log softmax(z)[label]

The activation runs where its data is: on the GPU if there is one, in NumPy if not. The dense layers are NumPy
on the host, all of them in `dense` and `dense_backward`.

The data are 1,797 images of 8 x 8 pixels from the UCI handwritten digits (Alpaydin and Kaynak 1998), as
scikit-learn ships them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import numbacc

from . import backend, gated
from .bench.harness import table

Array = NDArray[Any]
Parameters = dict[str, Array]  #: W1, b1, W2, b2; gradients have the same keys

HIDDEN = 128
BATCH = 64
EPOCHS = 40
LEARNING_RATE = 0.1
MOMENTUM = 0.9
REQUIRED_ACCURACY = 0.95
GRADIENT_TOLERANCE = 1e-6


class Digits(NamedTuple):
    """Images as rows of 64 standardised pixels, and the digits they show."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array


def load_digits(seed: int = 0, test_fraction: float = 0.2) -> Digits:
    """The UCI digits, shuffled, split, and standardised by what the training images alone say.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    from sklearn import datasets

    images, labels = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    test, train = np.split(order, [round(test_fraction * len(images))])
    # One scale for all pixels: border pixels hardly vary, and their own scale would blow up their noise.
    mean, scale = images[train].mean(axis=0), images[train].std()
    standard = ((images - mean) / scale).astype(np.float32)
    return Digits(standard[train], labels[train], standard[test], labels[test])


def initial_parameters(seed: int = 0, dtype: Any = np.float32) -> Parameters:
    """Random weights of variance 1 / inputs, so that signals keep their size from layer to layer; no bias."""
    rng = np.random.default_rng(seed)

    W1 = rng.standard_normal((64, 2 * HIDDEN)) / np.sqrt(64)
    W2 = rng.standard_normal((HIDDEN, 10)) / np.sqrt(HIDDEN)
    initial = {"W1": W1, "b1": np.zeros(2 * HIDDEN), "W2": W2, "b2": np.zeros(10)}
    return {name: value.astype(dtype) for name, value in initial.items()}


def dense(x: Array, weights: Array, bias: Array) -> Array:
    """x W + b."""
    y: Array = x @ weights + bias
    return y


def dense_backward(dy: Array, x: Array, weights: Array) -> tuple[Array, Array, Array]:
    """dx = dy Wᵀ, dW = xᵀ dy, db = the sum of dy over rows."""
    return dy @ weights.T, x.T @ dy, dy.sum(axis=0)


def cross_entropy(logits: Array, labels: Array) -> tuple[float, Array]:
    """L = mean of -log p[label] with p = softmax(z), and dz = (p - onehot(label)) / rows."""
    rows = np.arange(len(labels))
    # Subtracting a constant does not change the softmax; subtracting the maximum keeps exp from overflowing.
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    dlogits = np.exp(log_p)
    dlogits[rows, labels] -= 1
    return float(-log_p[rows, labels].mean()), dlogits / len(labels)


def forward(parameters: Parameters, images: Array, kind: str) -> tuple[Array, Any, Array]:
    """The logits z, and what the backward pass needs: h (on the GPU if there is one) and y."""
    hidden = numbacc.asarray(dense(images, parameters["W1"], parameters["b1"]))
    active = numbacc.asnumpy(gated.forward(hidden, kind))
    return dense(active, parameters["W2"], parameters["b2"]), hidden, active


def backprop(parameters: Parameters, images: Array, labels: Array, kind: str) -> tuple[float, Parameters]:
    """L, and its gradient with respect to every parameter, by the chain rule from the loss to the images."""
    logits, hidden, active = forward(parameters, images, kind)
    loss, dlogits = cross_entropy(logits, labels)
    dactive, dW2, db2 = dense_backward(dlogits, active, parameters["W2"])
    dhidden = numbacc.asnumpy(gated.backward(numbacc.asarray(dactive), hidden, kind))
    _, dW1, db1 = dense_backward(dhidden, images, parameters["W1"])
    return loss, {"W1": dW1, "b1": db1, "W2": dW2, "b2": db2}


def accuracy(parameters: Parameters, images: Array, labels: Array, kind: str) -> float:
    """The fraction of images whose largest logit is that of their label."""
    logits, _, _ = forward(parameters, images, kind)
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
        # The few images left over when the batches are full wait for another epoch's order.
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
    """The slope of the loss along one direction: by backpropagation, by differences, and how far apart."""

    parameter: str
    backward: float
    differences: float
    error: float


def check_gradients(data: Digits, kind: str, seed: int = 0, step: float = 1e-5) -> list[GradientCheck]:
    """Compare the gradient with central differences of the loss, for each parameter w along a direction d:

        <dL/dw, d>  =  (L(w + s d) - L(w - s d)) / 2s + O(s²)

    Everything is float64: in float32 the rounding of L, divided by s, would hide an error. The network is
    untrained, since the gradients of a trained one are close to zero.
    """
    rng = np.random.default_rng(seed)
    images, labels = data.train_images[:BATCH].astype(np.float64), data.train_labels[:BATCH]
    parameters = initial_parameters(seed, np.float64)
    _, gradients = backprop(parameters, images, labels, kind)

    def loss(name: str, offset: Array) -> float:
        logits, _, _ = forward({**parameters, name: parameters[name] + offset}, images, kind)
        return cross_entropy(logits, labels)[0]

    checks = []
    for name, gradient in gradients.items():
        # Random sizes, but the gradient's signs: no terms cancel, so the relative error means something.
        direction = np.copysign(rng.standard_normal(gradient.shape), gradient)
        direction /= np.linalg.norm(direction)
        slope = float(np.sum(gradient * direction))
        differences = (loss(name, step * direction) - loss(name, -step * direction)) / (2 * step)
        error = abs(slope - differences) / max(abs(slope), abs(differences), sys.float_info.min)
        checks.append(GradientCheck(name, slope, differences, error))
    return checks


def what_ran_where(parameters: Parameters, data: Digits, kind: str) -> str:
    """A table of the operations of a training step. For the gated ones it is their plans that tell."""
    _, hidden, active = forward(parameters, data.train_images[:BATCH], kind)
    dactive = numbacc.asarray(active)  # dL/dy has y's shape, dtype and device, and plans see no more
    plans = [gated.forward_plan(hidden, kind).info, gated.backward_plan(dactive, hidden, kind).info]
    device = "cpu" if isinstance(hidden, np.ndarray) else f"cuda:{hidden.device}"
    rows = [(plan.op, plan.backend, plan.algorithm, str(plan.math_dtype), device) for plan in plans]
    rows += [(op, "numpy", "matmul", str(active.dtype), "cpu") for op in ("dense", "dense_backward")]
    return table(("op", "backend", "algorithm", "math", "device"), rows)


def main(argv: list[str]) -> int:
    """Run the demo. Its exit status is 0 where accuracy and gradients are good, 1 if not, 2 if simulated."""
    options, verdict = _parse(argv), {True: "pass", False: "FAIL"}
    kind, seed = options.kind, options.seed
    if backend.simulated():
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
    if backend.has_gpu():
        from .bench.gated import bandwidth_table

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

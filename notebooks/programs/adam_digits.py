"""Train a classifier of handwritten digits with Adam. numbacc computes the forward pass, the gradients and the updates.

    python notebooks/programs/adam_digits.py

The network has one hidden layer: 64 pixels, 256 features, 10 digits. The training loop queues work on the GPU and
copies nothing to the host. Without a GPU, the same code runs in NumPy. Adam is from Kingma and Ba 2014
(arXiv:1412.6980).
"""

import math
import time

import numpy as np
from sklearn.datasets import load_digits

import numbacc
from numbacc import elementwise, gemm

RATE, BETA1, BETA2, EPS = 3e-3, 0.9, 0.999, 1e-8


@elementwise.kernel
def adam(p, g, m, v, rate, first, second):
    """Return the new parameter and its two moments. `first` and `second`, 1 - β^t, correct for the start at 0."""
    m = m + (1.0 - BETA1) * (g - m)
    v = v + (1.0 - BETA2) * (g * g - v)
    return p - rate * (m / first) / (math.sqrt(v / second) + EPS), m, v


def parameters(rng, rows, columns):
    """Return (parameter, first moment, second moment) for a layer's weights and for its bias."""
    weights = rng.normal(0, np.sqrt(2 / rows), (rows, columns)).astype(np.float32)
    values = [numbacc.asarray(weights), numbacc.zeros(columns)]
    return [(p, numbacc.zeros(p.shape), numbacc.zeros(p.shape)) for p in values]


def train(x, labels, classes, steps=100, seed=0):
    """Take `steps` steps, each on all of x. Return the parameters and the accuracy on x."""
    rng = np.random.default_rng(seed)
    layers = parameters(rng, x.shape[1], 256) + parameters(rng, 256, 10)
    (w1, *_), (b1, *_), (w2, *_), (b2, *_) = layers
    wanted = elementwise.equal(labels[:, None], classes).astype("float32")  # one-hot rows
    for step in range(1, steps + 1):
        z = gemm.matmul(x, w1) + b1
        h = elementwise.relu(z)
        y = gemm.matmul(h, w2) + b2
        p = elementwise.softmax(y)

        dy = (p - wanted) / x.shape[0]  # the gradient of the mean cross entropy
        dz = elementwise.relu_backward(gemm.matmul(dy, w2.T), z)
        gradients = gemm.matmul(x.T, dz), dz.sum(axis=0), gemm.matmul(h.T, dy), dy.sum(axis=0)
        for (p, m, v), g in zip(layers, gradients, strict=True):
            adam(p, g, m, v, RATE, 1 - BETA1**step, 1 - BETA2**step, out=(p, m, v))
    right = elementwise.equal(y.argmax(axis=1), labels)
    return layers, right.astype("float32").mean()


def main():
    digits = load_digits()
    x = numbacc.asarray((digits.data / 16).astype(np.float32))
    labels = numbacc.asarray(digits.target.astype(np.int64))
    start = time.perf_counter()
    _, accuracy = train(x, labels, numbacc.asarray(np.arange(10)))
    print(f"{float(accuracy):.1%} of {len(x)} digits correct after 100 steps, {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

"""Train a transformer with one layer to copy its input. numbacc computes the forward pass and the gradients.

    python notebooks/programs/copying.py

The model reads eight digits and writes the same eight, so attention has to look eight digits back. Rotary embedding
(arXiv:2104.09864) encodes this distance as angles. The training loop copies nothing to the host. Without a GPU, the
same code runs in NumPy.
"""

import time

import numpy as np

import numbacc
from numbacc import elementwise as ew
from numbacc.gemm import matmul
from numbacc.random import Generator

DIGITS, LENGTH, WIDTH, INNER, BATCH = 10, 8, 64, 128, 64
SCALE = WIDTH**-0.5


def parameters(rng):
    """Return the weights of embedding, attention (queries, keys, values, output), MLP and digits; the MLP's bias."""
    shapes = [(DIGITS, WIDTH), *[(WIDTH, WIDTH)] * 4, (WIDTH, INNER), (INNER, WIDTH), (WIDTH, DIGITS)]
    weights = [rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for shape in shapes]
    return [*map(numbacc.asarray, weights), numbacc.zeros(INNER)]


def loss_and_gradients(p, tokens, target, cos, sin, mask):
    embedding, wq, wk, wv, wo, w1, w2, digits, bias = p
    flat, rows, turned = (-1, WIDTH), (*tokens.shape, WIDTH), (0, 2, 1)
    code = ew.one_hot(tokens, DIGITS).reshape((-1, DIGITS))
    x = matmul(code, embedding)  # as ew.take(embedding, tokens, axis=0); the gradient is then a product
    h = ew.rms_norm(x)
    q, k = (ew.rope(matmul(h, w).reshape(rows), cos, sin) for w in (wq, wk))
    v = matmul(h, wv).reshape(rows)
    seen = ew.softmax(ew.where(mask, SCALE * matmul(q, k.transpose(turned)), -np.inf))
    a = matmul(seen, v).reshape(flat)
    y = x + matmul(a, wo)
    g = ew.rms_norm(y)
    u = matmul(g, w1)
    z = ew.bias_activation(u, bias, activation="gelu")
    out = y + matmul(z, w2)
    logits = matmul(out, digits)
    loss, stats = ew.cross_entropy(logits, target, return_stats=True)

    dlogits = ew.cross_entropy_backward(1.0, logits, target, stats=stats)
    dout = matmul(dlogits, digits.T)
    du, dbias = ew.bias_activation_backward(matmul(dout, w2.T), u, bias, activation="gelu")
    dy = dout + ew.rms_norm_backward(matmul(du, w1.T), y)
    da = matmul(dy, wo.T).reshape(rows)
    ds = SCALE * ew.softmax_backward(matmul(da, v.transpose(turned)), seen)
    dq, dk = (ew.rope_backward(d, cos, sin).reshape(flat) for d in (matmul(ds, k), matmul(ds.transpose(turned), q)))
    dv = matmul(seen.transpose(turned), da).reshape(flat)
    dx = dy + ew.rms_norm_backward(matmul(dq, wq.T) + matmul(dk, wk.T) + matmul(dv, wv.T), x)
    pairs = (code, dx), (h, dq), (h, dk), (h, dv), (a, dy), (g, du), (z, dout), (out, dlogits)
    return loss, [*(matmul(left.T, right) for left, right in pairs), dbias]


def train(steps=60, seed=0):
    """Return the loss of each step. Every step draws new sequences."""
    p, draws, losses = parameters(np.random.default_rng(seed)), Generator("philox", seed=seed), []
    m, v = ([numbacc.zeros(each.shape) for each in p] for _ in range(2))
    cos, sin = ew.rope_tables(2 * LENGTH - 1, WIDTH)
    mask = ew.tril(numbacc.full((2 * LENGTH - 1, 2 * LENGTH - 1), True, "bool"))
    for step in range(1, steps + 1):
        tokens = ew.concatenate([draws.integers(DIGITS, size=(BATCH, LENGTH))] * 2, axis=1)
        target = ew.copy(tokens[:, 1:])
        ew.fill(target[:, : LENGTH - 1], -100)  # nobody can predict the first digits, so the loss ignores them
        loss, gradients = loss_and_gradients(p, tokens[:, :-1], target.reshape(-1), cos, sin, mask)
        ew.adamw_step(p, gradients, m, v, step, rate=1e-2)
        losses.append(loss)
    return losses


if __name__ == "__main__":
    start, found = time.perf_counter(), train()
    print(f"loss {float(found[0]):.2f} -> {float(found[-1]):.5f}, {time.perf_counter() - start:.2f} s")

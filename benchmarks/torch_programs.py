"""The programs of notebooks/programs in torch, eager, as its users write them.

Each takes torch and what the program takes, as tensors, and gives what that gives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

RATE, BETA1, BETA2, EPS = 3e-3, 0.9, 0.999, 1e-8


def _layers(torch: Any, device: Any, seed: int) -> list[Any]:
    """The weights and biases that the program starts with."""
    rng, found = np.random.default_rng(seed), []
    for rows, columns in ((64, 256), (256, 10)):
        weights = rng.normal(0, np.sqrt(2 / rows), (rows, columns)).astype(np.float32)
        found += [torch.tensor(weights, device=device), torch.zeros(columns, device=device)]
    return found


def train_by_hand(torch: Any, x: Any, labels: Any, steps: int, seed: int = 0) -> tuple[list[Any], Any]:
    """(parameters, accuracy): the program line by line, its gradients and Adam written out."""
    layers = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in _layers(torch, x.device, seed)]
    (w1, *_), (b1, *_), (w2, *_), (b2, *_) = layers
    wanted = torch.nn.functional.one_hot(labels, 10).float()
    for step in range(1, steps + 1):
        z = x @ w1 + b1
        h = torch.relu(z)
        y = h @ w2 + b2
        dy = (torch.softmax(y, 1) - wanted) / x.shape[0]
        dz = (dy @ w2.T) * (z > 0)
        for (p, m, v), g in zip(layers, (x.T @ dz, dz.sum(0), h.T @ dy, dy.sum(0)), strict=True):
            m += (1 - BETA1) * (g - m)
            v += (1 - BETA2) * (g * g - v)
            p -= RATE * (m / (1 - BETA1**step)) / ((v / (1 - BETA2**step)).sqrt() + EPS)
    return [p for p, _, _ in layers], (y.argmax(1) == labels).float().mean()


def train_by_autograd(torch: Any, x: Any, labels: Any, steps: int, seed: int = 0) -> tuple[list[Any], Any]:
    """(parameters, accuracy): the same by autograd and `torch.optim.Adam`."""
    layers = [p.requires_grad_() for p in _layers(torch, x.device, seed)]
    w1, b1, w2, b2 = layers
    adam = torch.optim.Adam(layers, lr=RATE, betas=(BETA1, BETA2), eps=EPS)
    for _ in range(steps):
        y = torch.relu(x @ w1 + b1) @ w2 + b2
        loss = torch.nn.functional.cross_entropy(y, labels)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return [p.detach() for p in layers], (y.argmax(1) == labels).float().mean()


def denoise(torch: Any, noisy: Any) -> Any:
    """The signals without what lies below a threshold in their spectra."""
    length = noisy.shape[1]
    spectrum = torch.fft.rfft(noisy)
    power = spectrum.abs().square()
    mean = power.mean(1, keepdim=True)
    noise = torch.where(power < 3 * mean, power, 0.0).mean(1, keepdim=True)
    return torch.fft.irfft(torch.where(power > noise * (2 * math.log(length)), spectrum, 0.0), length)


_RATE, _YEARS = 0.03, 1.0


def call_price(torch: Any, share: Any, strike: Any, volatility: float) -> Any:
    """The price of the right to buy a share for `strike` in a year."""
    spread = volatility * math.sqrt(_YEARS)
    d1 = (torch.log(share / strike) + (_RATE + 0.5 * volatility * volatility) * _YEARS) / spread

    def normal_cdf(x: Any) -> Any:
        return 0.5 * torch.erfc(-x * 0.7071067811865476)

    return share * normal_cdf(d1) - strike * math.exp(-_RATE * _YEARS) * normal_cdf(d1 - spread)


def _payoff(normal: Any, share: Any, strike: Any, volatility: float) -> Any:
    drift = (_RATE - 0.5 * volatility * volatility) * _YEARS
    then = share * (drift + volatility * math.sqrt(_YEARS) * normal).exp()
    return (then - strike).clamp(min=0.0) * math.exp(-_RATE * _YEARS)


def options(torch: Any, share: Any, strike: Any, volatility: float, paths: int) -> tuple[Any, Any, Any]:
    """(prices in closed form, their derivatives by the share's price, prices by so many paths)."""
    own = share.detach().requires_grad_()
    exact = call_price(torch, own, strike, volatility)
    (delta,) = torch.autograd.grad(exact.sum(), own)
    normal = torch.randn((1, paths), device=share.device)
    there = _payoff(normal, share[:, None], strike[:, None], volatility)
    back = _payoff(-normal, share[:, None], strike[:, None], volatility)
    return exact.detach(), delta, 0.5 * (there + back).mean(1)

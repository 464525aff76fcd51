"""The programs of notebooks/programs: they are short, right, and copy nothing to the host in their loops."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from paths import ROOT

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import runtime
from numbacc.random import Generator

PROGRAMS = sorted((ROOT / "notebooks" / "programs").glob("*.py"))


def program(name):
    (path,) = [path for path in PROGRAMS if path.stem == name]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copies(place, monkeypatch):
    """The names of calls that copy to the host."""
    seen = []
    if place.is_device:
        copy = runtime().copy_to_host

        def counted(*arguments, **options):
            seen.append(options.get("call"))
            return copy(*arguments, **options)

        monkeypatch.setattr(runtime(), "copy_to_host", counted)
    return seen


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_they_are_short(path):
    assert len(path.read_text().splitlines()) < 80


def test_adam_learns_digits(place, copies):
    from sklearn.datasets import load_digits

    adam = program("adam_digits")
    digits = load_digits(n_class=10)
    few, steps = (12, 2) if place.is_slow else (600, 40)
    x = place.put((digits.data[:few] / 16).astype(np.float32))
    labels = place.put(digits.target[:few].astype(np.int64))
    layers, accuracy = adam.train(x, labels, place.put(np.arange(10)), steps=steps)
    assert not copies
    if not place.is_slow:
        assert float(accuracy) > 0.9
    for p, m, v in layers:
        assert np.isfinite(place.get(p)).all() and (place.get(v) >= 0).all() and place.get(m).any()


def test_a_transformer_learns_to_copy(place, copies, monkeypatch):
    copying = program("copying")
    if place.is_slow:
        for name, value in (("LENGTH", 2), ("WIDTH", 8), ("INNER", 8), ("BATCH", 2)):
            monkeypatch.setattr(copying, name, value)
    losses = copying.train(steps=1 if place.is_slow else 40)
    assert not copies
    assert np.isfinite(float(losses[0]))
    if not place.is_slow:
        assert float(losses[0]) > 2 and float(losses[-1]) < 0.05


def test_the_transformers_gradients_are_those_of_its_loss(numpy_place, monkeypatch):
    """By differences, in float64."""
    copying = program("copying")
    rng = np.random.default_rng(0)
    p = [numbacc.asnumpy(x) + 0.1 * rng.normal(size=x.shape) for x in copying.parameters(rng)]
    tokens = rng.integers(0, 10, (3, 16))
    cos, sin = ew.rope_tables(15, copying.WIDTH, dtype="float64", device="cpu")
    one_hot = ew.one_hot
    monkeypatch.setattr(ew, "one_hot", lambda *given: one_hot(*given, dtype="float64"))

    def found(p):
        return copying.loss_and_gradients(p, tokens[:, :-1], tokens[:, 1:].ravel(), cos, sin, np.tri(15, dtype=bool))

    _, gradients = found(p)
    for k, gradient in enumerate(gradients):
        step = 1e-5 * rng.normal(size=p[k].shape)
        behind, before = ([*p[:k], p[k] + sign * step, *p[k + 1 :]] for sign in (1, -1))
        np.testing.assert_allclose((gradient * step).sum(), (found(behind)[0] - found(before)[0]) / 2, rtol=1e-4)


def test_noise_is_taken_out(place, copies, monkeypatch):
    denoise = program("denoise")
    signals, length = (1, 64) if place.is_slow else (8, 4096)
    monkeypatch.setattr(denoise, "SIGNALS", signals)
    monkeypatch.setattr(denoise, "LENGTH", length)
    t = np.arange(length) * (2 * np.pi / length)
    host = np.sin(np.arange(5, 5 + signals)[:, None] * t).astype(np.float32) * 3
    noise = np.random.default_rng(0).normal(size=host.shape).astype(np.float32)
    found = denoise.denoise(place.put(host + noise))
    off = denoise.error(found, place.put(host))
    assert not copies
    assert float(off) < 0.5 * float(np.sqrt((noise**2).mean()))


def test_prices_are_those_of_black_and_scholes(place, copies):
    from scipy.stats import norm

    options = program("options")
    share, strike, spread = np.linspace(80, 120, 5), np.full(5, 100.0), 0.2
    first = (np.log(share / strike) + options.RATE + spread**2 / 2) / spread
    wanted = share * norm.cdf(first) - strike * np.exp(-options.RATE) * norm.cdf(first - spread)
    found = options.call_price(place.put(share), place.put(strike), spread)
    delta, _ = options.call_price.backward(place.put(np.ones(5)), place.put(share), place.put(strike), spread)
    assert not copies
    np.testing.assert_allclose(place.get(found), wanted, rtol=1e-12)
    np.testing.assert_allclose(place.get(delta), norm.cdf(first), rtol=1e-12)


def test_paths_come_to_the_same_prices(place):
    if place.is_slow:
        return
    if place.is_device:
        assert isinstance(Generator(seed=1).normal(size=2), type(numbacc.zeros(1)))
    options = program("options")
    share = numbacc.asarray(np.linspace(80, 120, 4, dtype=np.float32))
    strike = numbacc.asarray(np.full(4, 100, np.float32))
    exact, found = options.call_price(share, strike, 0.2), options.simulated(share, strike, 0.2, paths=2**16)
    np.testing.assert_allclose(place.get(found), place.get(exact), atol=0.15)

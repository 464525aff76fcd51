"""A step of AdamW: one kernel for a parameter, its gradient and its two moments."""

from __future__ import annotations

import math
from typing import Any

from ..arrays.operands import Array
from ..base import checks
from ..errors import OptionError
from .own import Kernel


def adamw_step(
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    step: int,
    *,
    rate: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    stream: Any = None,
) -> tuple[Array, Array, Array]:
    """A step of AdamW, in place: p, m and v are read and written once, by one kernel.

        m ← m + (1 - β₁)(g - m),  v ← v + (1 - β₂)(g² - v)
        p ← p - η (m/(1 - β₁ᵗ) / (√(v/(1 - β₂ᵗ)) + ε) + λ p)

    Source: Loshchilov and Hutter 2017 (arXiv:1711.05101), with the decay times the rate, as torch has it.

    Args:
        p: the parameter, an array of floats; it is written.
        g: the loss's gradient with respect to it, of its shape.
        m, v: the moments, of its shape, 0 at first; they are written. Of a 16-bit parameter they are better float32.
        step: t, counted from 1.
        rate, beta1, beta2, eps, weight_decay: η, β₁, β₂, ε, λ.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        (p, m, v).

    Raises:
        OptionError: a step below 1, a β not in [0, 1), a negative rate, ε or decay. As `add` besides.

    Example:
        >>> p, m, v = np.array([1.0]), np.zeros(1), np.zeros(1)
        >>> elementwise.adamw_step(p, np.array([0.5]), m, v, 1, rate=0.1)[0].round(4)
        array([0.899])
    """
    t = checks.integer(step, "step", 1)
    for name, beta in (("beta1", beta1), ("beta2", beta2)):
        if not 0.0 <= checks.real(beta, name) < 1.0:
            raise OptionError(f"{name}={beta} is out of range: it must be at least 0 and below 1")
    numbers = [checks.at_least_0(x, n) for n, x in (("rate", rate), ("eps", eps), ("weight_decay", weight_decay))]
    eta, small, decay = numbers
    given = (eta, 1.0 - beta1, 1.0 - beta2, 1.0 - beta1**t, 1.0 - beta2**t, small, 1.0 - eta * decay)
    _STEP(p, g, m, v, *given, out=(p, m, v), stream=stream)
    return p, m, v


def _step(p, g, m, v, rate, rest1, rest2, whole1, whole2, eps, kept):  # type: ignore[no-untyped-def]
    m = m + rest1 * (g - m)
    v = v + rest2 * (g * g - v)
    return p * kept - rate * (m / whole1) / (math.sqrt(v / whole2) + eps), m, v


_STEP = Kernel(_step)

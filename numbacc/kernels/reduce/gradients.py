"""Gradients of reductions with respect to one of the numbers reduced: of dy, that number, and totals of all."""

from __future__ import annotations

import math


def of_sum(dy, x):
    return (dy,)


def of_mean(dy, x, count):
    return (dy / count,)


def of_var(dy, x, mean, divisor):
    return (dy * ((x - mean) * 2.0 / divisor),)


def of_std(dy, x, mean, std, divisor):
    """0 where all numbers are equal: at the tip of a cone there is no slope."""
    return (0.0 if std == 0.0 else dy * ((x - mean) / (divisor * std)),)


def of_extreme(dy, x, extreme, ties):
    """All that are equal to the extreme share it, as all NaN do where one makes it NaN."""
    return (dy / ties if x == extreme or (x != x and extreme != extreme) else 0.0,)


def of_prod(dy, x, product, zeros):
    """The product of all others, given that of what is not 0, and how many are."""
    if zeros == 0.0:
        return (dy * (product / x),)
    return (dy * product if zeros == 1.0 and x == 0.0 else 0.0,)


def of_norm_1(dy, x):
    return (dy if x > 0.0 else -dy if x < 0.0 else dy * x,)


def of_norm_2(dy, x, norm):
    """0 at the origin, as `of_std`."""
    return (0.0 if norm == 0.0 else dy * (x / norm),)


def of_norm_0(dy, x):
    return (0.0,)


def of_norm_p(dy, x, norm, order):
    """0 of what is 0, where there is no slope, or none that is finite."""
    if x == 0.0 or norm == 0.0:
        return (0.0,)
    slope = dy * math.pow(abs(x) / norm, order - 1.0)
    return (-slope if x < 0.0 else slope,)


def of_norm_inf(dy, x, norm, ties):
    """As `of_extreme`, towards the side that each is on."""
    if abs(x) == norm or (x != x and norm != norm):
        return ((dy if x > 0.0 else -dy if x < 0.0 else dy * x) / ties,)
    return (0.0,)


def of_logsumexp(dy, x, base, total):
    """`total` is log Σ e^(x - base)."""
    return (dy * math.exp(x - base - total),)


def factor(x):
    """What a number is in the product of what is not 0, and in the count of what is."""
    return (1.0, 1.0) if x == 0.0 else (x, 0.0)


def factors(product, zeros, other, more):
    return product * other, zeros + more

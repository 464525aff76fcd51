"""Price European call options in closed form and by Monte Carlo, and compute their sensitivities (the Greeks).

    python notebooks/programs/options.py

The model is from Black and Scholes 1973. The closed form is a scalar function that numbacc compiles to a kernel.
numbacc also derives its gradient. The derivatives with respect to the share's price and the volatility are called delta
and vega.
"""

import math
import time

import numpy as np

import numbacc
from numbacc import elementwise
from numbacc.random import Generator

RATE, YEARS = 0.03, 1.0


def normal_cdf(x):
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@elementwise.kernel
def call_price(share, strike, volatility):
    """Return the price of the right to buy a share for `strike` in a year."""
    spread = volatility * math.sqrt(YEARS)
    d1 = (math.log(share / strike) + (RATE + 0.5 * volatility * volatility) * YEARS) / spread
    return share * normal_cdf(d1) - strike * math.exp(-RATE * YEARS) * normal_cdf(d1 - spread)


@elementwise.kernel
def payoff(normal, share, strike, volatility):
    """Return the payoff in a year for one possible path of the share's price, discounted to today."""
    drift = (RATE - 0.5 * volatility * volatility) * YEARS
    then = share * math.exp(drift + volatility * math.sqrt(YEARS) * normal)
    return max(then - strike, 0.0) * math.exp(-RATE * YEARS)


def simulated(share, strike, volatility, paths=2**18, seed=5):
    """Return the mean payoff over many paths and their mirror images. All options use the same paths."""
    normal = Generator(seed=seed).normal(size=(1, paths), dtype="float32")
    worth = payoff(normal, share[:, None], strike[:, None], volatility) + payoff(
        -normal, share[:, None], strike[:, None], volatility
    )
    return 0.5 * worth.mean(axis=1)


def main():
    share = numbacc.asarray(np.linspace(80, 120, 16, dtype=np.float32))
    strike = numbacc.asarray(np.full(16, 100, np.float32))
    start = time.perf_counter()
    exact = call_price(share, strike, 0.2)
    found = simulated(share, strike, 0.2)
    delta, _ = call_price.backward(numbacc.full(16, 1.0), share, strike, 0.2)
    off = abs(found - exact).max()
    print(f"at the money {float(exact[8]):.3f}, delta {float(delta[8]):.3f}; error of Monte Carlo <= {float(off):.3f}")
    print(f"{time.perf_counter() - start:.3f} s")


if __name__ == "__main__":
    main()

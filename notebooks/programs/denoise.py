"""Remove noise from signals: set the weak elements of the spectrum to 0 (Donoho and Johnstone 1994).

    python notebooks/programs/denoise.py

Each of the 64 signals is a sum of three sines, with white noise added. The program estimates the noise from the
spectrum, and keeps the frequencies that are clearly stronger. It copies nothing to the host in between.
"""

import math
import time

import numpy as np

import numbacc
from numbacc import elementwise, fft
from numbacc.random import Generator

SIGNALS, LENGTH = 64, 2**14


def clean_signals():
    """Return signals that are sums of three sines. Each signal has different frequencies."""
    t = numbacc.asarray(np.arange(LENGTH, dtype=np.float32) * np.float32(2 * math.pi / LENGTH))
    first = numbacc.asarray(np.arange(5, 5 + SIGNALS, dtype=np.float32)[:, None])
    angle = first * t
    return elementwise.sin(angle) + 0.7 * elementwise.sin(3 * angle + 1.0) + 0.5 * elementwise.cos(7 * angle)


def denoise(noisy):
    """Return the signals after setting all elements of their spectra below a threshold to 0."""
    spectrum = fft.rfft(noisy)
    power = elementwise.square(abs(spectrum))
    # Estimate the noise: the mean power without the few strong frequencies, which are far above the mean.
    mean = power.mean(axis=1, keepdims=True)
    weak = elementwise.where(elementwise.less(power, 3 * mean), power, 0.0)
    noise = weak.mean(axis=1, keepdims=True)
    threshold = noise * (2 * math.log(LENGTH))
    return fft.irfft(elementwise.where(elementwise.greater(power, threshold), spectrum, 0.0), LENGTH)


def error(found, wanted):
    """Return the root mean square of the difference."""
    return elementwise.square(found - wanted).mean() ** 0.5


def main():
    wanted = clean_signals()
    noisy = wanted + 1.5 * Generator(seed=1).normal(size=wanted.shape, dtype="float32")
    start = time.perf_counter()
    found = denoise(noisy)
    before, after = float(error(noisy, wanted)), float(error(found, wanted))
    print(f"{SIGNALS} signals of {LENGTH}: RMS error {before:.3f} -> {after:.3f}, {time.perf_counter() - start:.3f} s")


if __name__ == "__main__":
    main()

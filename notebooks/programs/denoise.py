"""Take noise out of a signal: what is weak in its spectrum is set to 0 (Donoho and Johnstone 1994).

    python notebooks/programs/denoise.py

The signals, 64 of them, are sums of three sines in white noise. What a frequency must have to be kept follows from the
noise itself, whose size is estimated from the spectrum; nothing is copied to the host between.
"""

import math
import time

import numpy as np

import numbacc
from numbacc import elementwise, fft
from numbacc.random import Generator

SIGNALS, LENGTH = 64, 2**14


def clean_signals():
    """Three sines of each signal's own frequencies."""
    t = numbacc.asarray(np.arange(LENGTH, dtype=np.float32) * np.float32(2 * math.pi / LENGTH))
    first = numbacc.asarray(np.arange(5, 5 + SIGNALS, dtype=np.float32)[:, None])
    angle = first * t
    return elementwise.sin(angle) + 0.7 * elementwise.sin(3 * angle + 1.0) + 0.5 * elementwise.cos(7 * angle)


def denoise(noisy):
    """The signals without what lies below a threshold in their spectra."""
    spectrum = fft.rfft(noisy)
    power = elementwise.square(abs(spectrum))
    # The mean power of the noise, of what is not far above the mean of all: the few strong frequencies are.
    mean = power.mean(axis=1, keepdims=True)
    weak = elementwise.where(elementwise.less(power, 3 * mean), power, 0.0)
    noise = weak.mean(axis=1, keepdims=True)
    threshold = noise * (2 * math.log(LENGTH))
    return fft.irfft(elementwise.where(elementwise.greater(power, threshold), spectrum, 0.0), LENGTH)


def error(found, wanted):
    """The root of the mean square of what they differ by."""
    return elementwise.square(found - wanted).mean() ** 0.5


def main():
    wanted = clean_signals()
    noisy = wanted + 1.5 * Generator(seed=1).normal(size=wanted.shape, dtype="float32")
    start = time.perf_counter()
    found = denoise(noisy)
    before, after = float(error(noisy, wanted)), float(error(found, wanted))
    print(f"{SIGNALS} signals of {LENGTH}: error {before:.3f} -> {after:.3f}, {time.perf_counter() - start:.3f} s")


if __name__ == "__main__":
    main()

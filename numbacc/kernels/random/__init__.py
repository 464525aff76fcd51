"""Kernels that draw random numbers: Philox, distributions, dropout."""

"""Elementwise kernels: a scalar function applied to arrays, to lists of arrays, or through a lookup table."""

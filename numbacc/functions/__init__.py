"""Scalar functions: what kernels and NumPy compute of one element, and their derivatives."""

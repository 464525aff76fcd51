"""Trace scalar functions, derive them, and write them as code for kernels and for NumPy."""

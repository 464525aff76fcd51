"""The scalar functions that kernels and NumPy compute for one element, and their derivatives."""

"""Substitutes for the GPU and its libraries in Numba's CUDA simulator."""

"""What all floors share: dtypes, layouts, status codes, who may be copied, the one door to Numba's CUDA target."""

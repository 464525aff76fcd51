"""Shared by all floors: dtypes, layouts, checks of numbers, status codes, and the one door to `numba.cuda`."""

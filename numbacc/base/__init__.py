"""Modules that all layers share: dtypes, layouts, argument checks, status codes, and the import of `numba.cuda`."""

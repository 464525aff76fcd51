"""Kernels that read whole rows: softmax, norms and losses."""

"""Kernels that copy what indices select, and that add gradients back to it."""

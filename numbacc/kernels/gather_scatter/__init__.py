"""Kernels that gather elements by index, and that scatter-add their gradients."""

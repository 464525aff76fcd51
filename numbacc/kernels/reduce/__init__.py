"""Kernels that reduce arrays over any of their axes, and the reductions that numbacc has."""

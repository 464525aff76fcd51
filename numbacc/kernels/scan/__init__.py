"""Kernels that scan along an axis, such as cumsum."""

"""Kernels that convert arrays to and from the layout of a Fourier transform."""

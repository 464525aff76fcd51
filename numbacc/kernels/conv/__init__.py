"""Kernels of convolution: depthwise, im2col for few channels, and epilogues that cuDNN does not run."""

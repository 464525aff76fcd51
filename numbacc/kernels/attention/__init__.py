"""Kernels of unfused attention: softmax of scores, and copies of sequences of different lengths."""

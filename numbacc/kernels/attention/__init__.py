"""Kernels of attention that is not fused: softmax of scores, and moves of sequences of different lengths."""

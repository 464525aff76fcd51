"""Device code that all kernels share: loads and stores, warp and block reductions, and their simulated twins."""

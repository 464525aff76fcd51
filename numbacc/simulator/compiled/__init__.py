"""Run `@cuda.jit` kernels on the CPU, compiled."""

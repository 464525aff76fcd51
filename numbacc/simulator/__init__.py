"""Replace the GPU and its libraries: compiled for the CPU, or in Numba's CUDA simulator."""

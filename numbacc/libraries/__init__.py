"""NVIDIA's libraries as numbacc uses them: handles, descriptors and algorithms, one module per library."""

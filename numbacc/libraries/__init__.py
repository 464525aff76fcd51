"""numbacc's interface to NVIDIA's libraries: handles, descriptors and algorithms, one or more modules per library."""

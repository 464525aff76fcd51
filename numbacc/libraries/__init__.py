"""What numbacc makes of NVIDIA's libraries: handles, descriptors and algorithms, one library a module."""

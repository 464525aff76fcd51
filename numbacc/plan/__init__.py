"""Plans: what is decided once for given layouts and options, and the geometry of kernels' launches."""

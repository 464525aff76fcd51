"""The meaning of every operation, in NumPy: the CPU path, and the text to read first."""

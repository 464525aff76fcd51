"""What every operation means, in NumPy: the CPU path, and the text to read first."""

"""The definition of every operation in NumPy. This is also the CPU path, and the code to read first."""

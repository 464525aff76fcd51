"""Arrays: the device array, making and assigning arrays, and taking those of other libraries."""

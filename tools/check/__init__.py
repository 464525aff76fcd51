"""Run every engine of cuDNN against the reference: `python -m tools.check conv`. See `__main__`."""

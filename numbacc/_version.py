"""The version, in a separate module that the build reads without importing numbacc."""

__version__ = "0.1.0"

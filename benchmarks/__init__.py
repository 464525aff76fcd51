"""Benchmarks of numbacc; see README.md. Every figure is a ratio inside one run, of results that were checked first."""

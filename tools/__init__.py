"""Tools for maintainers, run in a checkout of the repository. They are not installed."""

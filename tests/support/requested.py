"""Requests of convolutions and attention, of a function that a parameter names."""

from __future__ import annotations


def requested(family, *shapes, direction="forward", **options):
    """Return `family.<direction>.request(*shapes, **options)`."""
    return getattr(family, direction).request(*shapes, **options)

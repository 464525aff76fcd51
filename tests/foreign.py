"""Arrays of other libraries, as far as numbacc sees them."""

from __future__ import annotations


class OnlyDlpack:
    """What has nothing but DLPack."""

    def __init__(self, owner):
        self._owner = owner

    def __dlpack__(self, **options):
        return self._owner.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._owner.__dlpack_device__()

"""Device functions for Hopper's tensor cores and copy engine, and for warps and blocks of any GPU."""

from __future__ import annotations

from . import arithmetic, barriers, collectives, fragments, matrices, memory, random_words, tma
from .arithmetic import *  # noqa: F403
from .barriers import *  # noqa: F403
from .collectives import *  # noqa: F403
from .fragments import *  # noqa: F403
from .matrices import *  # noqa: F403
from .memory import *  # noqa: F403
from .random_words import *  # noqa: F403
from .tma import *  # noqa: F403

__all__ = [
    *arithmetic.__all__, *barriers.__all__, *collectives.__all__, *fragments.__all__, *matrices.__all__,
    *memory.__all__, *random_words.__all__, *tma.__all__,
]  # fmt: skip

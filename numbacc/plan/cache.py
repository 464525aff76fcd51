"""Plans by what decides them: one bounded cache per operation family, the same for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from ..base import checks


class CacheInfo(NamedTuple):
    """The state of a cache of plans; the first four as `functools.lru_cache` names them.

    Attributes:
        hits, misses: calls that found their plan, and that did not: those that were refused, too.
        maxsize, currsize: plans, at most and now.
        maxbytes, currbytes: of what libraries hold, or ask for, for the plans; None where that is not limited.
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int
    maxbytes: int | None
    currbytes: int


class PlanCache:
    """Plans by what decides them; the one used longest ago is dropped first. Threads may share it.

    A plan that is dropped while it runs lives until it is done, and one that was captured as long as its graph.

    Args:
        make: makes the plan of a key's parts; or returns None, or raises, where there is none: nothing is kept then.
        count: how many plans are kept at most.
        nbytes: how many `library_bytes` of all plans together; None for any number.
        forget: forgets what else `cache_clear` is to forget.

    Attributes:
        known: the plans by their keys.
        hits: how many calls found theirs. It is the clock that tells which plan was used longest ago: nothing is moved,
            no lock is taken.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        count: int,
        nbytes: int | None = None,
        forget: Callable[[], object] | None = None,
    ):
        self._make, self._forget = make, forget
        self._count, self._nbytes = count, nbytes
        self.known: dict[Hashable, Any] = {}
        #: Reentrant: what is dropped under it is finalized there, and may come back here.
        self._lock = threading.RLock()
        self.hits = self._misses = 0
        #: How often all plans were forgotten: one that was being made then is not kept.
        self._cleared = 0

    def hit(self, key: tuple[Any, ...]) -> Any:
        """The plan of a key if it is there, else None.

        Raises:
            TypeError: a part of the key cannot be hashed.
        """
        plan = self.known.get(key)
        if plan is not None:
            self.hits = plan.used = self.hits + 1
        return plan

    def find(self, key: tuple[Any, ...]) -> Any:
        """The plan of a key, found or made."""
        try:
            plan = self.known.get(key)
        except TypeError:
            # An option that cannot be hashed is not one that we know, and is named where it is checked.
            return self._make(*key)
        if plan is None:
            return self._add(key)
        self.hits = plan.used = self.hits + 1  # as `hit`, which would be one more call
        return plan

    def _add(self, key: tuple[Any, ...]) -> Any:
        self._misses += 1
        before = self._cleared
        plan = self._make(*key)
        if plan is None:
            return None
        with self._lock:
            if self._cleared != before:
                return plan
            # Another thread may have made it meanwhile.
            plan = self.known.setdefault(key, plan)
            plan.used, plan.cache = self.hits, self
            self.trim()
        return plan

    def trim(self) -> None:
        """Drop what is too much."""
        with self._lock:
            plans = self.known
            used = self._bytes()
            while len(plans) > self._count or (self._nbytes is not None and plans and used > self._nbytes):
                # Of plans used at the same time the one made first; a dictionary keeps them in that order.
                oldest = min(plans, key=lambda key: plans[key].used)
                used -= plans.pop(oldest).library_bytes

    def _bytes(self) -> int:
        # A library's plans may be made, and so known, in one thread while another looks here.
        return 0 if self._nbytes is None else sum(plan.library_bytes for plan in self.known.values())

    def info(self) -> CacheInfo:
        """The cache's counts and bytes."""
        with self._lock:
            return CacheInfo(self.hits, self._misses, self._count, len(self.known), self._nbytes, self._bytes())

    def clear(self) -> None:
        """Forget all plans, and count anew."""
        with self._lock:
            self.known.clear()
            self.hits = self._misses = 0
            self._cleared += 1
        if self._forget is not None:
            self._forget()

    def limit(self, count: int | None, nbytes: int | None) -> tuple[int, int | None]:
        """Set limits where they are given, and return both."""
        with self._lock:
            self._count = self._count if count is None else count
            self._nbytes = self._nbytes if nbytes is None else nbytes
            self.trim()
            return self._count, self._nbytes


def functions_of(
    cache: PlanCache, module: str
) -> tuple[Callable[[], CacheInfo], Callable[[], None], Callable[..., tuple[int, int | None]]]:
    """The public functions of a family's cache: `cache_info`, `cache_clear`, `cache_limit`, for the family's module."""
    family = module.split(".")[1]

    def cache_info() -> CacheInfo:
        """Hits, misses, the limit and the number of plans, as `functools.lru_cache` names them; and bytes.

        Example:
            >>> FAMILY.cache_clear()
            >>> info = FAMILY.cache_info()
            >>> info.hits, info.misses, info.currsize
            (0, 0, 0)
        """
        return cache.info()

    def cache_clear() -> None:
        """Forget all plans, and what libraries hold for them. Compiled kernels and everything on disk stay.

        Example:
            >>> FAMILY.cache_clear()
            >>> FAMILY.cache_info().currsize
            0
        """
        cache.clear()

    def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]:
        """How many plans are kept at most, and of how many bytes; the least recently used are dropped first.

        Plans hold no scratch memory: it is lent to each call, and shared. A library's plan counts as large as
        the scratch memory that it asks for. Where the family's libraries hold nothing that would count, the limit in
        bytes is None.

        Args:
            count, nbytes: the new limits; None leaves one as it is.

        Returns:
            (count, nbytes), as they are now.

        Raises:
            OptionError: a limit is negative or not an integer.

        Example:
            >>> count, nbytes = FAMILY.cache_limit()
            >>> FAMILY.cache_limit(count=count) == (count, nbytes)
            True
        """
        count = None if count is None else checks.integer(count, "count", 0)
        nbytes = None if nbytes is None else checks.integer(nbytes, "nbytes", 0)
        return cache.limit(count, nbytes)

    for function in (cache_info, cache_clear, cache_limit):
        function.__module__, function.__qualname__ = module, function.__name__
        function.__doc__ = (function.__doc__ or "").replace("FAMILY", family)
    return cache_info, cache_clear, cache_limit

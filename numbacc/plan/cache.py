"""Caches of plans: one bounded cache for each family of operations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from ..base import checks
from ..base.observing import observable


class CacheInfo(NamedTuple):
    """The state of a cache of plans; the first four fields are named as in `functools.lru_cache`.

    Attributes:
        hits, misses: calls that found their plan, and those that did not, including calls that raised an error.
        maxsize, currsize: the most plans, and the current number.
        maxbytes, currbytes: bytes that libraries hold or request for the plans; maxbytes is None if they are unlimited.
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int
    maxbytes: int | None
    currbytes: int


class PlanCache:
    """A bounded cache of plans; the least recently used plan is dropped first. Threads may share it.

    A plan that is dropped while it runs lives until it is done; a captured plan lives as long as its graph.

    Args:
        make: makes the plan from a key's parts. If it returns None or raises an error, nothing is kept.
        count: the most plans to keep.
        nbytes: the most `library_bytes` of all plans together; None for no limit.
        forget: as in `forgets`.

    Attributes:
        known: the plans by their keys.
        hits: number of calls that found their plan. It also serves as the clock that orders plans by last use, so that
            no entry is moved and no lock is needed.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        count: int,
        nbytes: int | None = None,
        forget: Callable[[], object] | None = None,
    ):
        self._make, self._forget = make, [forget] if forget is not None else []
        self._count, self._nbytes = count, nbytes
        self.known: dict[Hashable, Any] = {}
        #: Reentrant: objects that are dropped under the lock run their finalizers there, which may call this class
        #: again.
        self._lock = threading.RLock()
        self.hits = self._misses = 0
        #: How often the cache was cleared: a plan whose creation started before a clear is not kept.
        self._cleared = 0

    def hit(self, key: tuple[Any, ...]) -> Any:
        """Return the plan of a key if it exists, else None.

        Raises:
            TypeError: a part of the key cannot be hashed.
        """
        plan = self.known.get(key)
        if plan is not None:
            self.hits = plan.used = self.hits + 1
        return plan

    def find(self, key: tuple[Any, ...]) -> Any:
        """Return the plan of a key, found or made."""
        try:
            plan = self.known.get(key)
        except TypeError:
            # An option that cannot be hashed is invalid; the check of the options names it.
            return self._make(*key)
        if plan is None:
            return self._add(key)
        self.hits = plan.used = self.hits + 1  # inlined from `hit`, to save a call
        return plan

    @observable("setup")
    def _add(self, key: tuple[Any, ...]) -> Any:
        self._misses += 1
        before = self._cleared
        plan = self._make(*key)
        if plan is None:
            return None
        with self._lock:
            if self._cleared != before:
                return plan
            # Another thread may have made it in the meantime.
            plan = self.known.setdefault(key, plan)
            plan.used, plan.cache = self.hits, self
            self.trim()
        return plan

    def trim(self) -> None:
        """Drop plans until the limits are met."""
        with self._lock:
            plans = self.known
            used = self._bytes()
            while len(plans) > self._count or (self._nbytes is not None and plans and used > self._nbytes):
                # Among plans with the same last use, drop the one made first; a dict keeps them in that order.
                oldest = min(plans, key=lambda key: plans[key].used)
                used -= plans.pop(oldest).library_bytes

    def _bytes(self) -> int:
        # A library's plans may be created in one thread while another thread runs this.
        return 0 if self._nbytes is None else sum(plan.library_bytes for plan in self.known.values())

    def info(self) -> CacheInfo:
        """Return the cache's counts and bytes."""
        with self._lock:
            return CacheInfo(self.hits, self._misses, self._count, len(self.known), self._nbytes, self._bytes())

    def clear(self) -> None:
        """Drop all plans and reset the counts."""
        with self._lock:
            self.known.clear()
            self.hits = self._misses = 0
            self._cleared += 1
        for forget in self._forget:
            forget()

    def forgets(self, what: Callable[[], object]) -> None:
        """Let `clear` call a function, which drops plans that are kept elsewhere."""
        self._forget.append(what)

    def limit(self, count: int | None, nbytes: int | None) -> tuple[int, int | None]:
        """Set the given limits, and return both."""
        with self._lock:
            self._count = self._count if count is None else count
            self._nbytes = self._nbytes if nbytes is None else nbytes
            self.trim()
            return self._count, self._nbytes


def functions_of(
    cache: PlanCache, module: str
) -> tuple[Callable[[], CacheInfo], Callable[[], None], Callable[..., tuple[int, int | None]]]:
    """Return `cache_info`, `cache_clear` and `cache_limit` of a family's cache, for the family's module."""
    family = module.split(".")[1]

    def cache_info() -> CacheInfo:
        """Return how often calls found a plan in the cache, and how many plans and bytes it holds.

        Returns:
            a named tuple. Its first fields are named as in `functools.lru_cache`: hits and misses (calls that found a
            plan, and calls that did not), maxsize (the limit of plans), currsize (their number). maxbytes (None without
            a limit) and currbytes count the bytes that libraries hold or request for the plans.

        Example:
            >>> FAMILY.cache_clear()
            >>> info = FAMILY.cache_info()
            >>> info.hits, info.misses, info.currsize
            (0, 0, 0)
        """
        return cache.info()

    def cache_clear() -> None:
        """Remove all plans from the cache, and free the resources that libraries hold for them.

        Compiled kernels and files on disk stay.

        Example:
            >>> FAMILY.cache_clear()
            >>> FAMILY.cache_info().currsize
            0
        """
        cache.clear()

    def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]:
        """Set or return the limits of the plan cache: how many plans it keeps, and how many bytes they use.

        The least recently used plans are dropped first. Plans hold no scratch memory: calls borrow it and share it. A
        library's plan counts with the bytes of scratch memory that it requests. If the family's libraries hold nothing
        that counts, the limit in bytes is None.

        Args:
            count: the new limit of plans, an integer of at least 0; None leaves it unchanged.
            nbytes: the new limit in bytes, an integer of at least 0; None leaves it unchanged.

        Returns:
            the current limits (count, nbytes).

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

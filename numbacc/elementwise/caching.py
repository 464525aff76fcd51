"""The one cache of the family's plans, by the function that makes a plan and its arguments."""

from __future__ import annotations

from ..plan.cache import PlanCache, functions_of

plans = PlanCache(lambda make, *arguments: make(*arguments), count=4096)
cache_info, cache_clear, cache_limit = functions_of(plans, "numbacc.elementwise")

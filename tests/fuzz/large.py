"""Cases whose small arrays are worked on as large ones are: what a size decides is decided as if it were reached."""

from __future__ import annotations

import importlib
import zlib
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

import numbacc
from numbacc.elementwise import calling
from numbacc.gemm import epilogue_plans


def _always(problem, other):
    return True


#: What large arrays, or many, bring about -> constants of numbacc's modules that say from where on.
_WAYS = {
    "rows share the grid's blocks": {"kernels.elementwise.geometry._MAX_GRID_Y": 1},
    "threads are many": {"kernels.elementwise.other_launches._MANY": 1},
    "rows are in shared memory": {"kernels.rows.launch._REGISTER_THREADS": 0},
    "rows are long and few": {"kernels.rows.launch._LONG_BYTES": 1},
    "blocks are busy": {"kernels.rows.launch._BUSY": 0, "kernels.rows.launch._BUSY_BLOCKS": 0},
    "losses are many": {"elementwise.losses._ROWS": 1},
    "few blocks share sums": {"kernels.reduce.launch._BLOCKS": 8},
    "many blocks share sums": {"kernels.reduce.launch._BLOCKS": 1 << 20, "kernels.reduce.launch._LEAST_ROUNDS": 2},
    "columns are many": {"kernels.scan.launch._BLOCKS": 8},
    "columns are few": {"kernels.scan.launch._FEW": 1 << 30},
    "lists have several tables": {"kernels.elementwise.multi_tensor_tables.MOST_TABLES": 2},
    "images are many": {"conv.depthwise._BUSY": 0, "conv.depthwise._BLOCKS": 1},
    "windows pay": {"conv.windowed.is_faster": _always},
    "depth pays": {"conv.space_to_depth.is_faster": _always},
    "products are few": {"attention.unfused.PRODUCTS": 1 << 10, "attention.slices.PRODUCTS": 1 << 10},
    "draws come in pieces": {"random.executables.PIECE": 1 << 6},
}
#: Families whose plans are cached with what a library chose, and are forgotten for their own cases alone.
_APART = ("conv", "attention", "random", "fft")


@contextmanager
def as_if_large(case):
    """One case of four runs inside as large ones do, in ways that its seed decides, which are returned as lines."""
    rng = np.random.default_rng([case.seed, zlib.crc32(case.family.encode()), 1])
    ways = [way for way in _WAYS if rng.random() < 0.4] if rng.random() < 0.25 else []
    if not ways:
        yield []
        return
    with ExitStack() as patches:
        patches.callback(_forget, case.family)
        _forget(case.family)
        for path, value in ((path, value) for way in ways for path, value in _WAYS[way].items()):
            module, name = path.rsplit(".", 1)
            patches.enter_context(mock.patch.object(importlib.import_module(f"numbacc.{module}"), name, value))
        yield [f"as if {', '.join(ways)}"]


def _forget(family):
    """Forget plans, which others decided than those that are patched now."""
    calling.plans.clear()
    epilogue_plans.plans.clear()
    numbacc.gated.cache_clear()
    for name in _APART:
        if family.startswith(name):
            getattr(numbacc, name).cache_clear()

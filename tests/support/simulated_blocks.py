"""Blocks of few threads for the simulator, where threads run one by one. `patch` sets attributes, as setattr."""

from __future__ import annotations

import importlib
from functools import lru_cache

from numbacc.kernels.elementwise import multi_tensor_launch, multi_tensor_tables
from numbacc.kernels.gather_scatter import launch as scatter_launch
from numbacc.kernels.primitives import block_reduce, block_scan
from numbacc.kernels.reduce import launch
from numbacc.kernels.rows import launch as rows_launch
from numbacc.kernels.scan import launch as scan_launch

#: No GPU is to be kept busy.
_LAZY = {"_BUSY": 0, "_BUSY_BLOCKS": 0, "_MOST_THREADS": 8, "_SUM_BLOCKS": 1, "_SUM_ROWS": 2, "_SUM_THREADS": 8}


def _own_kernels(patch):
    """Kernels are made again: they keep the size of a warp. Afterwards the earlier ones are used."""
    launches = importlib.import_module("numbacc.simulator.launches")
    patch(launches, "kernel", lru_cache(maxsize=1024)(launches.kernel.__wrapped__))


def reductions(patch):
    """And results that several blocks share."""
    patch(launch, "MAX_THREADS", 8)
    patch(launch, "_LEAST_ROUNDS", 2)
    patch(launch, "_SHARED_ROUNDS", 1)


def scans(patch):
    """Of two warps, which share rows of a few tiles."""
    patch(scan_launch, "MAX_THREADS", 8)
    patch(scan_launch, "_SHARED_TILES", 2)
    patch(scan_launch, "_FEW_TILES", 0)
    patch(scan_launch, "_LONG_ROW_THREADS", 16)
    sizes = {"_LONE_THREADS": 8, "_CHAINED_THREADS": 8, "_CHAINED_BYTES": 512, "_STRIP_BYTES": (32, 32), "_FAN": 4}
    for name, value in sizes.items():
        patch(scan_launch, name, value)
    patch(block_scan, "WARP", 4)
    patch(scan_launch, "_NEAR", 4)
    _own_kernels(patch)


def rows(patch):
    """With warps of fewer."""
    for name, value in {
        "_THREADS": 8,
        "_REGISTER_THREADS": 8,
        "_REGISTER_THREADS_OF_THREE": 8,
        "WARP": 4,
        **_LAZY,
    }.items():
        patch(rows_launch, name, value)
    patch(block_reduce, "WARP", 4)
    _own_kernels(patch)
    reductions(patch)


def lists(patch):
    patch(multi_tensor_launch, "MAX_THREADS", 4)


def chunks(patch):
    """Of few elements, so that small parameters have several; wherever tests run."""
    patch(multi_tensor_tables, "_SHORTEST", 32)
    patch(multi_tensor_tables, "_LONGEST", 32)


def scatters(patch):
    """With warps of fewer, lists of few that are sorted, and chunks of two; some threads take several rows."""
    sizes = {"_FEW": 1, "BITS": 1, "_TOP": 2, "_TILE": 4, "_DIGIT": 3, "WARP": 4, "MAX_THREADS": 4}
    for name, value in sizes.items():
        patch(scatter_launch, name, value)
    patch(scatter_launch, "row_grid", lambda items, rows, each: ((-(-items // 4), min(rows, 5)), (4, 1)))
    scans(patch)


def shrink(patch):
    """All of them."""
    for each in (scatters, rows, lists, chunks):
        each(patch)

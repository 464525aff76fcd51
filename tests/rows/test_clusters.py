"""Blocks of a cluster share rows, in the simulator, too: norms, and gradients of rows and of weights."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from oracle import DTYPES
from row_cases import assert_near, normal
from skips import needed

from numbacc.elementwise import norms
from numbacc.kernels.rows import launch
from numbacc.kernels.rows.spec import SumsSpec

pytestmark = [pytest.mark.simulator, pytest.mark.usefixtures("poison", "small_rows")]

_WALK = {"_WALK_BYTES": 0, "_WALK_WEIGHED_BYTES": 0, "_SUM_CLUSTERED": 1}
_MUCH = 1 << 30
#: How blocks have what they share -> constants of `row_geometry`: each its part of one row, which it keeps; or of row
#: after row, in registers, where they send what they have of each stage, or in shared memory, where they do so once.
WAYS = {
    "kept": {"_REGISTER_THREADS": 0, "_CLUSTER_BYTES": 0, "_SUM_OWN_BYTES": _MUCH, "_WALK_BYTES": _MUCH,
             "_WALK_WEIGHED_BYTES": _MUCH},
    "in registers": {**_WALK, "_HELD_ELEMENTS": 16},
    "sent once": {**_WALK, "_HELD_ELEMENTS": 0, "_REGISTERS": 0},
}  # fmt: skip


@pytest.fixture
def share(monkeypatch):
    """The context in which so many blocks share a row in a way."""
    needed("greenlet", "greenlet")
    clusters = import_module("simulated_clusters").clusters
    sizes = {"_SUM_ROWS": 1, "_SUM_ELEMENTS": 8, "_SUM_RESIDENT": 8, "_SUM_DEPTHS": (4, 4), "_IDLE_BLOCKS": 0,
             "_WALKS": dict.fromkeys((2, 4), ((), ((1, 8),)))}  # fmt: skip

    def share(way, blocks):
        for name, value in {**sizes, **WAYS[way]}.items():
            monkeypatch.setattr(launch, name, value)
        norms.plans.clear()
        return clusters(blocks)

    yield share
    norms.plans.clear()


@pytest.mark.parametrize("blocks, accesses", [(2, 16), (4, 29), (4, 24)])
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
@pytest.mark.parametrize("kind", ["rms", "layer"])
@pytest.mark.parametrize("way", WAYS)
def test_norms(place, share, way, kind, dtype, blocks, accesses):
    """Of one row and of more, of equal and of large numbers, too; the last block has less of them, or nothing."""
    eps, columns = 1e-3, (4 if way == "kept" else 1) * accesses * 16 // dtype.itemsize
    rng = np.random.default_rng(columns)
    for rows in (1, 5):
        dy, x, w = (3 * rng.standard_normal(shape) + 1 for shape in ((rows, columns), (rows, columns), columns))
        if rows > 1:
            x[0], x[1] = 7, 1e25 * x[1]
        dy, x, w = (values.astype(dtype) for values in (dy, x, w))
        arrays = tuple(map(place.put, (dy, x, w)))
        with share(way, blocks) as ran:
            y = getattr(norms, f"{kind}_norm")(*arrays[1:], eps=eps)
            got = getattr(norms, f"{kind}_norm_backward")(*arrays, eps=eps)
        shared = [order.kernel for order in ran if order.cluster == blocks]
        assert [isinstance(kernel, SumsSpec) for kernel in shared] == [way != "kept"] * 2
        assert getattr(shared[1], "is_ahead", False) == (way == "sent once" and kind == "layer")
        wide, (d, r) = dy.astype(float), normal(kind, x.astype(float), eps)
        assert_near(place.get(y), d * r * w.astype(float), 10)
        if kind == "layer" and rows > 1:
            assert not place.get(y)[0].any()
        g = wide * w.astype(float)
        dx = r * (g - (kind == "layer") * g.mean(-1, keepdims=True) - d * r * r * (g * d).mean(-1)[:, None])
        for one, other in zip(got, [dx, (wide * d * r).sum(0)], strict=True):
            assert_near(place.get(one), other, 10 * max(r.max(), 1))

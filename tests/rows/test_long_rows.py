"""Rows that blocks take one after the other, with the next ones and weights in shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import DTYPES
from row_cases import FORWARD, assert_near, forward, options_of, values_of

from numbacc.elementwise import norms
from numbacc.kernels.rows import launch

pytestmark = pytest.mark.usefixtures("poison", "small_rows")


@pytest.mark.too_long(lambda case: case.columns > 64)
@pytest.mark.parametrize("columns", [60, 2049, 20000, 131072])
@pytest.mark.parametrize("sides, threads, depth", [(1, 32, 1), (1, 512, 3), (1, 1024, 2), (2, 256, 2), (4, 256, 1)])
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[3]], ids=str)
def test_rows_one_after_the_other(device_place, monkeypatch, dtype, sides, threads, depth, columns):
    """The next one on its way while one is normalized, by groups side by side; more rows than groups, and in place."""
    if device_place.is_slow:
        threads = max(threads // 128, 4)
    walks = dict.fromkeys((2, 4), (((sides, threads), (1, 1024)),) * 2)
    for name, value in {"WALK_BYTES": 0, "WALK_WEIGHED_BYTES": 0, "WALKS": walks, "SUM_DEPTHS": (depth, depth),
                        "SUM_BLOCKS": 3, "SUM_CLUSTERED": 8, "SUM_ROWS": 1}.items():  # fmt: skip
        monkeypatch.setattr(launch, f"_{name}", value)
    norms.plans.clear()
    rng, rows = np.random.default_rng(columns), 37
    for name in (name for name, count in FORWARD.items() if count > 1):  # with weights
        values = values_of(rng, name, (rows, columns), dtype)
        wide, options = [v.astype(float) for v in values], options_of(name)
        wanted, arrays = forward(name, wide, **options), [device_place.put(v) for v in values]
        function = getattr(norms, name)
        assert_near(device_place.get(function(*arrays, **options)), wanted, np.abs(wanted).max())
        # Threads that share a row are no fewer than a warp.
        if device_place.is_slow or columns > 60:
            assert "row_sums" in getattr(norms, name).plan(*arrays, **options).info.algorithm
        assert function(*arrays, out=arrays[0], **options) is arrays[0]
        assert_near(device_place.get(arrays[0]), wanted, np.abs(wanted).max())
    norms.plans.clear()

"""What launches of rows ask a GPU for."""

from __future__ import annotations

import pytest

from numbacc.kernels.rows import launch
from numbacc.runtime.launch_order import Limits


@pytest.mark.parametrize(
    "limits, columns",
    [(Limits(232448, 8), 262144), (Limits(166912, 1), 24576), (Limits(101376, 1), 16384), (Limits(65536, 1), 8192)],
    ids=["9.0", "8.0", "8.9", "7.5"],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_blocks_ask_for_no_more_memory_than_there_is(limits, columns, parts):
    """The longest rows of 16 bits that one pass takes, with a weight of 16 bits."""
    rows = launch.Rows(4096, columns, 8, 16, inputs=3, kept=2, is_double=False, is_across=False)
    found = launch.launch_sums(rows, parts, 2, limits)
    # A multiprocessor has 1 KB more, of which a block has some beside what it asks for.
    assert found and found.launch.shared <= limits.shared + 1024 - launch._SUM_OWN_BYTES


@pytest.mark.parametrize("sums, columns, held", [(1, 131072, 1), (2, 98304, 1), (2, 131072, 0)])
def test_rows_of_two_sums_leave_registers_for_them(sums, columns, held):
    """With 64 numbers of a row in registers, layer_norm of bfloat16 spilled 188 bytes a thread."""
    rows = launch.Rows(1024, columns, 8, 16, inputs=3, kept=1, is_double=False, is_across=False, sums=sums)
    assert launch.launch_walk(rows, 4, Limits(232448, 8)).held == held

"""Which way to an epilogue is taken: all of it by the library, or the product, and our kernels behind it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from conftest import Place
from gemm_call import Call

from numbacc.gemm import selection
from numbacc.libraries.choices import Algorithm

#: What each of a product's ways is computed by: an algorithm's number, None where the library lacks it.
NEW, OLD = 24, 16


class Library:
    """A library that has each epilogue by the algorithm of a table, "DEFAULT" by that of "none"."""

    def __init__(self, by_epilogue):
        self.by_epilogue, self.tuned = by_epilogue, []

    def choose(self, product, alignment, device, limit):
        number = self.by_epilogue.get(product.epilogue)
        return number and Algorithm(b"", 0, f"{number} {product.epilogue}", (number, 0))

    def tune(self, product, alignment, device, limit, stream, trial):
        self.tuned.append(product.epilogue)
        return self.choose(product, alignment, device, limit)

    def is_stand_in(self, product, algorithm, device):
        return algorithm.kind[0] == OLD

    def Runner(self, product, algorithm, *rest):
        return SimpleNamespace(algorithm=algorithm, workspace_bytes=0, backend="library")


def select(monkeypatch, by_epilogue, kind="gelu_bias", trial=None):
    library = Library(by_epilogue)
    monkeypatch.setattr(selection, "matmul_library", lambda: library)
    plan = Call(Place("numpy"), (8, 16, 24), kind, "bfloat16").plan()
    selector = selection.Selector(plan.problem, False)
    return selector.prepare((0,) * 6, trial), library


@pytest.mark.parametrize("by_epilogue, taken", [
    ({"GELU_BIAS": NEW, "DEFAULT": NEW}, "GELU_BIAS"), ({"GELU_BIAS": OLD, "DEFAULT": NEW}, "DEFAULT"),
    # Nothing is gained where the product itself is by an older kernel, or missing.
    ({"GELU_BIAS": OLD, "DEFAULT": OLD}, "GELU_BIAS"), ({"GELU_BIAS": OLD}, "GELU_BIAS"), ({"DEFAULT": OLD}, "DEFAULT"),
])  # fmt: skip
def test_the_product_and_a_kernel_where_the_fused_form_is_by_an_older_kernel(monkeypatch, by_epilogue, taken):
    found, _ = select(monkeypatch, by_epilogue)
    assert found.lowered.product.epilogue == taken
    assert [step.plan.op for step in found.steps] == ([] if taken == "GELU_BIAS" else ["epilogue.gelu_bias"])
    assert ("epilogue.gelu_bias" in found.text) is (taken == "DEFAULT")
    assert found.direct is (taken == "GELU_BIAS")


def test_only_the_way_that_is_taken_is_measured(monkeypatch):
    trial = (0, lambda lowered, runner: lambda: None)
    _, library = select(monkeypatch, {"GELU_BIAS": OLD, "DEFAULT": NEW}, trial=trial)
    assert library.tuned == ["DEFAULT"]
    _, library = select(monkeypatch, {"GELU_BIAS": NEW, "DEFAULT": NEW}, trial=trial)
    assert library.tuned == ["GELU_BIAS"]

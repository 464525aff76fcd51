"""Convolutions of windows without a GPU: the kernel that makes channels of them, and cuDNN's plans for these."""

from __future__ import annotations

import ptx
import pytest
from conv_plans import engine_of
from cudnn_cases import need_planning
from requested import requested
from skips import skip_if

from numbacc import compiling, conv, cudnn
from numbacc.base.dispatch import launching_by, simulated
from numbacc.conv.lowering import copies, others
from numbacc.kernels.conv.im2col_spec import WindowsSpec
from numbacc.kernels.elementwise import copy as copying
from numbacc.kernels.inspection import Noted

pytestmark = [skip_if(simulated(), "not simulated"), pytest.mark.each_alone(paired=True, in_pairs=True)]
#: Rows, columns, channels and what they become.
SPECS = [(2, 7, 3, 64), (2, 7, 1, 32), (1, 3, 1, 32), (2, 3, 4, 32), (16, 16, 3, 768), (14, 14, 3, 608), (3, 5, 7, 128)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)])
@pytest.mark.parametrize("numbers", SPECS, ids=str)
def test_accesses_and_registers(numbers, capability):
    """Of eight elements, one by one, one access is written; the loop is not unrolled, and nothing spilled."""
    spec = WindowsSpec(*numbers)
    found = ptx.compiled(spec, capability)
    assert found.runs() == [("ld", [2] * 8), ("st", [16])]
    assert {access.space for access in found.accesses} == {"global"}
    registers, spilled = found.usage(capability)
    assert spilled == 0 and registers <= 48


def launched(x, w, **options):
    found = []
    with launching_by(Noted.into(found)):
        problem = requested(conv, x, w, layout="NHWC", dtype="float16", **options).problem
        for copy in copies(problem, *others(problem)):
            copy.choose((0, 0))
    copying.executable.cache_clear()  # of those that launch nothing
    return found


def test_images_and_kernels_share_a_kernel():
    assert launched((64, 224, 224, 3), (64, 7, 7, 3), stride=2, padding=3) == [WindowsSpec(2, 7, 3, 64)] * 2


def test_they_are_compiled_ahead():
    ahead = set(compiling.kernels(["conv"]))
    for direction in ("forward", "backward_filter"):
        assert set(launched((64, 224, 224, 3), (64, 7, 7, 3), direction=direction, stride=2, padding=3)) <= ahead
        assert set(launched((256, 224, 224, 3), (768, 16, 16, 3), direction=direction, stride=16)) <= ahead


@pytest.mark.parametrize("device", ["A100", "H200", "B200"])
@pytest.mark.parametrize("direction", ["forward", "backward_filter"])
def test_there_are_engines_that_need_not_be_compiled(direction, device):
    need_planning()
    asked = requested(
        conv, (64, 224, 224, 3), (64, 7, 7, 3), direction=direction, layout="NHWC", dtype="float16", stride=2, padding=3
    )
    graph, plain = asked.graphs()[:2]
    assert graph.tensors[0].shape == (64, 64, 115, 112) and plain.tensors[0].shape == (64, 3, 224, 224)
    found = cudnn.supports(asked, device)
    assert found and not found.compiled and engine_of(found) != 0


def test_what_follows_is_fused():
    need_planning()
    options = {"layout": "NHWC", "dtype": "float16", "stride": 2, "padding": 3, "bias": True}
    for activation in ("relu", "gelu"):
        asked = conv.forward.request((64, 224, 224, 3), (64, 7, 7, 3), activation=activation, **options)
        found = cudnn.supports(asked, "H200")
        assert found.then == "" and len(asked.graphs()[0].nodes) == 3 and engine_of(found) != 0

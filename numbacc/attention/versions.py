"""Known faults of cuDNN versions in attention, and their workarounds.

Sources: the checks and workarounds in the attention nodes of NVIDIA's cudnn-frontend; numbacc's own checks ran on 9.19
and newer. Faults that also depend on the GPU are in `libraries.cudnn_rules`.
"""

from __future__ import annotations

from ..base.dispatch import graph_library, has_gpu, runtime
from ..errors import UnsupportedError
from ..libraries.cudnn_rules import RefusedVersions, dotted, refused
from .problem import AttentionProblem


def _is_backward(problem: AttentionProblem) -> bool:
    return problem.call.direction == "backward"


def _is_windowed(problem: AttentionProblem) -> bool:
    return problem.band.lower is not None


def _looks_ahead(problem: AttentionProblem) -> bool:
    """Return whether the mask is a window on both sides."""
    return _is_windowed(problem) and problem.band.upper != 0


def _is_shifted(problem: AttentionProblem) -> bool:
    """Return whether the diagonal ends at the last key, and this differs from a start at the first key."""
    found = problem.geometry
    return problem.band.bottom_right and (found.queries != found.keys or problem.has_lengths)


def _adds(problem: AttentionProblem) -> bool:
    return "bias" in problem.inputs or "alibi" in problem.inputs


def _is_longer(problem: AttentionProblem) -> bool:
    """Return whether there are more queries than keys, with a mask that cudnn-frontend does not support for them."""
    found = problem.geometry
    return (
        found.queries > found.keys and not problem.has_lengths and (problem.band.bottom_right or _is_windowed(problem))
    )


def _is_uneven(problem: AttentionProblem) -> bool:
    return bool(problem.geometry.queries % 64 or problem.geometry.keys % 64)


def _is_nearly_192(problem: AttentionProblem) -> bool:
    """Return whether heads, padded to multiples of 8, are shorter than 192 and 128 but run on the kernels for those."""
    return 128 < problem.geometry.width <= 184 and 64 < problem.geometry.value_width <= 120


#: In each case NVIDIA's cudnn-frontend rejects the versions, or did so while they were the newest. It rejects the last
#: four cases for every version, but 9.19 computed them correctly on an H200.
FAULTS = (
    RefusedVersions(
        91401,
        "a window on both sides over more than 1024 keys",
        lambda problem: _looks_ahead(problem) and problem.geometry.keys > 1024,
        since=91400,
    ),
    RefusedVersions(
        91300,
        "gradients of heads of 129 to 184 elements and values of 65 to 120",
        lambda problem: _is_backward(problem) and _is_nearly_192(problem),
        since=91100,
    ),
    RefusedVersions(
        91002,
        "a window on both sides, or with a bias or dropout",
        lambda problem: (
            _is_windowed(problem)
            and (_looks_ahead(problem) or "bias" in problem.inputs or bool(problem.options.dropout))
        ),
    ),
    RefusedVersions(
        90901,
        "a window that ends at the last key, of as many queries as keys",
        lambda problem: (
            _is_windowed(problem) and _is_shifted(problem) and problem.geometry.queries == problem.geometry.keys
        ),
    ),
    RefusedVersions(
        90901,
        "one query and a mask",
        lambda problem: not _is_backward(problem) and problem.geometry.queries == 1 and problem.band.upper is not None,
    ),
    RefusedVersions(90600, "a diagonal that ends at the last key", _is_shifted),
    RefusedVersions(
        90600,
        "gradients of packed sequences whose heads share keys",
        lambda problem: _is_backward(problem) and problem.geometry.is_packed and problem.geometry.group > 1,
    ),
    RefusedVersions(
        90500,
        "a bias's gradient with lengths, or with lengths that are not multiples of 64",
        lambda problem: "dbias" in problem.outputs and (problem.has_lengths or _is_uneven(problem)),
    ),
    RefusedVersions(90500, "pages", lambda problem: problem.geometry.page > 0),
    RefusedVersions(90100, "float8", lambda problem: problem.is_scaled),
    RefusedVersions(
        91900,
        "a diagonal that ends at the last key and a bias, slopes or dropout",
        lambda problem: _is_shifted(problem) and (_adds(problem) or bool(problem.options.dropout)),
    ),
    RefusedVersions(91900, "more queries than keys, and a window or a diagonal that ends at the last key", _is_longer),
    RefusedVersions(
        91900,
        "slopes without a mask that hides later keys",
        lambda problem: "alibi" in problem.inputs and problem.band.upper != 0,
    ),
    RefusedVersions(
        91900,
        "gradients of one query and one key",
        lambda problem: _is_backward(problem) and problem.geometry.queries == problem.geometry.keys == 1,
    ),
)


def check(problem: AttentionProblem) -> None:
    """Raise UnsupportedError where numbacc does not use the installed version of cuDNN for a problem."""
    version = graph_library().version()
    found = refused(FAULTS, version, problem)
    if found:
        raise UnsupportedError(
            f"attention with {found.text} is disabled with cuDNN {dotted(version)}, as in NVIDIA's own cudnn-frontend; "
            f"{dotted(found.mended)} and newer run it"
        )


def reads_unaligned_biases(device: int) -> bool:
    """Return whether kernels read a 16-bit bias correctly whose rows do not start at multiples of 16 bytes.

    On an H100, results of 9.19 had the same bits as with a bias whose rows are padded.
    """
    return _is_measured(device)


def clamps_biased_scores(device: int) -> bool:
    """Return whether scores with a bias must be finite, because a row of -inf could become NaN.

    On an H200, kernels of 9.19 wrote 0 and statistics of -inf for such a row. Finite scores cost 2 % of the time, and
    hide a NaN among the scores.
    """
    return not _is_measured(device)


def _is_measured(device: int) -> bool:
    """Return whether the kernels are those whose reading of biases was checked."""
    return graph_library().version() >= 91900 and has_gpu() and runtime().capability(device) == (9, 0)


def needs_zeros(problem: AttentionProblem) -> bool:
    """Return whether dq is accumulated in memory that must be zeroed first: newer versions zero it themselves."""
    return _is_backward(problem) and graph_library().version() < 90600


def needs_lengths(problem: AttentionProblem) -> bool:
    """Return whether gradients need lengths although no sequence is shorter than its arrays.

    Without lengths, some kernels treat scores beyond the keys, or beyond one query, as 0 instead of masking them. Where
    a row's statistics are below -88, exp(0 - stats) is infinite, and 0 times that is NaN. On an H100, 9.19 does so
    where no key is masked and the keys fill half of the last tile of 128, or where there is one query and the keys fill
    tiles of 64. Sources: pytorch's issue 196678, cudnn-frontend's pull request 628, and its issue 1072, where 9.26.0
    still has the fault.

    Versions up to 9.15.0 need lengths wherever the last tile of keys is not full.
    """
    if not _is_backward(problem) or problem.has_lengths:
        return False
    found = problem.geometry
    if problem.band.is_full and (found.keys % 128 == 64 or (found.queries == 1 and found.keys % 64 == 0)):
        return True
    return found.keys % 128 != 0 and graph_library().version() <= 91500


def hides_again(problem: AttentionProblem) -> bool:
    """Return whether positions after a sequence's end must be masked once more, after subtracting the statistics."""
    return _is_backward(problem) and graph_library().version() < 91000

"""What versions of cuDNN are known to do wrong with attention, and what is done about it.

Sources: the checks and workarounds of NVIDIA's cudnn-frontend, in its nodes for attention; 9.19 and newer are what
numbacc's own checks ran on. What depends on the GPU, too, is in `libraries.cudnn_rules`.
"""

from __future__ import annotations

from ..base.dispatch import graph_library
from ..errors import UnsupportedError
from ..libraries.cudnn_rules import RefusedVersions, dotted, refused
from .problem import AttentionProblem


def _is_backward(problem: AttentionProblem) -> bool:
    return problem.call.direction == "backward"


def _is_windowed(problem: AttentionProblem) -> bool:
    return problem.band.lower is not None


def _looks_ahead(problem: AttentionProblem) -> bool:
    """With a window on both sides."""
    return _is_windowed(problem) and problem.band.upper != 0


def _is_shifted(problem: AttentionProblem) -> bool:
    """With a diagonal that ends at the last key, elsewhere than one that starts at the first."""
    found = problem.geometry
    return problem.band.bottom_right and (found.queries != found.keys or problem.has_lengths)


def _adds(problem: AttentionProblem) -> bool:
    return "bias" in problem.inputs or "alibi" in problem.inputs


def _is_longer(problem: AttentionProblem) -> bool:
    """With more queries than keys, and a mask that NVIDIA's cudnn-frontend does not take with them."""
    found = problem.geometry
    return (
        found.queries > found.keys and not problem.has_lengths and (problem.band.bottom_right or _is_windowed(problem))
    )


def _is_uneven(problem: AttentionProblem) -> bool:
    return bool(problem.geometry.queries % 64 or problem.geometry.keys % 64)


def _is_nearly_192(problem: AttentionProblem) -> bool:
    """With heads of less than 192 and 128 elements, which it takes as it does those, as they are when padded to 8."""
    return 128 < problem.geometry.width <= 184 and 64 < problem.geometry.value_width <= 120


#: In each case NVIDIA's cudnn-frontend refuses the versions, or did as long as they were the newest; the last four it
#: refuses whatever the version, but 9.19 was right with them on an H200.
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
        "a bias's gradient with lengths, or with lengths that are no multiples of 64",
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
        "slopes without a mask that hides what follows",
        lambda problem: "alibi" in problem.inputs and problem.band.upper != 0,
    ),
    RefusedVersions(
        91900,
        "gradients of one query and one key",
        lambda problem: _is_backward(problem) and problem.geometry.queries == problem.geometry.keys == 1,
    ),
)


def check(problem: AttentionProblem) -> None:
    """Raise UnsupportedError where the version of cuDNN that is installed is not asked for a problem."""
    version = graph_library().version()
    found = refused(FAULTS, version, problem)
    if found:
        raise UnsupportedError(
            f"attention with {found.text} is left alone with cuDNN {dotted(version)}, as NVIDIA's own "
            f"cudnn-frontend does; {dotted(found.mended)} and newer run it"
        )


def needs_zeros(problem: AttentionProblem) -> bool:
    """Whether dq is added up in memory that must be zero before: newer versions fill it themselves."""
    return _is_backward(problem) and graph_library().version() < 90600


def needs_lengths(problem: AttentionProblem) -> bool:
    """Whether gradients need lengths although no sequence is shorter than its arrays.

    Without lengths some kernels count scores beyond the keys, or beyond one query, as 0 instead of masking them. Where
    a row's statistics are below -88, exp(0 - stats) is infinite, and 0 times that is NaN. On an H100 9.19 does so where
    no key is masked, and keys fill half of the last tile of 128, or there is one query and keys fill tiles of 64.
    Sources: pytorch's issue 196678, cudnn-frontend's pull request 628, and its issue 1072, where 9.26.0 still does it.

    Versions up to 9.15.0 need lengths wherever the last tile of keys is not full.
    """
    if not _is_backward(problem) or problem.has_lengths:
        return False
    found = problem.geometry
    if problem.band.is_full and (found.keys % 128 == 64 or (found.queries == 1 and found.keys % 64 == 0)):
        return True
    return found.keys % 128 != 0 and graph_library().version() <= 91500


def hides_again(problem: AttentionProblem) -> bool:
    """Whether what is behind a sequence's end must be hidden once more, when the statistics have been taken away."""
    return _is_backward(problem) and graph_library().version() < 91000

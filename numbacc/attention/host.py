"""Attention on the CPU with NumPy, after the same checks as on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.casts import cast
from ..errors import OptionError, shown
from ..reference import attention as reference
from ..reference.attention import Dropout, Scaling, ScoreMap, Scores
from .geometry import LAYOUTS
from .problem import SCALES, AttentionProblem, start_of
from .score_functions import Scoring

Arrays = dict[str, Any]


class HostAttention:
    """Attention of NumPy arrays: a callable.

    Args:
        problem: the call to compute.
    """

    def __init__(self, problem: AttentionProblem):
        self._problem = problem

    def __call__(self, given: Arrays, outs: Sequence[Any], seed: int, offset: int) -> list[Any]:
        """Return the results.

        Args:
            given: the inputs by name.
            outs: arrays for the results, or None.
            seed, offset: select the dropout mask.

        Raises:
            OptionError: a length, a start, a page's number or an offset is out of range.
        """
        problem = self._problem
        starts = self._starts(given)
        how = self._scores(given, starts, seed, offset)
        if problem.call.direction == "dropout_mask":
            assert how.dropout is not None
            return _kept(list(outs), [reference.dropout_mask(how.dropout)])
        q, k, v = (self._sequences(given, name, starts, how) for name in ("q", "k", "v"))
        if problem.is_scaled:
            scales = Scaling(**{name: float(given[name].flat[0]) for name in SCALES if name in given})
            o, *others = reference.forward_scaled(q, k, v, how, scales)
            made = dict(zip(("stats", "amax_s", "amax_o"), others, strict=True)) | {"out": self._rows(o, "out", starts)}
            found = [made[name] for name in problem.outputs]
        elif problem.call.direction == "forward":
            o, stats = reference.forward(q, k, v, how)
            found = [self._rows(o, "out", starts), stats][: len(problem.outputs)]
        else:
            do, o = (self._sequences(given, name, starts, how) for name in ("do", "o"))
            all_bias = problem.options.bias_grad
            grads = reference.backward(do, q, k, v, o, given["stats"], how, bias_grad=all_bias)
            found = [self._rows(getattr(grads, name), name, starts) for name in ("dq", "dk", "dv")]
            if all_bias:
                assert grads.dbias is not None
                found.append(grads.dbias.reshape(problem.outputs["dbias"].shape))
            if problem.call.scoring is not None:
                names = problem.call.scoring.gradients()
                found += [
                    each.reshape(problem.outputs[name].shape) for name, each in zip(names, grads.doperands, strict=True)
                ]
        return _kept(list(outs), found)

    def _scores(self, given: Arrays, starts: tuple[Any, Any], seed: int, offset: int) -> Scores:
        problem, found = self._problem, self._problem.geometry
        if found.is_packed:
            queries, keys = (np.diff(each) for each in starts)
            for lengths, most, name in ((queries, found.queries, "max_len_q"), (keys, found.keys, "max_len_kv")):
                if (lengths > most).any():
                    raise OptionError(f"{name}={most}, but there is a sequence of {lengths.max()} tokens")
        else:
            queries, keys = (given.get(name) for name in ("seq_len_q", "seq_len_kv"))
            for lengths, most, name in ((queries, found.queries, "seq_len_q"), (keys, found.keys, "seq_len_kv")):
                if lengths is not None and ((lengths < 0) | (lengths > most)).any():
                    own = "q" if name == "seq_len_q" else "the page table" if found.page else "k"
                    raise OptionError(
                        f"{name} is {shown(lengths.tolist())}; lengths are 0 to {most}, as many as {own} has"
                    )
        bias = given.get("bias")
        dropout = None
        if problem.options.dropout:
            if "offset" in given:
                offset = start_of(given["offset"].flat[0])
            dropout = Dropout(problem.options.dropout, seed, offset, found.scores)
        return Scores(
            scale=problem.scale,
            band=problem.band,
            bias=None if bias is None else bias.reshape((1,) * (4 - bias.ndim) + bias.shape),
            slopes=given.get("alibi"),
            queries=queries,
            keys=keys,
            dropout=dropout,
            map=None if problem.call.scoring is None else self._map(given, problem.call.scoring),
        )

    def _map(self, given: Arrays, scoring: Scoring) -> ScoreMap:
        """Return the score and mask functions in the form of the reference."""
        function, operands = scoring.function, [given[name] for name in scoring.names]
        gradient = function.gradient[1] if self._problem.call.direction == "backward" else None
        padded = [each.reshape((1,) * (4 - each.ndim) + each.shape) for each in operands]
        seen = function.seen(self._problem.geometry.scores, padded)
        return ScoreMap(function.numpy, gradient, padded, scoring.wanted, seen, function.has_score)

    def _starts(self, given: Arrays) -> tuple[Any, Any]:
        """Return the starts of packed sequences, of queries and of keys."""
        found = self._problem.geometry
        if not found.is_packed:
            return None, None
        for name, tokens in (("seq_len_q", found.tokens), ("seq_len_kv", found.tokens_kv)):
            starts = given[name]
            # Compare instead of taking differences: integers wrap around.
            if starts[0] < 0 or starts[-1] > tokens or (starts[1:] < starts[:-1]).any():
                raise OptionError(
                    f"{name} is {shown(starts.tolist())}; it must not decrease, and must stay within 0 to {tokens}"
                )
        return given["seq_len_q"], given["seq_len_kv"]

    def _sequences(self, given: Arrays, name: str, starts: tuple[Any, Any], how: Scores) -> Any:
        """Return an array as (batch, heads, sequence, elements)."""
        found = self._problem.geometry
        if found.is_packed:
            own, longest = (0, found.queries) if name in ("q", "o", "do") else (1, found.keys)
            return reference.padded(given[name], starts[own], longest)
        array = given[name].transpose(LAYOUTS[found.layout])
        if not found.page or name == "q":
            return array
        table = given[f"page_table_{name}"]
        used = np.arange(table.shape[1]) * found.page < np.asarray(how.keys)[:, None]
        if ((table < 0) | (table >= found.sheets))[used].any():
            raise OptionError(f"page_table_{name} has page numbers outside 0 to {found.sheets - 1}")
        return reference.gathered(array, table, how.keys)

    def _rows(self, array: Any, name: str, starts: tuple[Any, Any]) -> Any:
        """Return an array in the user's layout: the inverse of `_sequences`."""
        found = self._problem.geometry
        if found.is_packed:
            packed = np.zeros(found.shape(name), array.dtype)
            reference.put_back(array, starts[0 if name in ("out", "dq") else 1], packed)
            return packed
        return array.transpose(np.argsort(LAYOUTS[found.layout]))


def _kept(outs: list[Any], found: list[Any]) -> list[Any]:
    """Return the results, copied into the arrays that are given for them."""
    for number, out in enumerate(outs):
        if out is None:
            # `np.ascontiguousarray` turns the shape () into (1,), and the gradient of a bias may have the shape ().
            found[number] = np.asarray(found[number], order="C")
        else:
            np.copyto(out, cast(found[number], out.dtype))
            found[number] = out
    return found

"""Whether the same product has the same bits every time, as `plan.info.deterministic` says.

    python tests/gemm/stress_gemm_bits.py [--seconds 60] [--seed 0] [--dtype float64] [--json FILE]

Products with C, a bias and batches whose matrices have strides of their own are run again and again: into fresh memory,
poisoned, of the same alignment and of others, on three streams, with other work beside them. Results of one alignment
are compared bit by bit; those that differ are shown with the algorithm, and how they differ. Exit status 1 if a product
that is called deterministic was not, or a result was wrong.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import random
import sys
import time
from pathlib import Path

import numpy as np

KINDS = ("relu_bias", "relu_bias", "none", "bias", "relu_aux_bias", "gelu_bias", "bgradb", "dgelu_bgrad")
ROUNDS = 24


#: Numbers that an operand may have.
LARGEST = 4_000_000


def drawn(rng, dtype):
    """What defines a product, as plain data."""
    while True:
        m, n = rng.choice((1, 2, 7, 16, 33, 64, 100, 256)), rng.choice((1, 3, 8, 31, 64, 130, 256))
        k, batch = rng.choice((1, 5, 64, 300, 1000, 4096, 20000)), rng.choice(([], [2], [3], [2, 2], [7]))
        if max(m, n) * k * math.prod(batch) <= LARGEST:
            break
    return {
        "dtype": dtype,
        "kind": rng.choice(KINDS),
        "shape": [m, n, k],
        "batch": batch,
        "apart": {name: rng.choice((0, 0, 1, 3, 8, 64)) for name in ("a", "b", "c", "out", "bias")},
        "pitch": {name: rng.choice((0, 0, 0, 1, 8)) for name in ("a", "b", "c", "out")},
        "columns": [name for name in ("a", "b", "c") if rng.random() < 0.3],
        "beta": rng.choice((0.0, 0.5, 1.0, -2.0)),
        "own_bias": rng.random() < 0.5,
        "in_place": rng.random() < 0.2,
        "seed": rng.randrange(2**31),
    }


def strided(numbacc, values, apart, pitch, by_columns, start=0, stream=None):
    """A device array of these values with rows and matrices further apart than dense ones; its memory starts anew."""
    if by_columns:
        found = strided(numbacc, values.swapaxes(-1, -2), apart, pitch, False, start, stream)
        return found.transpose((*range(values.ndim - 2), values.ndim - 1, values.ndim - 2))
    *batch, rows, columns = values.shape
    many, row = int(np.prod(batch, dtype=int)), columns + pitch
    size = rows * row + apart
    host = np.full(start + many * size, 255, np.uint8).astype(values.dtype)
    inner = host[start:].reshape(many, size)[:, : rows * row].reshape(many, rows, row)[:, :, :columns]
    inner[...] = values.reshape(many, rows, columns)
    flat = numbacc.asarray(host, stream=stream)[start:].reshape((many, size))[:, : rows * row]
    return flat.reshape((many, rows, row))[:, :, :columns].reshape(values.shape)


class Bits:
    """One product, run many times."""

    def __init__(self, numbacc, given):
        from numbacc import gemm
        from numbacc.base import dtypes

        self.numbacc, self.gemm, self.given = numbacc, gemm, given
        self.dtype = dtype = dtypes.dtype(given["dtype"])
        (m, n, k), batch = given["shape"], given["batch"]
        rng = np.random.default_rng(given["seed"])
        kind = gemm.Epilogue(given["kind"])

        def normal(*shape):
            return rng.standard_normal(shape).astype(dtype)

        self.values = {"a": normal(*batch, m, k), "b": normal(*batch, k, n)}
        if given["beta"]:
            self.values["c"] = normal(*batch, m, n)
        self.arrays = {name: self._strided(name, array) for name, array in self.values.items()}
        if kind.uses_bias:
            own = given["own_bias"] and batch
            bias = self.values["bias"] = normal(*batch, n) if own else normal(n)
            rows = bias.reshape(-1, 1, n)
            found = strided(numbacc, rows, given["apart"]["bias"], 0, False)
            self.arrays["bias"] = found.reshape((*batch, n)) if own else found.reshape((n,))
        if kind.uses_aux:
            self.arrays["aux"] = numbacc.asarray(normal(*batch, m, n))
        self.out = np.zeros((*batch, m, n), dtype)

    def _strided(self, name, values, start=0, stream=None):
        given = self.given
        pitch = given["pitch"][name]
        return strided(self.numbacc, values, given["apart"][name], pitch, name in given["columns"], start, stream)

    def run(self, start, stream):
        """The results' bits, and the plan's word on them; `out` starts `start` elements into fresh memory."""
        given = self.given
        arrays = dict(self.arrays)
        if given["in_place"] and given["beta"]:
            out = arrays["c"] = strided(
                self.numbacc, self.values["c"], given["apart"]["out"], given["pitch"]["out"], False, start, stream
            )
        else:
            out = self._strided("out", self.out, start, stream)
        arguments = {**arrays, "epilogue": given["kind"], "beta": given["beta"], "out": out}
        answer = self.gemm.matmul(**arguments, stream=stream)
        results = answer if isinstance(answer, tuple) else (answer,)
        found = [np.ascontiguousarray(self.numbacc.asnumpy(each)) for each in results]
        if found[-1].dtype == np.uint8:
            columns = given["shape"][1]  # what is behind the last column means nothing
            found[-1] = np.unpackbits(found[-1], axis=-1, count=columns, bitorder="little")
        return found, out._address, self.gemm.matmul.plan(**arguments).info


def difference(one, other):
    """How two results differ, in words."""
    where = np.argwhere(one != other)
    if one.dtype == np.uint8 or not len(where):
        return f"{len(where)} elements" if len(where) else "bits of NaN or the sign of 0"
    wide = [x.astype(np.float64) for x in (one, other)]
    largest = np.abs(wide[0] - wide[1]).max()
    first, last = where[0].tolist(), where[-1].tolist()
    return (
        f"{len(where)} of {one.size} elements, {first} to {last}, by up to {largest:.3g} of {np.abs(wide[0]).max():.3g}"
    )


def stress(seconds, seed, dtype, rounds=ROUNDS, report=print):
    """Run drawn products until the time is up: counts, and what was found."""
    import numbacc
    from numbacc.gemm.alignment import alignment_of

    rng = random.Random(seed)
    streams = [numbacc.stream() for _ in range(3)]
    busy = [numbacc.asarray(np.random.default_rng(0).standard_normal((64, 20000))) for _ in range(2)]
    counts, found = collections.Counter(), []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        given = drawn(rng, dtype)
        product, first = Bits(numbacc, given), {}
        junk = []
        for round_ in range(rounds):
            # Other work beside it, which takes memory and gives it back.
            for stream in rng.sample(streams, rng.randrange(3)):
                numbacc.gemm.matmul(busy[0], busy[1].T, stream=stream)
            junk = [
                numbacc.full(rng.choice((10, 1000, 100_000)), float("nan"), "float32") for _ in range(rng.randrange(4))
            ]
            start = rng.choice((0, 0, 0, 0, 1, 2, 4, 16))
            results, address, info = product.run(start, rng.choice([None, *streams]))
            algorithm = f"{info.backend}: {info.algorithm}"
            counts["runs"] += 1
            key = alignment_of(address)
            before = first.setdefault(key, (results, algorithm, info.deterministic))
            same = all(x.tobytes() == y.tobytes() for x, y in zip(results, before[0], strict=True))
            if same:
                continue
            entry = {
                "product": given, "round": round_, "alignment": key, "algorithms": sorted({algorithm, before[1]}),
                "deterministic": info.deterministic,
                "differs": [difference(x, y) for x, y in zip(results, before[0], strict=True)],
            }  # fmt: skip
            counts["differs, deterministic" if info.deterministic else "differs, as said"] += 1
            found.append(entry)
            report(json.dumps(entry))
        texts = {each[1] for each in first.values()}
        counts["products"] += 1
        counts["products with split sums"] += any("split-k" in text and "split-k 1," not in text for text in texts)
        counts["products not called deterministic"] += not all(each[2] for each in first.values())
        counts["products of several algorithms by alignment"] += len(texts) > 1
        bits = [each[0] for each in first.values()]
        counts["products whose bits depend on alignment"] += any(
            x.tobytes() != y.tobytes() for other in bits[1:] for x, y in zip(bits[0], other, strict=True)
        )
        del junk
    return counts, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each product")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    counts, found = stress(options.seconds, options.seed, options.dtype, options.rounds)
    print(dict(counts))
    if options.json:
        options.json.write_text(json.dumps({"counts": counts, "found": found}))
    return int(counts["differs, deterministic"] > 0)


if __name__ == "__main__":
    sys.exit(main())

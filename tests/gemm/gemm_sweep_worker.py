"""The process that runs cases of `gemm_sweep_cases`, told which by its input; `sweep_gemm_alignment` says what for."""

from __future__ import annotations

import json
import math
import os
import sys

from gemm_sweep_cases import ATTEMPTS, PRODUCTS, SCALES, dtypes_of


class Memory:
    """An array (batch, rows, columns) in memory of its own, whose other bytes are all 1.

    Args:
        values: what it holds; None for a result.
        start, pitch, batch: elements before it, and added to each row, and to each matrix.
    """

    def __init__(self, shape, dtype, values=None, start=0, pitch=0, batch=0):
        import numpy as np

        import numbacc

        self.shape, self._np = shape, np
        many, rows, columns = (*(1,) * (3 - len(shape)), *shape)
        self._places = start, many, rows, columns, columns + pitch, rows * (columns + pitch) + batch
        self.before = np.full((start + many * self._places[-1] + 16) * dtype.itemsize, 255, np.uint8).view(dtype)
        if values is not None:
            self._view(self.before)[...] = values
        self.base = numbacc.asarray(self.before)
        self.view = self._view(self.base)

    def _view(self, flat):
        start, many, rows, columns, pitch, apart = self._places
        whole = flat[start : start + many * apart].reshape((many, apart))[:, : rows * pitch]
        if many == 1:
            matrix = whole.reshape((rows * pitch,)).reshape((rows, pitch))[:, :columns]
        else:
            matrix = whole.reshape((many, rows, pitch))[:, :, :columns]
        return {1: lambda: matrix[0], 2: lambda: matrix, 3: lambda: matrix}[len(self.shape)]()

    def now(self):
        import numbacc

        return numbacc.asnumpy(self.base)

    def result(self):
        """What was written, after a look at the bytes around it."""
        np, now, before = self._np, self.now(), self.before.copy()
        found = self._view(now).copy()
        self._view(before)[...] = found
        assert now.tobytes() == before.tobytes(), "memory beside a result was written"
        return np.ascontiguousarray(found)

    def assert_untouched(self, name):
        assert self.now().tobytes() == self.before.tobytes(), f"{name} was written"


class Product:
    """The arrays of a case, and the check of what became of them."""

    def __init__(self, given):
        import gemm_oracle
        import numpy as np

        from numbacc.base import dtypes

        self.given, self.kind = given, given["epilogue"]
        self.names = PRODUCTS[given["product"]]
        types = {name: dtypes.dtype(d) for name, d in dtypes_of(given["product"], self.kind).items()}
        (m, n, k), batch = given["shape"], given["batch"]
        lead = (batch,) if batch else ()
        rng = np.random.default_rng(1)

        def normal(shape, scale=1.0):
            if types["a"].kind == "i":
                return rng.integers(-9, 9, shape)
            return scale * rng.standard_normal(shape)

        values = {"a": normal((*lead, m, k), 1.5 / k**0.5), "b": normal((*lead, n, k))}
        if given["c"]:
            values["c"] = normal((*lead, m, n))
        if "bias" in types:
            values["bias"] = normal((batch, 1, n) if batch else (n,))
        bits = types.get("aux") == np.uint8
        padded = -(-n // 128) * 16 if bits else -(-n // 8) * 8
        if self.kind.startswith("d"):
            values["aux"] = rng.integers(0, 256, (*lead, m, -(-n // 8))) if bits else normal((*lead, m, n), 2.0)
        self.scales = {name: float(2.0 ** (1 - i)) for i, name in enumerate(SCALES) if name in given["scales"]}
        if "rows" in given["scales"]:
            self.scales = {name: 2.0 ** rng.integers(-2, 2, n_) for name, n_ in (("scale_a", m), ("scale_b", n))}
        one = np.dtype(np.float32)
        self.memory, self.results = {}, {}

        def place(name, shape, dtype, array, padding=0):
            start, pitch, apart = (x // dtype.itemsize for x in given["vary"].get(name, (0, 0, 0)))
            return Memory(shape, dtype, array, start, pitch + padding, apart)

        for name, array in values.items():
            extra = padded - array.shape[-1] if name == "aux" else 0
            self.memory[name] = place(name, array.shape, types[name], array.astype(types[name]), extra)
        for name, number in self.scales.items():
            self.memory[name] = place(name, np.shape(number) or (1,), one, np.float32(number))
        self.results["out"] = place("out", (*lead, m, n), types["out"], None)
        if "_aux" in self.kind:
            shape = (*lead, m, -(-n // 8) if bits else n)
            self.results["aux"] = place("aux", shape, types["aux"], None, padded - shape[-1])
        if "bgrad" in self.kind:
            self.grad_shape = (*lead, m if self.kind == "bgrada" else n)
            self.grad_dtype = types["bias_grad"]
        if "amax_d" in self.memory:
            self.results["amax_d"] = self.memory.pop("amax_d")
        held = {name: memory._view(memory.before) for name, memory in self.memory.items()}
        bias = held.get("bias")
        self.inputs = gemm_oracle.Inputs(
            held["a"], held["b"].swapaxes(-1, -2), held.get("c"), bias[:, 0] if batch and bias is not None else bias,
            held.get("aux"), self.kind, beta=(2.0 if types["a"].kind == "i" else 0.5) if given["c"] else 0.0,
            **{name: number for name, number in self.scales.items() if name != "amax_d"},
        )  # fmt: skip
        self.second_dtype = types.get("aux") if "_aux" in self.kind else types["out"]

    def arguments(self):
        """Keywords of `matmul`."""
        found = {name: memory.view for name, memory in (self.memory | self.results).items()}
        found["b"] = found["b"].transpose((0, 2, 1)) if self.given["batch"] else found["b"].T
        if self.given["batch"] and "bias" in found:
            found["bias"] = found["bias"][:, 0]
        more = {"compute": self.names[3]} if self.names[3] else {}
        return {**found, **more, "epilogue": self.kind, "beta": self.inputs.beta}

    def verify(self, grad=None):
        """AssertionError where anything is wrong."""
        import gemm_oracle
        import numpy as np

        found = {name: memory.result() for name, memory in self.results.items()}
        for name, memory in self.memory.items():
            memory.assert_untouched(name)
        out, amax, second = found["out"], found.get("amax_d"), grad if grad is not None else found.get("aux")
        if out.dtype.kind == "i":
            exact = self.inputs.a.astype(int) @ self.inputs.b.astype(int)
            want = exact + (0 if self.inputs.c is None else (self.inputs.beta * self.inputs.c).astype(int))
            assert np.array_equal(out, want), "integers are wrong"
            return
        gemm_oracle.assert_product(
            self.inputs, out, second, None if amax is None else amax[0], second_dtype=self.second_dtype,
            compute=self.names[3], composed=True, fused_gelu=True,
            sum_error=gemm_oracle.FLOAT8_SUM_ERROR[self.names[3]] if self.names[0].startswith("float8") else 0.0,
        )  # fmt: skip


def run_matmul(product, attempt):
    """(outcome, text) of `gemm.matmul`."""
    from numbacc import gemm

    if attempt:
        return None
    arguments = product.arguments()
    text = gemm.matmul.plan(**arguments).info.algorithm
    answer = gemm.matmul(**arguments)
    return lambda: product.verify(_grad_of(answer) if "bgrad" in product.kind else None), text


def _grad_of(answer):
    import numbacc

    return numbacc.asnumpy(answer.bias_grad)


def run_raw(product, attempt):
    """The same by cuBLASLt alone, with the algorithm of this number that it proposes; None behind the last."""
    from numbacc.arrays.operands import layout_of
    from numbacc.base.dispatch import matmul_library, runtime
    from numbacc.gemm.alignment import alignment_of
    from numbacc.gemm.lowering import lower
    from numbacc.gemm.problem import GemmCall, resolve
    from numbacc.gemm.selection import WORKSPACE_LIMIT
    from numbacc.libraries.products import bits

    if product.names[0] == "float64" and "gelu" in product.kind:
        raise Refused("float64 GELU is ours")
    given, library = product.arguments(), matmul_library()
    named = {name: given.get(name) for name in ("a", "b", "c", "bias", "aux", "out", *SCALES)}
    layouts = {name: None if array is None else layout_of(array) for name, array in named.items()}
    options = {
        "epilogue": product.kind,
        "out_dtype": None,
        "compute": product.names[3],
        "has_beta": bool(product.given["c"]),
    }
    problem = resolve(GemmCall(**layouts, **options, workspace_limit=None, tune=False))
    lowered = lower(problem, problem.epilogue)
    grad = None
    if "bgrad" in product.kind:
        start = product.given["vary"].get("bias_grad", [0])[0] // product.grad_dtype.itemsize
        grad = Memory((math.prod(product.grad_shape),), product.grad_dtype, None, start)
        named["bias"] = grad.view
    named["c"] = named["c"] if product.given["c"] else None if problem.out.itemsize == 1 else named["out"]
    places = [
        0 if array is None else array._address for array in (named[n] for n in ("a", "b", "c", "out", "bias", "aux"))
    ]
    alignment = tuple(map(alignment_of, places))
    if hasattr(library, "candidates"):
        proposed = list(dict.fromkeys(library.candidates(lowered.product, alignment, 0, WORKSPACE_LIMIT, 8)))
    else:
        proposed = [a for a in [library.choose(lowered.product, alignment, 0, WORKSPACE_LIMIT)] if a is not None]
    if not proposed:
        raise Refused("the heuristics propose nothing")
    if attempt >= min(len(proposed), ATTEMPTS):
        return None
    runner = library.Runner(lowered.product, proposed[attempt], alignment, 0)
    scratch = runtime().allocate(max(runner.workspace_bytes, 1), 0, 0)
    scale = {"int32": "int32", "float64": "float64"}.get(problem.types.accumulator, "float32")
    numbers = bits(1.0, scale), bits(float(product.inputs.beta), scale)
    more = [0 if array is None else array._address for array in (named[name] for name in SCALES)]
    with runtime().on_device(0):
        for offsets in lowered.offsets:
            moved = [start + offset for start, offset in zip(places, offsets, strict=True)]
            library.check(runner.launch_unchecked(0, scratch.address, *numbers, *moved, *more))

    def verify():
        product.verify(None if grad is None else grad.result().reshape(product.grad_shape))
        del scratch_kept[:]

    scratch_kept = [scratch, runner]
    return verify, proposed[attempt].text


class Refused(Exception):
    """The library does not offer it."""


def outcome_of(given, raw, attempt):
    """(outcome, text) of one attempt at a case; None where there are no more."""
    from numbacc.base.dispatch import runtime
    from numbacc.errors import LayoutError, UnsupportedError
    from numbacc_bindings.cublasLt import CublasLtError
    from numbacc_bindings.driver import DriverError

    try:
        run = (run_raw if raw else run_matmul)(Product(given), attempt)
        if run is None:
            return None
        verify, text = run
    except (Refused, UnsupportedError, LayoutError) as error:
        return "refused", str(error)
    except CublasLtError as error:
        return "status", str(error)
    except DriverError as error:
        return "crash", str(error)
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"
    try:
        runtime().synchronize(0, 0)
        verify()
    except DriverError as error:
        return "crash", f"{error}; {text}"
    except AssertionError as error:
        return "wrong", f"{error}; {text}"
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}; {text}"
    return "ok", text


def work():
    """Read a list of cases a line, and say of each when it begins and how it ends."""

    def say(*what):
        sys.__stdout__.write(json.dumps(what) + "\n")
        sys.__stdout__.flush()

    sys.stdout = sys.stderr
    say("ready")
    for line in sys.stdin:
        task = json.loads(line)
        for index, given in enumerate(task["cases"]):
            attempt = task["attempt"] if index == 0 else 0
            while True:
                say("begin", index, attempt)
                found = outcome_of(given, task["raw"], attempt)
                if found is None:
                    break
                say("end", index, attempt, *found)
                if found[0] == "crash":
                    os._exit(3)
                if found[0] == "refused" or not task["raw"]:
                    break
                attempt += 1
            if index == 0 and task["first"] and found is not None and found[0] == "refused":
                break
        say("done")


if __name__ == "__main__":
    work()

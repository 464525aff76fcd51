"""Cases of matrix products in memory anywhere, as plain data; `sweep_gemm_alignment` says what for."""

from __future__ import annotations

E4, E5 = "float8_e4m3fn", "float8_e5m2"
#: Name -> dtypes of A, B and D, and compute.
PRODUCTS = {
    "e4m3 > bf16": (E4, E4, "bfloat16", None),
    "e4m3 > bf16 fast": (E4, E4, "bfloat16", "fast"),
    "e4m3 > f16 fast": (E4, E4, "float16", "fast"),
    "e4m3 > e4m3 fast": (E4, E4, E4, "fast"),
    "e4m3 > f32 fast": (E4, E4, "float32", "fast"),
    "e4m3 > e4m3": (E4, E4, E4, None),
    "e5m2 e4m3 > bf16 fast": (E5, E4, "bfloat16", "fast"),
    "e5m2 e4m3 > e5m2": (E5, E4, E5, None),
    "bf16": ("bfloat16", "bfloat16", "bfloat16", None),
    "f32": ("float32", "float32", "float32", None),
    "f64": ("float64", "float64", "float64", None),
    "f16": ("float16", "float16", "float16", None),
    "tf32": ("float32", "float32", "float32", "tf32"),
    "bf16 > f32": ("bfloat16", "bfloat16", "float32", None),
    "f16 > f32": ("float16", "float16", "float32", None),
    "int8": ("int8", "int8", "int32", None),
}
EPILOGUES = (
    "relu_bias", "gelu_aux_bias", "bias", "relu_aux_bias", "gelu_bias", "none", "dgelu", "drelu", "gelu_aux",
    "relu_aux", "relu", "gelu", "dgelu_bgrad", "drelu_bgrad", "bgrada", "bgradb",
)  # fmt: skip
SCALES = ("scale_a", "scale_b", "scale_c", "scale_d", "amax_d")
BYTES = (1, 2, 4, 8, 16, 32, 64, 128)
SHAPES = ((64, 64, 64), (17, 144, 48), (128, 256, 512))
#: How many of the proposed algorithms are run.
ATTEMPTS = 3


# ---------------------------------------------------------------- cases


def itemsize(dtype):
    return {"float64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2}.get(dtype, 1)


def dtypes_of(product, epilogue):
    """The dtype of every array that a product with an epilogue has."""
    a, b, out, _ = PRODUCTS[product]
    float8 = a.startswith("float8")
    half = "bfloat16" if float8 and itemsize(out) != 2 else out
    found = {"a": a, "b": b, "out": out}
    if epilogue.endswith("bias"):
        found["bias"] = half
    if "_aux" in epilogue or epilogue.startswith("d"):
        found["aux"] = "uint8" if "relu" in epilogue else half if itemsize(out) == 1 else out
    if "bgrad" in epilogue:
        found["bias_grad"] = out
    found["c"] = half if itemsize(out) == 1 else out
    return found


def case(product, epilogue, shape, vary=None, *, batch=0, c=False, scales=()):
    """A case as plain data. `vary` is {array: [start, pitch, batch]}, bytes that are added to a dense layout."""
    return {
        "product": product, "epilogue": epilogue, "shape": list(shape), "batch": batch, "c": c, "scales": list(scales),
        "vary": vary or {},
    }  # fmt: skip


def tasks(quick, shapes):
    """Lists of cases of one product and epilogue each, the first of which says whether it is offered, by passes."""
    products = ("e4m3 > bf16 fast", "e4m3 > e4m3", "bf16", "f32") if quick else PRODUCTS
    widths = (2, 4, 16) if quick else BYTES
    for round_, shape in enumerate(shapes[:1] if quick else shapes):
        for kind in ("start", "pitch and batch"):
            for product in products:
                for epilogue in EPILOGUES if product != "int8" else ("none",):
                    found = list(one_by_one(product, epilogue, shape, kind, widths))
                    if found:
                        yield round_, [case(product, epilogue, shape), *found]


def one_by_one(product, epilogue, shape, kind, widths):
    types = dtypes_of(product, epilogue)
    for name, dtype in types.items():
        fitting = [n for n in widths if n % itemsize(dtype) == 0]
        more = {"c": name == "c"}
        for n in fitting:
            if kind == "start":
                yield case(product, epilogue, shape, {name: [n, 0, 0]}, **more)
                continue
            if name not in ("bias", "bias_grad"):
                yield case(product, epilogue, shape, {name: [0, n, 0]}, **more)
            if name != "bias_grad":
                yield case(product, epilogue, shape, {name: [0, 0, n]}, batch=3, **more)
    a, _, out, _ = PRODUCTS[product]
    if kind == "start" and a.startswith("float8") and epilogue in ("none", "relu_bias", "gelu_bias"):
        mine = [name for name in SCALES if itemsize(out) == 1 or name not in ("scale_d", "amax_d")]
        for name in mine:
            for n in [0, *(n for n in widths if n % 4 == 0)]:
                yield case(product, epilogue, shape, {name: [n, 0, 0]}, c=name == "scale_c", scales=[name])
        if itemsize(out) > 1:
            for n in [0, *(n for n in widths if n % 4 == 0)]:
                yield case(product, epilogue, shape, {"scale_b": [n, 0, 0]}, scales=["rows"])
        elif epilogue == "none":
            yield case(product, epilogue, shape, batch=3, scales=["amax_d"])


def combinations(shapes, rng):
    """Everything at once, at random, for ever."""
    while True:
        product = rng.choice([name for name in PRODUCTS if name != "int8"])
        epilogue, shape = rng.choice(EPILOGUES), rng.choice(shapes[:2])
        found = [case(product, epilogue, shape)]
        for _ in range(20):
            batch, c = rng.choice((0, 3)), rng.random() < 0.4
            vary = {}
            for name, dtype in dtypes_of(product, epilogue).items():
                size = itemsize(dtype)
                vary[name] = [size * rng.choice((0, 0, 0, 1, 2, 4, 8, 16)) for _ in range(3)]
            float8 = PRODUCTS[product][0].startswith("float8")
            scales = [name for name in SCALES[:2] if float8 and rng.random() < 0.5]
            vary |= {name: [4 * rng.choice((0, 1, 2, 4)), 0, 0] for name in scales}
            found.append(case(product, epilogue, shape, vary, batch=batch, c=c, scales=scales))
        yield 9, found


def described(given):
    """What is varied in a case, in short: the key of its column, or "" where it is more than one thing."""
    parts = [
        (f"{name}.{what}", n)
        for name, numbers in given["vary"].items()
        for what, n in zip(("start", "pitch", "batch"), numbers, strict=True)
        if n
    ]
    where = " (a row)" if "rows" in given["scales"] else ""
    if len(parts) == 1:
        return parts[0][0] + where, parts[0][1]
    scales = "+".join(given["scales"])
    return ("everything at once" if parts else f"dense {scales}".strip() + f" batch {given['batch']}" * bool(scales), 0)

"""cuRAND itself on the CPU, called directly through the bindings, and Philox written down in NumPy."""

from __future__ import annotations

import ctypes

import numpy as np

from numbacc_bindings.curand import RngType, curand

TYPES = {
    "philox": RngType.PSEUDO_PHILOX4_32_10,
    "xorwow": RngType.PSEUDO_XORWOW,
    "mrg32k3a": RngType.PSEUDO_MRG32K3A,
    "mtgp32": RngType.PSEUDO_MTGP32,
    "mt19937": RngType.PSEUDO_MT19937,
    "sobol32": RngType.QUASI_SOBOL32,
    "scrambled_sobol32": RngType.QUASI_SCRAMBLED_SOBOL32,
    "sobol64": RngType.QUASI_SOBOL64,
    "scrambled_sobol64": RngType.QUASI_SCRAMBLED_SOBOL64,
}
DTYPES = {
    "Generate": np.uint32,
    "GenerateLongLong": np.uint64,
    "GenerateUniform": np.float32,
    "GenerateUniformDouble": np.float64,
    "GenerateNormal": np.float32,
    "GenerateNormalDouble": np.float64,
    "GenerateLogNormal": np.float32,
    "GenerateLogNormalDouble": np.float64,
    "GeneratePoisson": np.uint32,
}


class HostCurand:
    """A host generator of cuRAND's: `HostCurand("philox", 7)("GenerateNormal", 10, 0.0, 1.0)` is an array."""

    def __init__(self, kind, seed=0, offset=0, dimensions=1, ordering=None):
        handle = ctypes.c_uint64()
        curand.curandCreateGeneratorHost(ctypes.addressof(handle), TYPES[kind])
        self.handle = handle.value
        if TYPES[kind] < RngType.QUASI_SOBOL32:
            curand.curandSetPseudoRandomGeneratorSeed(self.handle, seed)
        else:
            curand.curandSetQuasiRandomGeneratorDimensions(self.handle, dimensions)
        if ordering is not None:
            curand.curandSetGeneratorOrdering(self.handle, ordering)
        if offset:
            curand.curandSetGeneratorOffset(self.handle, offset)

    def __call__(self, function, count, *parameters):
        found = np.empty(count, DTYPES[function])
        getattr(curand, f"curand{function}")(self.handle, found.ctypes.data, count, *parameters)
        return found

    def __del__(self):
        if hasattr(self, "handle"):
            curand.curandDestroyGenerator(self.handle)


def philox(seed, first, count):
    """Words `first` to `first` + `count` of what curandGenerate returns, by Salmon et al. 2011."""
    word, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    number = np.uint64(first) + np.arange(count, dtype=np.uint64)
    group = number >> np.uint64(2)
    turn, thread = group >> np.uint64(16), group & np.uint64(0xFFFF)
    c = [turn & low, turn >> word, thread, np.zeros_like(turn)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(q >> word) ^ c[1] ^ np.uint64(k[0]), q & low, (p >> word) ^ c[3] ^ np.uint64(k[1]), p & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.choose((number & np.uint64(3)).astype(int), c).astype(np.uint32)

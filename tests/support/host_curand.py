"""cuRAND itself on the CPU, called directly through the bindings; Philox and Sobol's points written down in NumPy."""

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


def sobol(kind, dimensions, first, count):
    """Points `first` to `first` + `count` by their definition (Antonov and Saleev 1979): (dimensions, count) integers.

    A point is the sum, bit by bit, of the direction vectors that the Gray code of its number names, and of a constant
    where it is scrambled. Vectors and constants are cuRAND's.
    """
    bits, scrambled = int(kind[-2:]), kind.startswith("scrambled")
    word = np.dtype(f"uint{bits}")

    def table(function, *arguments):
        found = ctypes.c_void_p()
        assert getattr(curand.load(), f"curandGet{function}{bits}")(ctypes.byref(found), *arguments) == 0
        return found.value

    # The sets of Joe and Kuo (2008) have the numbers 101 to 104: of 32 bits, those scrambled, of 64 bits, scrambled.
    shape = (dimensions, bits)
    memory = (ctypes.c_char * (dimensions * bits * word.itemsize)).from_address(
        table("DirectionVectors", 101 + 2 * (bits == 64) + scrambled)
    )
    vectors, points = np.frombuffer(memory, word).reshape(shape), np.zeros((dimensions, count), word)
    if scrambled:
        memory = (ctypes.c_char * (dimensions * word.itemsize)).from_address(table("ScrambleConstants"))
        points ^= np.frombuffer(memory, word)[:, None]
    for column, number in enumerate(range(first, first + count)):
        named = [b for b in range(bits) if (number ^ number >> 1) >> b & 1]
        points[:, column] ^= np.bitwise_xor.reduce(vectors[:, named], axis=1)
    return points

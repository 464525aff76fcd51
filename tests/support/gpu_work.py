"""Slow work and poison for tests of order on a GPU: a wait that is missing shows in values."""

from __future__ import annotations

import contextlib
import math
import threading

import numpy as np
from family_work import FAMILY

import numbacc
from numbacc import attention, conv, cuda, fft, gated, gemm, random
from numbacc import device as device_functions
from numbacc import elementwise as ew
from numbacc.attention import flash
from numbacc.runtime import device
from numbacc.runtime import device as runtime

_BIG = 1 << 27


class Slow:
    """Memory whose copies keep a stream busy."""

    def __init__(self, device=0):
        self._device = device
        self._memory = numbacc.empty(2 * _BIG, "uint8", device=device)
        runtime.synchronize(0, device)

    def __call__(self, stream, milliseconds=20):
        """Queue work of about so long on a stream."""
        handle = 0 if stream is None else numbacc.stream(stream).handle
        start = self._memory._address
        for _ in range(max(int(milliseconds / 0.07), 1)):
            runtime.copy_on_device(start, start + _BIG, _BIG, self._device, handle)


def poison(array, stream=None):
    """All bits set, queued on a stream and in the array's order."""
    array._fill(
        np.frombuffer(b"\xff" * array.dtype.itemsize, array.dtype)[0], numbacc.stream(stream).handle if stream else 0
    )


def _gated(x, out, stream):
    return gated.forward(x, out=out, stream=stream)


def _matmul(x, out, stream):
    return gemm.matmul(x, x.T, out=out, stream=stream)


def _bias(x, out, stream):
    return gemm.matmul(x, x.T, bias=x[0, : x.shape[0]], epilogue="gelu_bias", out=out, stream=stream)


def _epilogue(x, out, stream):
    """A Python function of float16: by one kernel on Hopper, else by the library and an elementwise kernel."""
    half = ew.astype(x, "float16", stream=stream)
    operands = (half[0, : x.shape[0]], 0.5)
    return gemm.matmul(
        half, half.T, epilogue=lambda s, b, z: max(s + b, z), operands=operands, out=out, stream=stream
    )  # fmt: skip


def _convolution(x, out, stream):
    """Rows of x as pixels, with kernels of its first rows: fused, by an engine that repeats its bits."""
    image, kernels = x.reshape((1, *x.shape)), x[:24].reshape((8, 3, x.shape[1]))
    options = {"layout": "NWC", "activation": "relu", "deterministic": True}
    return conv.forward(image, kernels, x[0, :8], **options, out=out, stream=stream)


def _images(x, out, stream):
    """The gradient of images, of columns that run backwards: with copies and scratch memory."""
    dy, kernels = x[:, 7::-1].reshape((1, x.shape[0], 8)), x[:24].reshape((8, 3, x.shape[1]))
    shape = (1, x.shape[0] + 2, x.shape[1])
    options = {"layout": "NWC", "deterministic": True}
    return conv.backward_data(dy, kernels, shape, **options, out=out, stream=stream)


def _kernels(x, out, stream):
    """The gradient of kernels, of arrays that are not dense: with copies and scratch memory."""
    image, dy = x.reshape((1, *x.shape)), x[2:, ::-16].reshape((1, x.shape[0] - 2, x.shape[1] // 16))
    shape = (x.shape[1] // 16, 3, x.shape[1])
    options = {"layout": "NWC", "deterministic": True}
    return conv.backward_filter(image, dy, shape, **options, out=out, stream=stream)


def _heads(x):
    """Rows of x as tokens of one sequence, with four heads."""
    return x.reshape((1, x.shape[0], 4, x.shape[1] // 4))


def _attention(x, out, stream):
    """Unfused, of float32; keys and values are every other row."""
    q, k = _heads(x), _heads(x)[:, ::2]
    return attention.forward(q, k, k, mask="causal", layout="BSHD", out=out, stream=stream)


def _fused_attention(x, out, stream):
    """Of float16, with a kernel behind it for the rows that see no key."""
    q = _heads(ew.astype(x, "float16", stream=stream))
    k = q[:, :-7]
    return attention.forward(q, k, k, mask="causal_bottom_right", layout="BSHD", out=out, stream=stream)


def _attention_gradients(x, out, stream):
    """That of the queries, fused, of float16, in an order of additions that repeats."""
    q = _heads(ew.astype(x, "float16", stream=stream))
    o, stats = attention.forward(q, q, q, mask="causal", layout="BSHD", return_stats=True, stream=stream)
    outs = None if out is None else (out, *(numbacc.empty_like(q, stream=stream) for _ in range(2)))
    options = {"mask": "causal", "layout": "BSHD", "deterministic": True, "out": outs, "stream": stream}
    return attention.backward(o, q, q, q, o, stats, **options)[0]


def _attention_in_parts(x, out, stream):
    """Few queries on many keys: cuDNN reads the lengths of the parts from memory of the plan."""
    half = ew.astype(x, "float16", stream=stream).reshape((x.size // 64, 64))
    k = numbacc.empty((9, *half.shape), "float16", device=x.device, stream=stream)
    with contextlib.nullcontext() if stream is None else numbacc.stream(stream):
        k[...] = half
    q, k = half[:64].reshape((1, 1, 64, 64)), k.reshape((1, 1, 9 * half.shape[0], 64))
    return attention.forward(q, k[:, :, :-5], k[:, :, 5:], out=out, stream=stream)


#: Held while `flash.prefers_wgmma` differs from its default, which threads share.
_PREFERENCE = threading.Lock()


@contextlib.contextmanager
def _planning(wgmma):
    """Choose the flash kernels with wgmma where they run, or those with mma.sync of other GPUs, for plans made here."""
    with _PREFERENCE:
        flash.prefers_wgmma = wgmma
        try:
            yield
        finally:
            flash.prefers_wgmma = True


def _flash(wgmma, capped):
    """Attention with a score function, of float16. Each choice of kernels has another function, so another plan."""

    def work(x, out, stream):
        q = _heads(ew.astype(x, "float16", stream=stream))
        options = {"score": capped, "mask": "causal", "layout": "BSHD", "stream": stream}
        with _planning(wgmma):
            return attention.forward(q, q, q[:, ::-1], **options, out=out)

    return work


def _flash_gradients(wgmma, capped):
    """The gradients of keys, whose order of additions repeats."""

    def work(x, out, stream):
        q = _heads(ew.astype(x, "float16", stream=stream))
        options = {"score": capped, "mask": "causal", "layout": "BSHD", "stream": stream}
        dq, dv = (numbacc.empty_like(q, stream=stream) for _ in range(2))
        with _planning(wgmma):
            o, stats = attention.forward(q, q, q, **options, return_stats=True)
            outs = None if out is None else (dq, out, dv)
            return attention.backward(o, q, q, q, o, stats, **options, out=outs)[1]

    return work


def _fft(x, out, stream):
    return fft.fft(x, out=out, stream=stream)


def _padded(x, out, stream):
    return fft.rfft(x, 3 * x.shape[1] // 2, out=out, stream=stream)


def _shift(x, out, stream):
    return fft.fftshift(x, out=out, stream=stream)


def _copy(x, out, stream):
    if out is None:
        out = numbacc.empty_like(x, stream=stream)
    with contextlib.nullcontext() if stream is None else numbacc.stream(stream):
        out[...] = x
    return out


@device_functions.jit(reads="x")
def _boxes(x, y):
    """Twice a box of 64 rows and 32 columns, which the copy engine brings."""
    t, shared = cuda.threadIdx.x, device_functions.dynamic_shared()
    left, top, arrived = 32 * cuda.blockIdx.x, 64 * cuda.blockIdx.y, shared + 8192
    if t == 0:
        device_functions.mbarrier_init(arrived, 1)
        device_functions.fence_mbarrier_init()
        device_functions.mbarrier_arrive_expect_tx(arrived, 8192)
        device_functions.tma_load(shared, x, (left, top), arrived)
    cuda.syncthreads()
    device_functions.mbarrier_wait_parity(arrived, 0)
    for k in range(64):
        if top + k < y.shape[0] and left + t < y.shape[1]:
            words = (device_functions.ld_shared_b32(shared + 128 * k + 4 * t),)
            y[top + k, left + t] = 2 * device_functions.fragment_floats(words)[0]


@device_functions.jit(reads="x")
def _doubled(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = 2 * x[i, j]


def _device_kernel(x, out, stream):
    """A user's kernel: of a tensor map where there is a copy engine."""
    y = numbacc.empty_like(x, stream=stream) if out is None else out
    rows, columns = x.shape
    if runtime.capability(x.device) >= (9, 0):
        _boxes[(-(-columns // 32), -(-rows // 64)), 32, stream, 8200](device_functions.tensor_map(x, (64, 32), 0), y)
    else:
        _doubled[(-(-rows // 8), -(-columns // 32)), (8, 32), stream](x, y)
    return y


#: A family's work: (x, out, stream) -> the result, for a float32 x of shape (n, 4 n) or so.
WORK = {
    "gated": _gated,
    "matmul": _matmul,
    "bias": _bias,
    "Python epilogue": _epilogue,
    "convolution": _convolution,
    "images": _images,
    "kernels": _kernels,
    "attention": _attention,
    "fused attention": _fused_attention,
    "attention gradients": _attention_gradients,
    "attention in parts": _attention_in_parts,
    "flash attention": _flash(True, lambda s, b, h, i, j: 2 * math.tanh(s / 2)),
    "flash gradients": _flash_gradients(True, lambda s, b, h, i, j: 2 * math.tanh(s / 2)),
    "flash attention, mma.sync": _flash(False, lambda s, b, h, i, j: 3 * math.tanh(s / 3)),
    "flash gradients, mma.sync": _flash_gradients(False, lambda s, b, h, i, j: 3 * math.tanh(s / 3)),
    "fft": _fft,
    "padded fft": _padded,
    "shift": _shift,
    "copy": _copy,
    "device kernel": _device_kernel,
    **FAMILY,
}


def draw(out, stream, seed=3):
    """Random numbers written to `out`."""
    return random.Generator(seed=seed, device=out.device).normal(out=out, stream=stream)


def slow_down(stream, seconds=0.05):
    """Work on a stream that keeps it busy for a while: copies of a large array onto itself."""
    big = numbacc.empty(1 << 28, "uint8", stream=stream)
    for _ in range(int(seconds / 1e-4)):
        device.copy_on_device(big._address, big._address + (1 << 27), 1 << 27, 0, stream.handle)
    return big

"""cuBLASLt: descriptors, algorithms from its heuristics, and the call.

A `Runner` belongs to the thread that made it, like its handle and descriptors; algorithms are shared.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from numbacc_bindings import cublasLt as lt
from numbacc_bindings.cublasLt import CublasLtError, cublasLt
from numbacc_bindings.driver import driver

from ..base.codes import ALIGNED, ARRAYS
from ..base.dtypes import TABLE
from ..runtime import device as runtime
from ..runtime import native
from ..runtime.builtin import bound, bound_to_arrays
from . import cublaslt_rules
from .choices import Algorithm, Choices, Proposals, gpu_model
from .cublaslt_rules import WRONG, Told, best
from .handles import Handle, Handles
from .products import Matrix, Product, bits

#: Name of a dtype -> CUDA's number for it.
DATA_TYPES = {row.name: lt.CudaDataType(row.products.code) for row in TABLE.values() if row.products is not None}
#: compute -> (cublasComputeType_t, the dtype of alpha and beta).
COMPUTE = {
    "float32": (lt.ComputeType.COMPUTE_32F, "float32"),
    "tf32": (lt.ComputeType.COMPUTE_32F_FAST_TF32, "float32"),
    "float64": (lt.ComputeType.COMPUTE_64F, "float64"),
    "int32": (lt.ComputeType.COMPUTE_32I, "int32"),
}
_SCALE_POINTERS = (
    lt.MatmulAttribute.A_SCALE_POINTER,
    lt.MatmulAttribute.B_SCALE_POINTER,
    lt.MatmulAttribute.C_SCALE_POINTER,
    lt.MatmulAttribute.D_SCALE_POINTER,
)
_SCALE_MODES = (lt.MatmulAttribute.A_SCALE_MODE, lt.MatmulAttribute.B_SCALE_MODE)
#: The numbers of the arrays in a call: see `codes.MATMUL_ARRAYS`.
_BIAS, _AUX, _SCALES, _AMAX = 4, 5, 6, 10

_handles = Handles(cublasLt, "cublasLtCreate", "cublasLtDestroy")


def _set(function: Any, target: int, attribute: Any, value: Any) -> None:
    cublasLt.require(attribute)
    function(target, attribute, ctypes.addressof(value), ctypes.sizeof(value))


def _layout(matrix: Matrix, batch: int, device: int) -> Handle:
    made = Handle(
        cublasLt.cublasLtMatrixLayoutCreate,
        cublasLt.cublasLtMatrixLayoutDestroy,
        device,
        *(DATA_TYPES[matrix.dtype], matrix.rows, matrix.columns, matrix.pitch),
    )
    if batch > 1:
        put = partial(_set, cublasLt.cublasLtMatrixLayoutSetAttribute, made.value)
        put(lt.LayoutAttribute.BATCH_COUNT, ctypes.c_int32(batch))
        put(lt.LayoutAttribute.STRIDED_BATCH_OFFSET, ctypes.c_int64(matrix.batch_stride))
    return made


class Descriptors:
    """A product's descriptors, for one thread."""

    def __init__(self, product: Product, device: int):
        compute, scale = COMPUTE[product.compute]
        self.matmul = Handle(
            cublasLt.cublasLtMatmulDescCreate,
            cublasLt.cublasLtMatmulDescDestroy,
            device,
            *(compute, DATA_TYPES[scale]),
        )
        matrices = (product.a, product.b, product.c, product.d)
        self.layouts = [_layout(matrix, product.batch, device) for matrix in matrices]
        attribute = lt.MatmulAttribute
        self._put(
            attribute.TRANSA, ctypes.c_int32(lt.CublasOperation.T if product.transpose_a else lt.CublasOperation.N)
        )
        self._put(
            attribute.TRANSB, ctypes.c_int32(lt.CublasOperation.T if product.transpose_b else lt.CublasOperation.N)
        )
        self._put(attribute.EPILOGUE, ctypes.c_uint32(lt.LtEpilogue[product.epilogue]))
        if product.bias_dtype:
            if TABLE[product.a.dtype].is_scaled:  # otherwise bias has D's dtype, and setting it is an error
                self._put(attribute.BIAS_DATA_TYPE, ctypes.c_int32(DATA_TYPES[product.bias_dtype]))
            self._put(attribute.BIAS_BATCH_STRIDE, ctypes.c_int64(product.bias_stride))
        if product.aux_pitch:
            self._put(attribute.EPILOGUE_AUX_LD, ctypes.c_int64(product.aux_pitch))
            self._put(attribute.EPILOGUE_AUX_BATCH_STRIDE, ctypes.c_int64(product.aux_stride))
            if product.aux_dtype:
                self._put(attribute.EPILOGUE_AUX_DATA_TYPE, ctypes.c_int32(DATA_TYPES[product.aux_dtype]))
        if "vector" in product.scales:
            cublasLt.require(lt.MatrixScale.OUTER_VEC_32F)
            for mode, kind in zip(_SCALE_MODES, product.scales, strict=False):
                assert kind == "vector"
                self._put(mode, ctypes.c_int32(lt.MatrixScale.OUTER_VEC_32F))
        if product.fast:
            self._put(attribute.FAST_ACCUM, ctypes.c_int8(1))
        #: Pairs of an array's number and the attribute that holds its address.
        self.pointers: list[tuple[int, int]] = []
        if product.bias_dtype:
            self.pointers.append((_BIAS, attribute.BIAS_POINTER))
        if product.aux_pitch:
            self.pointers.append((_AUX, attribute.EPILOGUE_AUX_POINTER))
        for k, kind in enumerate(product.scales):
            if kind:
                # cuBLASLt's A may be numbacc's second array, and its B the first.
                own = _SCALES + (k ^ product.first if k < 2 else k)
                self.pointers.append((own, _SCALE_POINTERS[k]))
        if product.amax:
            self.pointers.append((_AMAX, attribute.AMAX_D_POINTER))

    def _put(self, attribute: lt.MatmulAttribute, value: Any) -> None:
        _set(cublasLt.cublasLtMatmulDescSetAttribute, self.matmul.value, attribute, value)

    def pretend(self, alignment: Sequence[int]) -> None:
        """Set addresses that are never read, because the heuristics check their alignment."""
        for array, attribute in self.pointers:
            address = alignment[array] if array < ARRAYS else ALIGNED
            self._put(lt.MatmulAttribute(attribute), ctypes.c_void_p(address))


def candidates(product: Product, alignment: Sequence[int], device: int, limit: int, count: int) -> list[Algorithm]:
    """Return the heuristics' proposals, best first; an empty list if the library or the GPU does not support it.

    Args:
        product: what to compute.
        alignment: the greatest power of two up to 256 that divides the address of a, b, c, out, bias, aux.
        device: the GPU.
        limit: bytes of scratch memory that an algorithm may use.
        count: how many algorithms to ask for.

    Raises:
        CublasLtError: the library is missing, or the call failed for another reason.
    """
    descriptors = Descriptors(product, device)
    descriptors.pretend(alignment)
    preference = Handle(cublasLt.cublasLtMatmulPreferenceCreate, cublasLt.cublasLtMatmulPreferenceDestroy, device)
    put = partial(_set, cublasLt.cublasLtMatmulPreferenceSetAttribute, preference.value)
    wanted = lt.PreferenceAttribute
    put(wanted.MAX_WORKSPACE_BYTES, ctypes.c_uint64(limit))
    if product.d.dtype != COMPUTE[product.compute][1]:
        # Combine parts of a sum over k before rounding, not after.
        put(wanted.REDUCTION_SCHEME_MASK, ctypes.c_uint32(lt.ReductionScheme.COMPUTE_TYPE))
    first, second = (product.first, 1 - product.first)
    for attribute, array in (
        (wanted.MIN_ALIGNMENT_A_BYTES, first),
        (wanted.MIN_ALIGNMENT_B_BYTES, second),
        (wanted.MIN_ALIGNMENT_C_BYTES, 2),
        (wanted.MIN_ALIGNMENT_D_BYTES, 3),
    ):
        put(attribute, ctypes.c_uint32(alignment[array]))
    results, found = (lt.HeuristicResult * count)(), ctypes.c_int()
    try:
        with runtime.on_device(device):
            cublasLt.cublasLtMatmulAlgoGetHeuristic(
                _handles.get(device).value,
                descriptors.matmul.value,
                *(layout.value for layout in descriptors.layouts),
                preference.value,
                count,
                ctypes.addressof(results),
                ctypes.addressof(found),
            )
    except CublasLtError as error:
        if error.status in (lt.Status.NOT_SUPPORTED, lt.Status.INVALID_VALUE):
            return []
        raise
    proposed = [_algorithm(result) for result in results[: found.value] if result.state == lt.Status.SUCCESS]
    return algorithms.right(proposed, product, cublasLt.version())


def _algorithm(result: Any) -> Algorithm:
    """Return an algorithm from a result of the heuristics, with cuBLASLt's own numbers as its configuration."""

    def read(attribute: lt.AlgoConfig) -> int:
        value, written = ctypes.c_uint64(), ctypes.c_size_t()
        # The attributes have 2 or 4 bytes, and the library needs the right size.
        size = 2 if attribute in (lt.AlgoConfig.INNER_SHAPE_ID, lt.AlgoConfig.CLUSTER_SHAPE_ID) else 4
        cublasLt.cublasLtMatmulAlgoConfigGetAttribute(
            ctypes.addressof(result.algo), attribute, ctypes.addressof(value), size, ctypes.addressof(written)
        )
        return value.value

    config = lt.AlgoConfig
    kind = (read(config.ID), read(config.TILE_ID))
    parts, scheme = ctypes.c_int32(read(config.SPLITK_NUM)).value, read(config.REDUCTION_SCHEME)
    # 0 and -1 leave the number of parts to the kernel, which may split the sum.
    in_place = parts != 1 and bool(scheme & lt.ReductionScheme.INPLACE)
    cluster, option = read(config.CLUSTER_SHAPE_ID), read(config.CUSTOM_OPTION)
    text = (
        f"algorithm {kind[0]}, tile {kind[1]}, stages {read(config.STAGES_ID)}, cluster {cluster}, "
        f"split-k {parts}, reduction {scheme}, option {option}, {result.wavesCount:.2f} waves"
    )
    told = Told(result.wavesCount, max(parts, 1), cluster, option)
    return Algorithm(bytes(result.algo), result.workspaceSize, text, kind, not in_place, told)


class ProductChoice(NamedTuple):
    """The problem that an algorithm was chosen for: the key of `algorithms`."""

    product: Product
    alignment: tuple[int, ...]
    device: str
    capability: tuple[int, int]
    multiprocessors: int
    version: int
    limit: int
    tuned: bool = False


#: How many algorithms to request from the heuristics; they return 8 at most.
_PROPOSALS = 32
#: Smaller limits of scratch memory for measurements: with these the heuristics propose other algorithms.
_LESS_SCRATCH = (2**20, 0)
#: The choices made so far.
algorithms = Choices("cublasLt", WRONG)


def _choice(
    product: Product, alignment: tuple[int, ...], device: int, limit: int, tuned: bool = False
) -> ProductChoice:
    return ProductChoice(product, alignment, *gpu_model(device), cublasLt.version(), limit, tuned)


def _take(product: Product, alignment: tuple[int, ...], device: int, limit: int) -> Proposals:
    """Return the heuristics' proposals, and the one to use without a measurement."""
    model = gpu_model(device)
    proposed = candidates(product, alignment, device, limit, _PROPOSALS)

    def again(less: int) -> Sequence[Algorithm]:
        return candidates(product, alignment, device, min(less, limit), _PROPOSALS)

    return Proposals(best(product, proposed, again, model.capability, model.multiprocessors), proposed)


def choose(product: Product, alignment: tuple[int, ...], device: int, limit: int) -> Algorithm | None:
    """Return the best algorithm by the heuristics and numbacc's rules, and store it; None if they find nothing."""
    key = _choice(product, alignment, device, limit)
    return algorithms.choose(key, lambda: _take(product, alignment, device, limit).first)


def is_stand_in(product: Product, algorithm: Algorithm, device: int) -> bool:
    """Return True if an algorithm is a slower kernel, so that the product without epilogue may have a faster one."""
    return cublaslt_rules.is_stand_in(product, algorithm, runtime.capability(device))


def tune(
    product: Product,
    alignment: tuple[int, ...],
    device: int,
    limit: int,
    stream: int,
    trial: Callable[[Any], Callable[[], None]],
) -> Algorithm | None:
    """Return the fastest of the heuristics' algorithms, None if there is none. The choice is stored, also on disk.

    `trial(runner)` returns a function that queues the product with a runner on `stream`. The first call waits for the
    GPU.
    """

    def propose() -> Proposals:
        first, others = _take(product, alignment, device, limit)
        if first is None:
            return Proposals(None)
        more = [
            each
            for less in _LESS_SCRATCH
            if less < limit
            for each in candidates(product, alignment, device, less, _PROPOSALS)
        ]
        return Proposals(first, [*others, *more])

    return algorithms.tune(
        _choice(product, alignment, device, limit, tuned=True),
        propose,
        lambda algorithm: bool(algorithms.right([algorithm], product, cublasLt.version())),
        lambda algorithm: trial(Runner(product, algorithm, alignment, device)),
        device,
        stream,
    )


class Runner:
    """A product with its algorithm, ready to run on addresses in the thread that made it.

    Call `launch(stream, workspace, alpha, beta, *addresses)` with `codes.MATMUL_ARRAYS` addresses, 0 for missing
    arrays, and alpha and beta as the bits of numbers. It returns 0, the library's status, or a number of `codes`.
    """

    backend = "cublasLt"

    def __init__(
        self,
        product: Product,
        algorithm: Algorithm,
        alignment: tuple[int, ...],
        device: int,
        pairs: Sequence[tuple[int, ...]] = (),
    ):
        self.algorithm = algorithm
        self.workspace_bytes = algorithm.workspace_bytes
        self._product, self._alignment, self._device = product, alignment, device
        self._handle = _handles.get(device)
        self._algo = ctypes.create_string_buffer(algorithm.data, len(algorithm.data))
        self._descriptors = Descriptors(product, device)
        self._checked = self._template(self._descriptors, driver.address("cuStreamIsCapturing"), pairs)
        # This is an attribute instead of a method, so that the call goes straight to compiled code.
        self.launch = partial(native.matmul, ctypes.addressof(self._checked))
        #: The compiled function that takes the arrays in memory, and its template.
        self.compiled = native.matmul_arrays, self._checked
        #: A function (stream, a, b, out, bias, aux): `launch` without factors, C, scales and scratch memory.
        self.launch_plain = bound(native.matmul_plain, ctypes.addressof(self._checked))
        #: A function (stream, workspace, addresses, ()): `launch` without factors. Addresses that are left out are 0.
        self.launch_arrays = bound_to_arrays(native.matmul_arrays, self._checked)

    @cached_property
    def launch_unchecked(self) -> Any:
        """`launch` without checks of alignment, overlap and capture, for arrays and streams that have been checked.

        It has separate descriptors, since a template records which addresses its descriptor holds.
        """
        self._own = Descriptors(self._product, self._device)
        self._unchecked = self._template(self._own, 0, ())
        return partial(native.matmul, ctypes.addressof(self._unchecked))

    def _template(self, descriptors: Descriptors, is_capturing: int, pairs: Sequence[tuple[int, ...]]) -> Any:
        gpu = runtime.gpu(self._device)
        pointers = descriptors.pointers
        words = (
            gpu.get_current,
            gpu.context,
            cublasLt.address("cublasLtMatmul"),
            cublasLt.address("cublasLtMatmulDescSetAttribute"),
            is_capturing,
            self._handle.value,
            descriptors.matmul.value,
            ctypes.addressof(self._algo),
            self.workspace_bytes,
            bits(1, COMPUTE[self._product.compute][1]),
            0,
            self._product.first,
            *(layout.value for layout in descriptors.layouts),
            len(pointers),
            len(pairs),
            *self._alignment,
            # No array has the address -1: the first call sets every attribute.
            *(word for array, attribute in pointers for word in (array, attribute, -1)),
            *(word for pair in pairs for word in pair),
        )
        return (ctypes.c_int64 * len(words))(*words)


def check(status: int) -> None:
    """Raise CublasLtError unless a launch's status is 0."""
    cublasLt.check("cublasLtMatmul", status)

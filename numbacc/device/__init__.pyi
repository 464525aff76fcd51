# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Device functions for kernels of your own: tensor cores, the copy engine, mbarriers, clusters, warps and blocks."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, overload

from ..typing import AnyArray

#: What a thread holds of a matrix.
Fragment: TypeAlias = tuple[Any, ...]

class TensorMap:
    array: Any
    box: tuple[int, ...]
    swizzle: int
    nbytes: int
    def encoded(self) -> bytes: ...

class DeviceKernel:
    py_func: Callable[..., Any]
    def __getitem__(self, configuration: tuple[Any, ...], /) -> Callable[..., None]: ...
    def configure(
        self, grid: Any, block: Any, stream: Any = None, shared: int = 0, cluster: Any = 1
    ) -> Callable[..., None]: ...
    def compile(self, *args: Any, block: int, capability: tuple[int, int] = (9, 0)) -> tuple[str, bytes]: ...

@overload
def jit(
    function: Callable[..., Any],
    *,
    launch_bounds: int | tuple[int, ...] | None = None,
    fastmath: bool = False,
    reads: Iterable[str] = (),
) -> DeviceKernel: ...
@overload
def jit(
    function: None = None,
    *,
    launch_bounds: int | tuple[int, ...] | None = None,
    fastmath: bool = False,
    reads: Iterable[str] = (),
) -> Callable[[Callable[..., Any]], DeviceKernel]: ...
def function(function: Callable[..., Any]) -> Callable[..., Any]: ...
def tensor_map(x: AnyArray, box: Sequence[int], swizzle: int = 128) -> TensorMap: ...

def accumulator_as_a(pairs: Fragment, k: int, columns: int) -> Fragment:
    """Return columns 16 k to 16 k + 15 of packed sums as the operand A of a product: the registers already fit."""
def add_rn(x: float, y: float) -> float:
    """Return x + y, which the compiler does not fuse with a product."""
def address_of(array: Any) -> int:
    """Return the address of an array's first element in global memory, as int64."""
def bar_arrive(name: int, threads: int) -> None:
    """Arrive at a barrier of `bar_sync` without waiting."""
def bar_sync(name: int, threads: int) -> None:
    """Wait at one of the block's 16 barriers until `threads` threads have arrived. 0 is that of `cuda.syncthreads`."""
def bar_warp_sync() -> None:
    """Wait for all threads of the warp."""
def block_broadcast(x: Any, rank: int) -> Any:
    """Return x of the thread with this number in the block."""
def block_exclusive_scan(function: Callable[..., Any], x: Any, initial: Any) -> Any:
    """Combine `initial` and x of all threads before the thread's own, in their order, by an associative function."""
def block_reduce(function: Callable[..., Any], x: Any) -> Any:
    """Combine x of all threads of the block by function(x, y); all threads get the result, with the same bits."""
def block_scan(function: Callable[..., Any], x: Any) -> Any:
    """Combine x of all threads up to the thread's own, in their order, by an associative function(x, y)."""
def block_sort(key: Any, value: Any, descending: bool) -> Any:
    """Sort the pairs (key, value) of all threads: thread k of the block gets the k-th pair, as a tuple."""
def block_top_k(key: Any, value: Any, k: int) -> Any:
    """Find the k largest keys of a block: thread j < k gets the j-th largest and its value."""
def cluster_arrive() -> None:
    """Arrive at the cluster's barrier; all threads of all its blocks do so."""
def cluster_ctarank() -> int:
    """Return the position of the block in its cluster."""
def cluster_nctarank() -> int:
    """Return the number of blocks of the cluster."""
def cluster_sync() -> None:
    """Wait for all threads of all blocks of the cluster."""
def cluster_wait() -> None:
    """Wait until all threads of the cluster have arrived at its barrier."""
def cos_approx(x: float) -> float:
    """Return cos(x) with an absolute error of 2^-20.5 for x from -pi to pi, and less accurate beyond."""
def cp_async(shared: int, source: int, nbytes: int) -> None:
    """Begin a copy of 4, 8 or 16 bytes from global memory to shared memory; `nbytes` is a constant."""
def cp_async_bulk_commit_group() -> None:
    """End a bulk group: the thread's bulk and box stores since the last group."""
def cp_async_bulk_load(shared: int, source: int, nbytes: int, mbarrier: int) -> None:
    """Begin a copy of `nbytes` from global to shared memory. Their arrival counts at the mbarrier."""
def cp_async_bulk_store(target: int, shared: int, nbytes: int) -> None:
    """Begin a copy of `nbytes` from shared to global memory, as part of the thread's bulk group."""
def cp_async_bulk_wait_group(pending: int) -> None:
    """Wait until at most `pending` (a constant) of the thread's newest bulk groups are unfinished."""
def cp_async_bulk_wait_group_read(pending: int) -> None:
    """Wait until at most `pending` (a constant) of the newest bulk groups still read shared memory."""
def cp_async_commit_group() -> None:
    """End a group: the thread's copies since the last group."""
def cp_async_mbarrier_arrive(mbarrier: int) -> None:
    """Arrive at an mbarrier when all of the thread's earlier copies have arrived."""
def cp_async_rows(shared: int, source: int, count: int, shared_step: int, source_step: int) -> None:
    """Begin `count` copies of 16 bytes, the k-th to shared + k shared_step from source + k source_step."""
def cp_async_wait_group(pending: int) -> None:
    """Wait until at most `pending` (a constant) of the thread's newest groups have not arrived."""
def cp_async_zfill(shared: int, source: int, valid: int) -> None:
    """Begin a copy of 16 bytes like `cp_async`, of which only the first `valid` are read; the rest become zero."""
def cvt_bf16x2(low: float, high: float) -> int:
    """Return two float32 as bfloat16 in one word, the first in the low half."""
def cvt_e4m3x2(low: float, high: float) -> int:
    """Return two float32 as float8_e4m3fn in the low 16 bits of a word, saturated to ±448."""
def cvt_e5m2x2(low: float, high: float) -> int:
    """Return two float32 as float8_e5m2 in the low 16 bits of a word, saturated to ±57344."""
def cvt_f16x2(low: float, high: float) -> int:
    """Return two float32 as float16 in one word, the first in the low half."""
def div_full(x: float, y: float) -> float:
    """Return x / y, accurate to 2 units in the last place."""
def div_rn(x: float, y: float) -> float:
    """Return x / y, correctly rounded."""
def dynamic_shared() -> int:
    """Return the address of the block's dynamic shared memory: a multiple of 1024. The launch sets its size."""
def elect_sync() -> int:
    """Return 1 in one thread of the warp, 0 in the others."""
def ex2_approx(x: float) -> float:
    """Return 2^x, accurate to 2 units in the last place; subnormal numbers are 0."""
def fence_mbarrier_init() -> None:
    """Make mbarriers that this thread has initialized visible to the copy engine and to the cluster."""
def fence_proxy_async() -> None:
    """Make the thread's writes to shared memory visible to the async proxy: to wgmma and to TMA stores."""
def fence_tensormap(tensor_map: Any) -> None:
    """Make a tensor map in global memory visible to the copy engine. Maps that are parameters do not need this."""
def fill_fragment(value: Any, count: int) -> Fragment:
    """Return a fragment of `count` (a constant) equal numbers: float32, or int32 if `value` is an integer."""
def fma_rn(x: float, y: float, z: float) -> float:
    """Return x y + z, rounded once."""
def fragment_bits(fragment: Fragment) -> Fragment:
    """Return the bits of a fragment's numbers, of 32 bits each, as unsigned integers."""
def fragment_column(k: Any, columns: int) -> Any:
    """Return the column of item k of a fragment of sums, from the thread's first column, 2 (lane % 4)."""
def fragment_floats(words: Fragment) -> Fragment:
    """Return the float32 numbers that have the bits of these words."""
def fragment_map(function: Callable[..., Any], fragments: tuple[Fragment, ...]) -> Fragment:
    """Return the fragment of function(x, y, ...) for the numbers at each position of equally long fragments."""
def fragment_map_positions(
    function: Callable[..., Any], fragment: Fragment, columns: int, more: tuple[Any, ...],
) -> Fragment:
    """Return the fragment of `function(x, row, column, *more)` for all numbers x of a fragment of sums."""
def fragment_map_rows(function: Callable[..., Any], fragment: Fragment, rows: Fragment, columns: int) -> Fragment:
    """Return the fragment of function(x, the number of x's row) for all numbers x of a fragment of sums."""
def fragment_part(fragment: Fragment, k: int, count: int) -> Fragment:
    """Return part number k of a fragment, in parts of `count` numbers. Both are constants."""
def fragment_reduce_rows(function: Callable[..., Any], fragment: Fragment, columns: int) -> Fragment:
    """Return each of the thread's rows of a fragment of sums, reduced by function(x, y) to one number."""
def fragment_row(k: Any, columns: int) -> Any:
    """Return the row of item k of a fragment of sums with `columns` tiles of 8 columns, from the thread's first row."""
def ld_global_b32(address: int) -> int:
    """Load a 32-bit word from global memory."""
def ld_global_part(
    address: int, pitch: int, columns: int, size: int, rows: int, width: int, repeated: int,
) -> Fragment:
    """Load a matrix in global memory as the words of a fragment of 16 rows. Some rows or columns may not exist."""
def ld_global_v2(address: int) -> tuple[int, ...]:
    """Load 8 bytes of global memory as two words."""
def ld_global_v4(address: int) -> tuple[int, ...]:
    """Load 16 bytes of global memory as four words."""
def ld_global_v4_cs(address: int) -> tuple[int, ...]:
    """Load 16 bytes that are used only once: they leave the caches first."""
def ld_global_v4_nc(address: int) -> tuple[int, ...]:
    """Load 16 bytes that no kernel writes meanwhile, without keeping them in the L1 cache."""
def ld_shared_b32(address: int) -> int:
    """Load a 32-bit word from shared memory."""
def ld_shared_cluster_b32(shared: int, rank: int) -> int:
    """Load a 32-bit word from the shared memory of block `rank` of the cluster."""
def ld_shared_v4(address: int) -> tuple[int, ...]:
    """Load 16 bytes of shared memory as four words."""
def ldmatrix_x1(address: int, count: int, step: int) -> Fragment:
    """Load `count` matrices one at a time: `count` words for each thread. Threads 0 to 7 have the rows' addresses."""
def ldmatrix_x1_trans(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x1` does, transposed."""
def ldmatrix_x2(address: int, count: int, step: int) -> Fragment:
    """Load 2 `count` matrices, two at a time, as `ldmatrix_x4` loads four. Threads 0 to 15 have the rows' addresses."""
def ldmatrix_x2_trans(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x2` does, transposed."""
def ldmatrix_x4(address: int, count: int, step: int) -> Fragment:
    """Load 4 `count` matrices of 8 x 8 16-bit numbers to a warp's registers: 4 `count` words for each thread."""
def ldmatrix_x4_trans(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x4` does, transposed."""
def ldmatrix_x4_trans_xor(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x4_xor` does, transposed."""
def ldmatrix_x4_xor(address: int, count: int, step: int) -> Fragment:
    """Load matrices as `ldmatrix_x4` does, the k-th four from address ^ (k step): columns of swizzled rows."""
def lg2_approx(x: float) -> float:
    """Return the base-2 logarithm of x with an absolute error of 2^-22; subnormal numbers are 0."""
def mapa(shared: int, rank: int) -> int:
    """Return the address that shared memory of block `rank` has for the whole cluster."""
def max_f32(x: float, y: float) -> float:
    """Return the larger of two float32; if one is NaN, the other."""
def mbarrier_arrive(mbarrier: int) -> None:
    """Arrive at an mbarrier."""
def mbarrier_arrive_cluster(mbarrier: int, rank: int) -> None:
    """Arrive at the mbarrier that has this address in block number `rank` of the cluster."""
def mbarrier_arrive_cluster_relaxed(mbarrier: int, rank: int) -> None:
    """Arrive at the mbarrier of block number `rank` as `mbarrier_arrive_cluster` does, but publish no writes."""
def mbarrier_arrive_expect_tx(mbarrier: int, nbytes: int) -> None:
    """Arrive at an mbarrier, whose phase is complete only when `nbytes` more bytes have arrived, too."""
def mbarrier_expect_tx(mbarrier: int, nbytes: int) -> None:
    """Let the phase of an mbarrier wait for `nbytes` more bytes, without arriving."""
def mbarrier_init(mbarrier: int, count: int) -> None:
    """Initialize an mbarrier, 8 bytes of shared memory, for `count` arrivals in each phase."""
def mbarrier_try_wait_parity(mbarrier: int, parity: int) -> int:
    """Return 1 if the phase of this parity is complete, 0 otherwise; the hardware waits a little before it says 0."""
def mbarrier_wait_parity(mbarrier: int, parity: int) -> None:
    """Wait until an mbarrier's phase of this parity is complete: 0 for the first phase, then 1, 0, ..."""
def mbarrier_wait_parity_cluster(mbarrier: int, parity: int) -> None:
    """Wait as `mbarrier_wait_parity` does, and see what other blocks have written before they arrived."""
def min_f32(x: float, y: float) -> float:
    """Return the smaller of two float32; if one is NaN, the other."""
def mma_bf16(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of bfloat16 factors and float32 sums."""
def mma_e4m3(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of float8_e4m3fn factors and float32 sums; A and B have 32 columns."""
def mma_e5m2(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of float8_e5m2 factors, as `mma_e4m3` does."""
def mma_f16(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of float16 factors and float32 sums, as `mma_bf16` does."""
def mma_s8(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of int8 factors and int32 sums; A and B have 32 columns."""
def mma_tf32(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of float32 factors, whose lowest 13 bits are ignored; A and B have 8 columns."""
def mma_u8(sums: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """Return a warp's sums + A B^T of uint8 factors and int32 sums, as `mma_s8` does."""
def mul_rn(x: float, y: float) -> float:
    """Return x y, which the compiler does not fuse with a sum."""
def pack_bf16(fragment: Fragment) -> Fragment:
    """Return neighbours of a float32 fragment as pairs of bfloat16, in 32-bit words."""
def pack_e4m3(fragment: Fragment) -> Fragment:
    """Return neighbours of a float32 fragment as pairs of float8_e4m3fn, in the low 16 bits of words."""
def pack_e5m2(fragment: Fragment) -> Fragment:
    """Return neighbours of a float32 fragment as pairs of float8_e5m2, in the low 16 bits of words."""
def pack_f16(fragment: Fragment) -> Fragment:
    """Return neighbours of a float32 fragment as pairs of float16, in 32-bit words."""
def philox_integers(seed: int, position: int, n: int) -> int:
    """Return element `position` of `numbacc.random.Generator(seed).integers(n, size=m)`, for 0 < n < 2^32."""
def philox_normal_v4(seed: int, group: int) -> tuple[float, ...]:
    """Return elements 4 `group` to 4 `group` + 3 of `numbacc.random.Generator(seed).normal(size=n, dtype="float32")`."""
def philox_random(seed: int, position: int) -> float:
    """Return element `position` of `numbacc.random.Generator(seed).random(n, dtype="float32")`, in [0, 1)."""
def philox_random_v4(seed: int, group: int) -> tuple[float, ...]:
    """Return elements 4 `group` to 4 `group` + 3 of `numbacc.random.Generator(seed).random(n, dtype="float32")`."""
def philox_words(seed: int, group: int) -> tuple[int, ...]:
    """Return the words 4 `group` to 4 `group` + 3 of the sequence of a seed: four unsigned 32-bit integers."""
def prefetch_tensormap(tensor_map: Any) -> None:
    """Bring a tensor map into the cache of the copy engine."""
def quad_reduce(function: Callable[..., Any], rows: Fragment) -> Fragment:
    """Reduce numbers by function(x, y) over the four threads that share rows; all four get the results."""
def rcp_approx(x: float) -> float:
    """Return 1 / x, accurate to one unit in the last place; subnormal numbers are 0."""
def rcp_rn(x: float) -> float:
    """Return 1 / x, correctly rounded."""
def rsqrt_approx(x: float) -> float:
    """Return 1 / sqrt(x) with a relative error of 2^-22.9."""
def setmaxnreg_dec(count: int) -> None:
    """Release registers: each thread of the warpgroup keeps `count`, a constant multiple of 8 from 24 on."""
def setmaxnreg_inc(count: int) -> None:
    """Wait until each thread of the warpgroup may use `count` registers, a constant multiple of 8 up to 256."""
def shared_address(array: Any) -> int:
    """Return the 32-bit address of an array of `cuda.shared.array`."""
def shfl_bfly(x: Any, mask: int) -> Any:
    """Return x of the thread whose lane differs by the bits of `mask`."""
def shfl_down(x: Any, delta: int) -> Any:
    """Return x of the thread `delta` lanes after; the last lanes keep their own."""
def shfl_idx(x: Any, lane: int) -> Any:
    """Return x of the thread with this lane."""
def shfl_up(x: Any, delta: int) -> Any:
    """Return x of the thread `delta` lanes before; the first lanes keep their own."""
def sin_approx(x: float) -> float:
    """Return sin(x) with an absolute error of 2^-20.5 for x from -pi to pi, and less accurate beyond."""
def sqrt_approx(x: float) -> float:
    """Return sqrt(x) with a relative error of 2^-23."""
def sqrt_rn(x: float) -> float:
    """Return sqrt(x), correctly rounded."""
def st_global_b32(address: int, word: int) -> None:
    """Store a 32-bit word to global memory."""
def st_global_fragment(pairs: Fragment, address: int, pitch: int, columns: int) -> None:
    """Store packed sums to a matrix of 16-bit numbers in global memory."""
def st_global_part(
    words: Fragment, address: int, pitch: int, columns: int, size: int, rows: int, width: int,
) -> None:
    """Store the words of a fragment of 16 rows to a matrix in global memory: the reverse of `ld_global_part`."""
def st_global_v2(address: int, words: tuple[int, ...]) -> None:
    """Store two words to global memory."""
def st_global_v4(address: int, words: tuple[int, ...]) -> None:
    """Store four words to global memory."""
def st_global_v4_cs(address: int, words: tuple[int, ...]) -> None:
    """Store four words that nobody reads soon: they leave the caches first."""
def st_shared_b32(address: int, word: int) -> None:
    """Store a 32-bit word to shared memory."""
def st_shared_cluster_b32(shared: int, rank: int, word: int) -> None:
    """Store a 32-bit word to the shared memory of block `rank` of the cluster."""
def st_shared_part_8bit(words: Fragment, address: int) -> None:
    """Store 64 columns of a fragment of 16 rows to shared memory, as rows of 64 bytes with the swizzle of 64 bytes."""
def st_shared_v4(address: int, words: tuple[int, ...]) -> None:
    """Store four words to shared memory."""
def stmatrix_x1(address: int, words: Fragment, step: int) -> None:
    """Store matrices one at a time, the reverse of `ldmatrix_x1`."""
def stmatrix_x1_trans(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x1` does, transposed."""
def stmatrix_x2(address: int, words: Fragment, step: int) -> None:
    """Store matrices two at a time, the reverse of `ldmatrix_x2`."""
def stmatrix_x2_trans(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x2` does, transposed."""
def stmatrix_x4(address: int, words: Fragment, step: int) -> None:
    """Store a warp's registers as matrices of 8 x 8 16-bit numbers, four at a time: the reverse of `ldmatrix_x4`."""
def stmatrix_x4_trans(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x4` does, transposed."""
def stmatrix_x4_trans_xor(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x4_xor` does, transposed."""
def stmatrix_x4_xor(address: int, words: Fragment, step: int) -> None:
    """Store matrices as `stmatrix_x4` does, the k-th four to address ^ (k step)."""
def tanh_approx(x: float) -> float:
    """Return tanh(x) with a relative error of 2^-11."""
def thread_rank() -> Any:
    """Return the thread's number in its block, counted along x first."""
def tma_load(shared: int, tensor_map: Any, coordinates: tuple[int, ...], mbarrier: int) -> None:
    """Begin to copy a box of an array to shared memory. Its bytes count at the mbarrier."""
def tma_load_multicast(
    shared: int, tensor_map: Any, coordinates: tuple[int, ...], mbarrier: int, mask: int,
) -> None:
    """Begin to copy a box to the same place of several blocks of the cluster, and count it at each block's mbarrier."""
def tma_reduce_add(tensor_map: Any, coordinates: tuple[int, ...], shared: int) -> None:
    """Begin to add a box of shared memory to an array, element by element; like `tma_store` otherwise."""
def tma_store(tensor_map: Any, coordinates: tuple[int, ...], shared: int) -> None:
    """Begin to copy a box from shared memory to an array, as part of the thread's bulk group."""
def unpack_bf16(words: Fragment) -> Fragment:
    """Return the two bfloat16 of each word as float32."""
def unpack_f16(words: Fragment) -> Fragment:
    """Return the two float16 of each word as float32."""
def unroll(function: Callable[..., Any], count: int, carried: Any, more: tuple[Any, ...]) -> Any:
    """Run `carried = function(k, carried, *more)` for k in range(count), unrolled, and return `carried`."""
def warp_broadcast(x: Any, lane: int) -> Any:
    """Return x of the thread with this lane of the warp."""
def warp_exclusive_scan(function: Callable[..., Any], x: Any, initial: Any) -> Any:
    """Combine `initial` and x of all lanes before the thread's own, in their order, by an associative function."""
def warp_reduce(function: Callable[..., Any], x: Any) -> Any:
    """Combine x of all threads of the warp by function(x, y); all threads get the result."""
def warp_scan(function: Callable[..., Any], x: Any) -> Any:
    """Combine x of all lanes up to the thread's own, in their order, by an associative function(x, y)."""
def warp_uniform(x: int) -> int:
    """Return the value of the warp's first thread, so that the compiler knows it is the same for the whole warp."""
def wgmma_bf16(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int,
) -> Fragment:
    """Begin a warpgroup's sums + A B^T of bfloat16 factors and float32 sums, as one wgmma group; return the sums."""
def wgmma_descriptor(swizzle: int = 128, leading: int = 16, stride: int = 1024) -> int:
    """Return the descriptor of a matrix at shared address 0, as int64. Add `address >> 4` of the matrix to it."""
def wgmma_e4m3(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int,
) -> Fragment:
    """Begin a product of float8_e4m3fn factors and float32 sums, as `wgmma_bf16` does; both `trans` are 0."""
def wgmma_e5m2(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int,
) -> Fragment:
    """Begin a product of float8_e5m2 factors and float32 sums, as `wgmma_bf16` does; both `trans` are 0."""
def wgmma_f16(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int,
) -> Fragment:
    """Begin a product of float16 factors and float32 sums, as `wgmma_bf16` does."""
def wgmma_s8(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int,
) -> Fragment:
    """Begin a product of int8 factors and int32 sums, as `wgmma_bf16` does; both `trans` are 0."""
def wgmma_tf32(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int,
) -> Fragment:
    """Begin a product of float32 factors without their lowest 13 bits, as `wgmma_bf16` does; both `trans` are 0."""
def wgmma_u8(
    sums: Fragment | int, a: Any, b: int, steps: int, a_step: int, b_step: int, a_trans: int, b_trans: int,
) -> Fragment:
    """Begin a product of uint8 factors and int32 sums, as `wgmma_bf16` does; both `trans` are 0."""
def wgmma_wait_group(sums: Fragment, pending: int) -> Fragment:
    """Wait until at most `pending` (a constant) of the warpgroup's newest wgmma groups are unfinished; return `sums`."""

"""GPU models by name, with the properties that cuDNN needs to make plans for a GPU that this machine lacks.

The numbers are NVIDIA's (data sheets, and the table of compute capabilities in the CUDA programming guide). Only the
compute capability and shared memory determine which graphs cuDNN can run; its ranking of engines also uses the others.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from numbacc_bindings.driver import DeviceAttribute

from ..base.dispatch import runtime
from ..errors import unknown


class Gpu(NamedTuple):
    """A GPU model.

    Attributes:
        name: as its driver reports it.
        capability: its compute capability.
        multiprocessors: number of multiprocessors.
        threads, blocks: the most that can be resident on a multiprocessor.
        shared: the most bytes of shared memory that a block may request.
        l2: bytes of the L2 cache.
        memory: bytes of memory.
        bus: bits of the memory's interface.
        clock, memory_clock: in kHz.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    threads: int
    blocks: int
    shared: int
    l2: int
    memory: int
    bus: int
    clock: int
    memory_clock: int

    def to_json(self) -> str:
        """Return the properties in the form of cuDNN's CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION."""
        major, minor = self.capability
        properties = {
            "maxGridSize": [2**31 - 1, 65535, 65535],
            "maxBlockSize": [1024, 1024, 64],
            "regsPerBlock": 65536,
            "multiProcessorCount": self.multiprocessors,
            "smCountOrigin": 0,
            "warpSize": 32,
            "maxSharedMemoryPerBlock": 49152,
            "maxSharedMemoryPerBlockOptin": self.shared,
            "oversizedSharedMemoryPerBlock": self.shared,
            "reservedSharedMemoryPerBlock": 1024 if major >= 8 else 0,
            "maxRegistersPerSM": 65536,
            "maxCtasPerSM": self.blocks,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerSM": self.threads,
            "pciDeviceId": 6,
            "isTccDriver": 0,
            "supportCoopLaunch": 1,
            "totalGlobalMem": self.memory,
            "smClockRateKHz": self.clock,
            "memClockRateKHz": self.memory_clock,
            "memoryBusWidth": self.bus,
            "l2CacheSize": self.l2,
            "cudaDeviceId": 0,
            "deviceVer": 100 * major + 10 * minor,
            "driverVer": 13000,
            "deviceName": self.name,
        }
        return json.dumps(properties, separators=(",", ":"))


_MIB, _GIB = 2**20, 2**30

#: The names that `gpu_named` accepts.
GPUS = {
    "T4": Gpu("Tesla T4", (7, 5), 40, 1024, 16, 65536, 4 * _MIB, 16 * _GIB, 256, 1590000, 5001000),
    "A100": Gpu("NVIDIA A100-SXM4-80GB", (8, 0), 108, 2048, 32, 166912, 40 * _MIB, 80 * _GIB, 5120, 1410000, 1593000),
    "A10": Gpu("NVIDIA A10", (8, 6), 72, 1536, 16, 101376, 6 * _MIB, 24 * _GIB, 384, 1695000, 6251000),
    "RTX3090": Gpu("NVIDIA GeForce RTX 3090", (8, 6), 82, 1536, 16, 101376, 6 * _MIB, 24 * _GIB, 384, 1695000, 9751000),
    "L4": Gpu("NVIDIA L4", (8, 9), 58, 1536, 24, 101376, 48 * _MIB, 24 * _GIB, 192, 2040000, 6251000),
    "L40S": Gpu("NVIDIA L40S", (8, 9), 142, 1536, 24, 101376, 96 * _MIB, 48 * _GIB, 384, 2520000, 9001000),
    "RTX4090": Gpu(
        "NVIDIA GeForce RTX 4090", (8, 9), 128, 1536, 24, 101376, 72 * _MIB, 24 * _GIB, 384, 2520000, 10501000
    ),
    "H100": Gpu("NVIDIA H100 80GB HBM3", (9, 0), 132, 2048, 32, 232448, 50 * _MIB, 80 * _GIB, 5120, 1980000, 2619000),
    "H200": Gpu("NVIDIA H200", (9, 0), 132, 2048, 32, 232448, 60 * _MIB, 150109880320, 6144, 1980000, 3201000),
    "B200": Gpu("NVIDIA B200", (10, 0), 148, 2048, 32, 232448, 126 * _MIB, 180 * _GIB, 8192, 1965000, 3996000),
    "RTX5090": Gpu(
        "NVIDIA GeForce RTX 5090", (12, 0), 170, 1536, 24, 101376, 96 * _MIB, 32 * _GIB, 512, 2407000, 14001000
    ),
}


def gpu_named(name: str) -> Gpu:
    """Return a GPU by its name in `GPUS`, ignoring case, spaces and dashes.

    Raises:
        OptionError: the name is unknown.
    """
    plain = {key.upper(): gpu for key, gpu in GPUS.items()}
    found = plain.get(str(name).upper().replace(" ", "").replace("-", "").replace("_", ""))
    if found is None:
        raise unknown("device", name, GPUS, f"it is one of {', '.join(GPUS)}, or a GPU here, as cuda:0")
    return found


def gpu_here(device: int) -> Gpu:
    """Return a GPU of this process by its number."""

    def of(attribute: DeviceAttribute) -> int:
        found: int = runtime().device_attribute(attribute, device)
        return found

    return Gpu(
        name=runtime().device_name(device),
        capability=runtime().capability(device),
        multiprocessors=of(DeviceAttribute.MULTIPROCESSOR_COUNT),
        threads=of(DeviceAttribute.MAX_THREADS_PER_MULTIPROCESSOR),
        blocks=of(DeviceAttribute.MAX_BLOCKS_PER_MULTIPROCESSOR),
        shared=of(DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        l2=of(DeviceAttribute.L2_CACHE_SIZE),
        memory=runtime().memory_info(device)[1],
        bus=of(DeviceAttribute.GLOBAL_MEMORY_BUS_WIDTH),
        clock=of(DeviceAttribute.CLOCK_RATE),
        memory_clock=of(DeviceAttribute.MEMORY_CLOCK_RATE),
    )

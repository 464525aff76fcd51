"""The ranks of a program, as the environment variables of a launcher describe them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import OptionError

#: Names of (rank, number of ranks, rank on this host, number of ranks on this host), by launcher. Slurm sets the second
#: name for programs that srun starts only, and the others in batch scripts, too.
_LAUNCHERS = {
    "torchrun and numbacc": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
}  # fmt: skip
#: Variables that name one run of a launcher.
_RUNS = (
    "NUMBACC_RUN_ID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID",
)  # fmt: skip
#: Without MASTER_PORT, a run uses one of so many ports, from the first one on.
_FIRST_PORT, _PORTS = 20000, 10000
#: Where rank 0 may listen, counted from the port of the run: a launcher, such as torchrun, may use some of these ports.
ATTEMPTS = 8


class Ranks(NamedTuple):
    """The rank of this process, and the address where all ranks meet.

    Attributes:
        rank: the number of this process, from 0.
        world_size: the number of processes.
        local_rank: the number of this process on its host, from 0.
        host, port: the address of rank 0. Without a host, `file` is used.
        run: a text that is the same for all processes of the run, and no other.
        file: a file that all processes share, where rank 0 writes its address; or "".
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    host: str = ""
    port: int = 0
    run: str = ""
    file: str = ""


def ranks(
    rank: int | None = None,
    world_size: int | None = None,
    local_rank: int | None = None,
    address: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ranks:
    """Return this process's ranks, from arguments, or from the environment where they are None.

    Args:
        rank, world_size, local_rank: see `Ranks`. Rank and world size belong together.
        address: "host:port" of rank 0, or "file:///path" of a file that all processes share.
        environment: variables instead of `os.environ`.

    Raises:
        OptionError: a number is missing or out of range, or the address of rank 0 is unknown.
    """
    variables = os.environ if environment is None else environment
    names: tuple[str, ...] = ()
    if (rank is None) != (world_size is None):
        raise OptionError("rank and world_size belong together: pass both, or neither")
    if rank is None or world_size is None:
        names = next((each for each in _LAUNCHERS.values() if each[0] in variables and each[1] in variables), ())
        if not names:
            return Ranks()
        rank, world_size = (_number(variables, name) for name in names[:2])
        if local_rank is None and names[2] in variables:
            local_rank = _number(variables, names[2])
    if world_size < 1 or not 0 <= rank < world_size:
        raise OptionError(f"rank {rank} of {world_size} ranks does not exist: ranks are numbered from 0")
    local = rank if local_rank is None else local_rank
    if local < 0:
        raise OptionError(f"local_rank={local} is out of range: it must be at least 0")
    run = next((variables[name] for name in _RUNS if variables.get(name)), "")
    if world_size == 1:
        return Ranks(local_rank=0 if local_rank is None else local)
    address = variables.get("NUMBACC_RENDEZVOUS", "") if address is None else address
    if address.startswith("file://"):
        return Ranks(rank, world_size, local, run=run, file=address.removeprefix("file://"))
    host, port = _address(address, variables, run, world_size, names)
    return Ranks(rank, world_size, local, host, port, run)


def _number(variables: Mapping[str, str], name: str) -> int:
    try:
        return int(variables[name])
    except ValueError:
        raise OptionError(
            f"the environment variable {name} is {variables[name]!r}; it must be a whole number"
        ) from None


def _address(
    address: str, variables: Mapping[str, str], run: str, world_size: int, names: tuple[str, ...]
) -> tuple[str, int]:
    """Return the host of rank 0, and the first port that it may use."""
    host, _, text = address.rpartition(":") if address else ("", "", "")
    if address and (not host or not text.isdecimal()):
        raise OptionError(f'address={address!r} must be "host:port", as "10.0.0.1:29500", or "file:///path"')
    host = host or variables.get("MASTER_ADDR", "") or _first_of_slurm(variables)
    if not host:
        here = variables.get(names[3], "") if names else ""
        if here.isdecimal() and int(here) != world_size:
            raise OptionError(
                f"{here} of {world_size} ranks run on this host, and the address of rank 0 is unknown: set MASTER_ADDR "
                "(and MASTER_PORT) in all processes"
            )
        host = "127.0.0.1"
    if not text:
        text = variables.get("MASTER_PORT", "")
    if text:
        if not text.isdecimal() or not 0 < int(text) < 2**16:
            raise OptionError(f"MASTER_PORT is {text!r}; it must be a number from 1 to 65535")
        # torchrun itself listens at MASTER_PORT.
        return host, int(text) + ("TORCHELASTIC_RUN_ID" in variables and not address)
    digest = hashlib.sha256(run.encode()).digest()
    return host, _FIRST_PORT + int.from_bytes(digest[:4], "little") % _PORTS


def _first_of_slurm(variables: Mapping[str, str]) -> str:
    """Return the first host of a Slurm step that has several, or ""."""
    listed = variables.get("SLURM_STEP_NODELIST", "")
    if "SLURM_STEP_NUM_TASKS" not in variables or variables.get("SLURM_STEP_NUM_NODES", "1") == "1":
        return ""
    # node[01-03,07],other -> node01
    found = re.match(r"([^,\[]+)(?:\[([^\],\-]+))?", listed)
    return "" if found is None else found[1] + (found[2] or "")

"""Which rank a process is: from arguments, and from the variables of each launcher."""

from __future__ import annotations

import pytest

from numbacc.distributed.environment import Ranks, ranks
from numbacc.errors import OptionError

#: Launcher -> the variables that it sets, and the ranks that follow from them.
LAUNCHERS = {
    "torchrun": (
        {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "h", "MASTER_PORT": "29500",
         "TORCHELASTIC_RUN_ID": "none"},
        Ranks(1, 2, 1, "h", 29501, "none"),  # torchrun itself listens at 29500
    ),
    "numbacc": (
        {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1",
         "NUMBACC_RUN_ID": "abc"},
        Ranks(5, 8, 1, "10.0.0.1", 1, "abc"),
    ),
    "mpirun on one host": (
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
         "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_PORT": "7"},
        Ranks(1, 2, 1, "127.0.0.1", 7, ""),
    ),
    "mpirun on several hosts": (
        {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
         "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "7"},
        Ranks(3, 4, 1, "a", 7, ""),
    ),
    "MPICH": (
        {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MASTER_PORT": "9"},
        Ranks(1, 2, 1, "127.0.0.1", 9, ""),
    ),
    "srun on several hosts": (
        {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_NODES": "2",
         "SLURM_STEP_NODELIST": "node[03-04,7]", "MASTER_PORT": "9"},
        Ranks(3, 4, 1, "node03", 9, ""),
    ),
    "a file": (
        {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "NUMBACC_RENDEZVOUS": "file:///shared/meet"},
        Ranks(1, 2, 0, file="/shared/meet"),
    ),
    "a batch script, which srun did not start": ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, Ranks()),
    "nothing": ({}, Ranks()),
    "one rank": ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}, Ranks()),
}  # fmt: skip


def test_each_launchers_variables():
    for name, (variables, expected) in LAUNCHERS.items():
        assert ranks(environment=variables) == expected, name


def test_arguments_win():
    variables, _ = LAUNCHERS["torchrun"]
    assert ranks(2, 3, 1, "there:80", variables) == Ranks(2, 3, 1, "there", 80, "none")
    assert ranks(2, 3, environment={}).local_rank == 2


def test_runs_without_a_port_get_ports_of_their_own():
    variables = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    ports = {ranks(environment={**variables, "SLURM_JOB_ID": str(job)}).port for job in range(50)}
    assert len(ports) > 45 and all(20000 <= port < 30000 for port in ports)


@pytest.mark.parametrize(
    "arguments, variables, words",
    [
        ({"rank": 1}, {}, "rank and world_size belong together"),
        ({"rank": 2, "world_size": 2}, {}, "rank 2 of 2 ranks does not exist"),
        ({"rank": 0, "world_size": 2, "local_rank": -1}, {}, "local_rank=-1"),
        ({"rank": 0, "world_size": 2, "address": "29500"}, {}, "host:port"),
        ({}, {"RANK": "x", "WORLD_SIZE": "2"}, "the environment variable RANK is 'x'"),
        ({}, {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "70000"}, "MASTER_PORT is '70000'"),
        (
            {},
            {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            "2 of 4 ranks run on this host, and the address of rank 0 is unknown: set MASTER_ADDR",
        ),
    ],
)
def test_messages(arguments, variables, words):
    with pytest.raises(OptionError, match=words):
        ranks(**arguments, environment=variables)

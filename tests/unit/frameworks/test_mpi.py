"""What the launch programs get: tasks as hosts, with their slots and their daemons' addresses."""

from __future__ import annotations

import pytest

from tests.unit.frameworks.contract import APPLICATION, job, placed
from yarnam.errors import BadSpec
from yarnam.wire.rendezvous import environments


@pytest.mark.parametrize(("size", "slots"), [({"gpus": 2}, 2), ({"vcores": 3}, 3)])
def test_a_task_is_a_host_with_a_slot_for_each_gpu_or_else_vcore(
    size: dict[str, int], slots: int
) -> None:
    made = job("mpi", roles={"worker": {"tasks": 3, **size}})
    assert made.roles[0].processes_per_task == 1
    hosts = ",".join(f"worker-{index}:{slots}" for index in range(3))
    for ((env),) in environments(made, placed(made), 1, APPLICATION):
        assert env["YARNAM_MPI_HOSTS"] == hosts
        assert env["YARNAM_MPI_DAEMONS"] == "10.0.0.1:61001,10.0.0.1:61101,10.0.0.2:61201"


def test_its_port_is_not_for_the_job() -> None:
    with pytest.raises(BadSpec, match="the port name launch is reserved"):
        job("mpi", roles={"worker": {}}, ports=["launch"])

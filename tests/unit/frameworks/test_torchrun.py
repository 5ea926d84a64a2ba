"""torchrun's options, as its PET_ variables (schedulers of torch/distributed/run.py)."""

from __future__ import annotations

import pytest

from tests.unit.frameworks.contract import job, variables
from yarnam.errors import BadSpec

ROLES = {"worker": {"tasks": 3, "gpus": 2, "vcores": 8}}


def test_one_torchrun_in_each_task() -> None:
    made = job("torchrun", roles=ROLES)
    assert made.roles[0].processes_per_task == 1
    assert variables("torchrun", roles=ROLES) == [
        {
            "PET_NNODES": "3",
            "PET_NODE_RANK": str(number),
            "PET_NPROC_PER_NODE": "2",
            "PET_MASTER_ADDR": "10.0.0.1",
            "PET_MASTER_PORT": "61000",
            "PET_RDZV_BACKEND": "static",
            "PET_RDZV_ID": "application_7_1",
            "OMP_NUM_THREADS": "4",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
            "TORCH_NCCL_TRACE_BUFFER_SIZE": "512",
        }
        for number in range(3)
    ]


def test_without_gpus_one_process_unless_the_job_says_more() -> None:
    roles = {"worker": {"tasks": 1, "vcores": 4}}
    (env,) = variables("torchrun", roles=roles)
    assert (env["PET_NPROC_PER_NODE"], env["OMP_NUM_THREADS"]) == ("1", "4")
    (env,) = variables("torchrun", roles=roles, env={"PET_NPROC_PER_NODE": "4"})
    assert "PET_NPROC_PER_NODE" not in env


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"gpus": 4}, "gpus: framework torchrun starts the processes of a task itself: use roles"),
        (
            {"roles": {"worker": {"gpus": 4, "processes_per_task": 2}}},
            "processes_per_task: framework torchrun starts the processes of a task itself: remove",
        ),
        ({"roles": {"a": {}, "b": {}}}, "use one role"),
    ],
)
def test_what_torchrun_decides_is_not_for_the_spec(keys: dict[str, object], message: str) -> None:
    with pytest.raises(BadSpec, match=message):
        job("torchrun", **keys)

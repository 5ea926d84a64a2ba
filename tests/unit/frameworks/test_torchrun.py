"""torchrun's options, as its PET_ variables (schedulers of torch/distributed/run.py)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.frameworks.contract import APPLICATION, job, placed, variables
from yarnam.core.model.ids import PRE_RUN_ROLE, TaskId
from yarnam.errors import BadSpec
from yarnam.wire.rendezvous import environments

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


IN_PLACE = {
    "roles": {"worker": {"tasks": {"min": 2, "max": 3}, "gpus": 2, "vcores": 8}},
    "elastic": {"restart": False},
}


def test_in_an_in_place_gang_the_torchruns_find_each_other() -> None:
    first, *others = variables("torchrun", attempt=2, **IN_PLACE)
    assert first == {
        "PET_NNODES": "2:3",
        "PET_NPROC_PER_NODE": "2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "10.0.0.1:61000",
        "PET_RDZV_ID": "application_7_1.2",
        "PET_RDZV_CONF": "is_host=1,last_call_timeout=5,read_timeout=300",
        "PET_LOCAL_ADDR": "10.0.0.1",
        "PET_MAX_RESTARTS": "20",
        "OMP_NUM_THREADS": "4",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "512",
    }
    confs = {env["PET_RDZV_CONF"] for env in others}
    assert confs == {"is_host=0,last_call_timeout=5,read_timeout=300"}
    assert [env["PET_LOCAL_ADDR"] for env in others] == ["10.0.0.1", "10.0.0.2"]
    (env, *_) = variables("torchrun", env={"PET_MAX_RESTARTS": "3"}, **IN_PLACE)
    assert "PET_MAX_RESTARTS" not in env


def test_a_pre_run_of_an_in_place_gang_is_alone() -> None:
    made = job("torchrun", **IN_PLACE)
    (first, *_) = placed(made)
    alone = replace(first, task=TaskId(PRE_RUN_ROLE, 0))
    ((env,),) = environments(made, [alone], 1, APPLICATION)
    assert (env["PET_NNODES"], env["PET_RDZV_BACKEND"]) == ("1", "static")


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

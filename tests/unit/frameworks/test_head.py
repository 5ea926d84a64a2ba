"""Frameworks with a server beside rank 0: XGBoost, Horovod, Dask and Ray."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.frameworks.contract import APPLICATION, job, placed, variables
from yarnam.core.frameworks.registry import framework_named
from yarnam.errors import BadSpec
from yarnam.wire.rendezvous import environments

THREE = {"worker": {"tasks": 3, "gpus": 2, "vcores": 8, "memory": "10GiB"}}


def heads(framework: str, **keys: Any) -> list[dict[str, Any]]:
    """What the program around the command is told, by rank."""
    made = job(framework, **keys)
    envs = environments(made, placed(made), 2, APPLICATION)
    return [json.loads(env["YARNAM_HEAD"]) for task in envs for env in task]


def test_xgboosts_tracker_is_beside_rank_0_and_gives_ranks_by_task_id() -> None:
    envs = variables("xgboost", roles={"worker": {"tasks": 6, "gpus": 2, "vcores": 8}})
    assert {env["DMLC_TRACKER_URI"] for env in envs} == {"10.0.0.1"}
    assert {env["DMLC_TRACKER_PORT"] for env in envs} == {"61001"}
    assert {env["DMLC_NUM_WORKER"] for env in envs} == {"12"}
    ids = [env["DMLC_TASK_ID"] for env in envs]
    assert ids[:2] == ["00", "01"]
    assert sorted(ids) == ids, "the tracker compares them as text"
    assert {env["OMP_NUM_THREADS"] for env in envs} == {"4"}
    first, *others = heads("xgboost", roles=THREE)
    assert first["is_head"]
    assert first["server"][:2] == ["python", "-c"]
    assert first["server"][3:] == ["10.0.0.1", "61002", "6"], "of the second attempt"
    assert first["server_at"] == "10.0.0.1:61002"
    assert not [other for other in others if other["is_head"] or other["server"]]
    assert {other["at"] for other in others} == {"10.0.0.1:61000"}
    assert not [head for head in (first, *others) if head["worker"]], "all run the command"


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_a_server_that_cannot_bind_a_held_port_has_one_that_is_let_go_of(name: str) -> None:
    framework = framework_named(name)
    assert framework.bare_ports
    assert set(framework.bare_ports) <= set(framework.ports)
    worker = {"gpus": 1, "ready": {"port": framework.bare_ports[0]}}
    board = {"service": True, "after": {"role": "worker", "until": "ready"}}
    with pytest.raises(BadSpec, match=f"the role has no port {framework.bare_ports[0]}"):
        job(name, roles={"worker": worker, "board": board})


def test_horovods_variables_and_its_store() -> None:
    envs = variables("horovod", roles=THREE)
    assert envs[3] == {
        "HOROVOD_HOSTNAME": "worker-1",
        "HOROVOD_RANK": "3",
        "HOROVOD_SIZE": "6",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "3",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "61001",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "300",
        "OMP_NUM_THREADS": "4",
    }
    first, *_ = heads("horovod", roles=THREE)
    assert first["server"] == ["yarnam:gloo_rendezvous", "10.0.0.1", "61001"]


def test_in_an_in_place_gang_horovods_ranks_are_the_stores_to_give() -> None:
    in_place = {
        "roles": {"worker": {"tasks": {"min": 1, "max": 3}, "gpus": 2, "vcores": 8}},
        "elastic": {"restart": False},
    }
    envs = variables("horovod", **in_place)
    assert envs[3] == {
        "HOROVOD_HOSTNAME": "a1.worker.1",
        "HOROVOD_ELASTIC": "1",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "61001",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "120",
        "OMP_NUM_THREADS": "4",
    }
    first, *_, last = heads("horovod", **in_place)
    assert first["server"] == ["yarnam:gloo_rendezvous", "10.0.0.1", "61001", "elastic"]
    assert last["asks"] == {
        "at": "10.0.0.1:61001",
        "path": "/rank_and_size/a1.worker.2:1",
        "names": [
            *("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
            *("HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE"),
        ],
    }


def test_horovods_groups_across_tasks_of_unequal_sizes() -> None:
    made = job("horovod", roles={"worker": {"tasks": 3, "gpus": 2}})

    members = list(placed(made))
    members[1] = replace(members[1], placed=replace(members[1].placed, processes=1))
    envs = [env for task in environments(made, members, 1, APPLICATION) for env in task]
    across = [(env["HOROVOD_CROSS_RANK"], env["HOROVOD_CROSS_SIZE"]) for env in envs]
    assert across == [("0", "3"), ("0", "2"), ("1", "3"), ("2", "3"), ("1", "2")]


def test_dasks_scheduler_and_a_worker_in_each_task() -> None:
    (env, *_) = variables("dask", roles=THREE)
    assert env == {"DASK_SCHEDULER_ADDRESS": "tcp://10.0.0.1:61001"}
    first, _, third = heads("dask", roles=THREE)
    assert first["server"][1:] == [
        *("-m", "dask", "scheduler", "--host", "10.0.0.1", "--port", "61001", "--no-dashboard"),
    ]
    assert third["worker"] == [
        *("python", "-m", "dask", "worker", "tcp://10.0.0.1:61001", "--host", "10.0.0.2"),
        *("--name", "worker-2", "--nthreads", "8", "--memory-limit", "8192MiB"),
        *("--death-timeout", "60", "--no-dashboard", "--resources", "GPU=2"),
    ]
    assert first["worker"][6] == "10.0.0.1", "the first task works too"


def test_rays_head_and_a_raylet_in_every_other_task() -> None:
    (env, *_) = variables("ray", roles=THREE)
    assert env == {"RAY_ADDRESS": "10.0.0.1:61001", "RAY_USAGE_STATS_ENABLED": "0"}
    first, _, third = heads("ray", roles=THREE)
    own = ["--num-cpus=8", "--num-gpus=2", "--object-store-memory=3221225472"]
    assert {"--head", "--port=61001", "--node-ip-address=10.0.0.1", *own} <= {*first["server"]}
    assert not first["worker"], "the head is a raylet itself"
    assert {"--address=10.0.0.1:61001", "--node-ip-address=10.0.0.2", *own} <= {*third["worker"]}
    # Of the attempt: what is left of another one is nobody's business.
    made = job("ray", roles=THREE)
    envs = [env for task in environments(made, placed(made), 2, APPLICATION) for env in task]
    assert {env["YARNAM_SCRATCH"] for env in envs} == {"/tmp/ray-7_1.2"}
    assert "--temp-dir=/tmp/ray-7_1.2" in first["server"]


def test_the_sockets_of_ray_have_room_in_a_path() -> None:
    """Ray's longest: its session's directory (a name with date, microseconds and pid)."""
    made = job("ray", roles=THREE)
    application = f"application_{'1' * 13}_{'2' * 6}"
    ((env,), *_) = environments(made, placed(made), 999, application)
    scratch = env["YARNAM_SCRATCH"]
    session = "session_2026-01-31_23-59-59_999999_4194304/sockets/plasma_store.1"
    assert len(f"{scratch}/{session}") < 107


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_the_command_runs_once_so_a_task_has_no_processes(name: str) -> None:
    with pytest.raises(BadSpec, match=f"framework {name} starts the processes of a task itself"):
        job(name, gpus=4)

"""Every environment contract, from one placement table.

::

    rank  role    index  local  node   rack    address     coordinator  task ports
    0, 1  worker  0      0, 1   n1     /rack1  10.0.0.1    61000        61001, 61002
    2, 3  worker  1      0, 1   n1     /rack1  10.0.0.1    61010        61011, 61012
    4, 5  worker  2      0, 1   n2     /rack2  10.0.0.2    61020        61021, 61022
    6     evaluator 0    0      n3     /rack2  10.0.0.3    61040        61041
    7     ps      0      0      n3     /rack2  10.0.0.3    61030        61031

The parameter server is a service: the world is the seven before it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.frameworks.gang_table import first_ranks
from yarnam.core.frameworks.registry import framework_named
from yarnam.core.model.actions import GangMember
from yarnam.core.model.ids import PRE_RUN_ROLE, AskId, NodeId, RackId, TaskId
from yarnam.core.model.job_spec import (
    CheckpointSpec,
    DataInput,
    JobSpec,
    PreRunMode,
    PreRunSpec,
    RetrySpec,
    RoleSpec,
)
from yarnam.core.model.plans import Placed
from yarnam.core.model.resources import Resources
from yarnam.errors import InternalError
from yarnam.wire.protocol import ENV_COPY_HOLDERS, ENV_COPY_PEER, PORT_OF_COPIES
from yarnam.wire.rendezvous import environments

SIZE = Resources(memory_mib=4096, vcores=8, gpus=2)
ROLES = (
    RoleSpec("worker", 3, SIZE, ("python", "train.py"), 2, ports=("metrics",)),
    RoleSpec("ps", 1, Resources(2048, 2), ("python", "train.py")),
    RoleSpec("evaluator", 1, Resources(2048, 2), ("python", "train.py")),
)
JOB = JobSpec(
    name="digits",
    queue="root.ml",
    user="ann",
    framework="command",
    roles=ROLES,
    inputs=(DataInput("train-set", "hdfs://nn/data/train"),),
    output="hdfs://nn/out",
    checkpoint=CheckpointSpec("hdfs://nn/ckpt", keep=5),
    retry=RetrySpec(max_restarts=4),
)


def member(role: str, index: int, node: int, rack: int, port: int, processes: int) -> GangMember:
    ports = [("coordinator", port)]
    for local in range(processes):
        ports += [(f"task.{local}", port + 1 + local), (f"metrics.{local}", port + 5 + local)]
    placed = Placed(
        role,
        NodeId(f"n{node}"),
        RackId(f"/rack{rack}"),
        processes=processes,
        address=f"10.0.0.{node}",
        ports=tuple(ports),
    )
    return GangMember(AskId(1, role, index), TaskId(role, index), placed)


TABLE = (
    member("worker", 0, 1, 1, 61000, 2),
    member("worker", 1, 1, 1, 61010, 2),
    member("worker", 2, 2, 2, 61020, 2),
    member("evaluator", 0, 3, 2, 61040, 1),
    member("ps", 0, 3, 2, 61030, 1),
)


def by_rank(framework: str, attempt: int = 1, **changes: object) -> list[dict[str, str]]:
    job = replace(JOB, framework=framework, **changes)
    return [env for task in environments(job, TABLE, attempt, "application_7_1") for env in task]


def column(envs: list[dict[str, str]], name: str) -> list[str]:
    return [env[name] for env in envs]


def sdk(env: dict[str, str]) -> dict[str, Any]:
    return dict(json.loads(env["YARNAM_SDK"]))


def test_generic_variables_of_every_rank() -> None:
    envs = by_rank("command")
    assert column(envs, "YARNAM_RANK") == list("01234567")
    assert column(envs, "YARNAM_LOCAL_RANK") == list("01010100")
    assert column(envs, "YARNAM_LOCAL_WORLD_SIZE") == list("22222211")
    assert column(envs, "YARNAM_GROUP_RANK") == list("00112234")
    assert column(envs, "YARNAM_NODE_RANK") == list("00001122")
    assert column(envs, "YARNAM_TASK_INDEX") == list("00112200")
    assert column(envs, "YARNAM_ROLE_RANK") == list("01234500")
    assert column(envs, "YARNAM_ROLE_WORLD_SIZE") == list("66666611")
    assert column(envs, "YARNAM_ROLE") == ["worker"] * 6 + ["evaluator", "ps"]
    same = {
        "YARNAM_WORLD_SIZE": "7",
        "YARNAM_GROUP_WORLD_SIZE": "4",
        "YARNAM_NUM_NODES": "3",
        "YARNAM_ATTEMPT": "1",
        "YARNAM_JOB_NAME": "digits",
        "YARNAM_APPLICATION_ID": "application_7_1",
        "YARNAM_COORDINATOR_ADDRESS": "10.0.0.1:61000",
        "YARNAM_COORDINATOR_HOST": "10.0.0.1",
        "YARNAM_COORDINATOR_PORT": "61000",
        "YARNAM_HOSTS": "10.0.0.1,10.0.0.1,10.0.0.2,10.0.0.3",
        "YARNAM_INPUT_TRAIN_SET": "hdfs://nn/data/train",
        "YARNAM_OUTPUT_TARGET": "hdfs://nn/out",
        "YARNAM_CHECKPOINT_DIR": "hdfs://nn/ckpt",
        "YARNAM_CHECKPOINT_KEEP": "5",
        "YARNAM_CHECKPOINT_TOKEN": "application_7_1:1",
    }
    for name, value in same.items():
        assert set(column(envs, name)) == {value}, name
    # A place of each task's own, which its processes share.
    place = "hdfs://nn/.out.application_7_1/attempt-1"
    tasks = ["worker-0", "worker-0", "worker-1", "worker-1", "worker-2", "worker-2"]
    expected = [f"{place}/{task}" for task in (*tasks, "evaluator-0", "ps-0")]
    assert column(envs, "YARNAM_OUTPUT") == expected
    workers = envs[:6]
    ports = column(workers, "YARNAM_PORT_METRICS")
    assert ports == ["61005", "61006", "61015", "61016", "61025", "61026"]
    assert workers[3]["YARNAM_ADDRESSES_METRICS"].split(",")[2:5] == [
        "10.0.0.1:61015",
        "10.0.0.1:61016",
        "10.0.0.2:61025",
    ]
    assert "YARNAM_PORT_METRICS" not in envs[6]
    assert column(envs, "YARNAM_ADDRESS")[3:6] == ["10.0.0.1", "10.0.0.2", "10.0.0.2"]


def test_what_the_spec_says_of_checkpoints() -> None:
    checkpoint = CheckpointSpec(
        "hdfs://nn/c", 2, True, 500, 5000, "top,5", "max", 2, "700", 60.5, 1024
    )
    env = by_rank("command", attempt=3, checkpoint=checkpoint)[0]
    found = {name[18:]: value for name, value in env.items() if name[:18] == "YARNAM_CHECKPOINT_"}
    assert found == {"DIR": "hdfs://nn/c", "KEEP": "2", "TOKEN": "application_7_1:3"}
    assert sdk(env)["checkpoint"] == {
        "keep": 2,
        "keep_every": 5000,
        "best": {"metric": "top,5", "mode": "max", "keep": 2},
        "every": 500,
        "background": True,
        "restore": "700",
        "spool_limit_s": 60.5,
        "spool_max_mib": 1024,
        "mirror": "",
    }
    none = by_rank("command", checkpoint=CheckpointSpec())[0]
    assert not [name for name in none if name.startswith("YARNAM_CHECKPOINT_")]
    assert sdk(none)["checkpoint"] is None


def with_holder(one: GangMember) -> GangMember:
    ports = (*one.placed.ports, (PORT_OF_COPIES, 7000 + one.task.index))
    return replace(one, placed=replace(one.placed, ports=ports))


def test_agents_learn_where_copies_of_checkpoints_go() -> None:
    checkpoint = CheckpointSpec("hdfs://nn/c", in_memory=True)
    members = (*map(with_holder, TABLE[:3]), *TABLE[3:])
    made = environments(replace(JOB, checkpoint=checkpoint), members, 1, "application_7_1")
    tasks = [envs[0] for envs in made]
    every = "10.0.0.1:7000,10.0.0.1:7001,10.0.0.2:7002"
    assert {env[ENV_COPY_HOLDERS] for env in tasks} == {every}
    peers = column(tasks, ENV_COPY_PEER)
    assert peers[:2] == ["10.0.0.2:7002"] * 2, "node 1 has two of three tasks"
    assert peers[2] in every.split(",")[:2]
    assert peers[3:] == ["", ""], "evaluator and ps have no holder"
    without = environments(JOB, members, 1, "application_7_1")[0][0]
    assert ENV_COPY_HOLDERS not in without


def test_shares_of_the_inputs_go_to_the_processes_that_read_them() -> None:
    shares = [sdk(env)["input_share"] for env in by_rank("command")]
    assert shares == [*([n, 6] for n in range(6)), None, None]


def test_a_plain_command_gets_no_frameworks_variables() -> None:
    for env in by_rank("command"):
        assert all(name.startswith("YARNAM_") for name in env)


def test_jax() -> None:
    *envs, service = by_rank("jax")
    assert not [name for name in service if "PROCESS" in name]
    assert set(column(envs, "JAX_COORDINATOR_ADDRESS")) == {"10.0.0.1:61000"}
    assert envs[0]["JAX_COORDINATOR_BIND_ADDRESS"] == "10.0.0.1:61000"
    assert not [env for env in envs[1:] if "JAX_COORDINATOR_BIND_ADDRESS" in env]
    assert column(envs, "JAX_PROCESS_ID") == column(envs, "PROCESS_ID") == list("0123456")
    assert set(column(envs, "JAX_NUM_PROCESSES")) == set(column(envs, "NUM_PROCESSES")) == {"7"}
    # Kubeflow's JAXJob: host and port apart.
    assert set(column(envs, "COORDINATOR_ADDRESS")) == {"10.0.0.1"}
    assert set(column(envs, "COORDINATOR_PORT")) == {"61000"}
    assert not {"RANK", "TF_CONFIG"} & envs[0].keys()


def test_pytorch() -> None:
    *envs, service = by_rank("pytorch", attempt=3)
    assert "RANK" not in service
    assert set(column(envs, "MASTER_ADDR")) == {"10.0.0.1"}
    assert set(column(envs, "MASTER_PORT")) == {"61000"}
    assert column(envs, "RANK") == list("0123456")
    assert set(column(envs, "WORLD_SIZE")) == {"7"}
    assert column(envs, "LOCAL_RANK") == list("0101010")
    assert column(envs, "LOCAL_WORLD_SIZE") == list("2222221")
    assert column(envs, "GROUP_RANK") == list("0011223")
    assert set(column(envs, "GROUP_WORLD_SIZE")) == {"4"}
    assert column(envs, "ROLE_RANK") == list("0123450")
    assert column(envs, "ROLE_WORLD_SIZE") == list("6666661")
    assert column(envs, "ROLE_NAME") == ["worker"] * 6 + ["evaluator"]
    assert set(column(envs, "TORCHELASTIC_RESTART_COUNT")) == {"2"}
    assert set(column(envs, "TORCHELASTIC_MAX_RESTARTS")) == {"4"}
    assert set(column(envs, "TORCHELASTIC_RUN_ID")) == {"application_7_1"}
    assert set(column(envs, "TORCHELASTIC_USE_AGENT_STORE")) == {"False"}
    assert column(envs, "OMP_NUM_THREADS") == ["4"] * 6 + ["2"]
    assert set(column(envs, "TORCH_NCCL_ASYNC_ERROR_HANDLING")) == {"1"}


def test_defaults_give_way_to_what_the_job_sets() -> None:
    envs = by_rank("pytorch", env=(("OMP_NUM_THREADS", "7"),))
    assert "OMP_NUM_THREADS" not in envs[0]
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in envs[0]


def test_tf_config() -> None:
    configs = [json.loads(env["TF_CONFIG"]) for env in by_rank("tensorflow")]
    cluster = {
        "worker": [
            "10.0.0.1:61001",
            "10.0.0.1:61002",
            "10.0.0.1:61011",
            "10.0.0.1:61012",
            "10.0.0.2:61021",
            "10.0.0.2:61022",
        ],
        "ps": ["10.0.0.3:61031"],
    }
    assert all(config["cluster"] == cluster for config in configs), "the evaluator is outside"
    tasks = [(config["task"]["type"], config["task"]["index"]) for config in configs]
    assert tasks == [
        *(("worker", number) for number in range(6)),
        ("evaluator", 0),
        ("ps", 0),
    ]


def test_addresses_of_ipv6_are_bracketed() -> None:
    first = replace(TABLE[0], placed=replace(TABLE[0].placed, address="fd00::1"))
    job = replace(JOB, framework="jax")
    ((env, _),) = environments(job, (first,), 1)
    assert env["JAX_COORDINATOR_ADDRESS"] == "[fd00::1]:61000"
    assert env["COORDINATOR_ADDRESS"] == "fd00::1"


def test_missing_port_is_a_fault_with_a_name() -> None:
    bare = replace(TABLE[0], placed=replace(TABLE[0].placed, ports=()))
    with pytest.raises(InternalError, match=r"worker-0 holds no port 'coordinator'"):
        environments(JOB, (bare, *TABLE[1:]), 1)


def test_no_members_no_environments() -> None:
    assert environments(JOB, (), 1) == ()


def test_names_of_held_ports() -> None:
    assert framework_named("jax").port_names((), 4) == ("coordinator",)
    assert framework_named("tensorflow").port_names(("web",), 2) == (
        "coordinator",
        "task.0",
        "web.0",
        "task.1",
        "web.1",
    )


@given(st.lists(st.integers(1, 8), min_size=1, max_size=12))
def test_ranks_are_contiguous_whatever_the_shape(processes: list[int]) -> None:
    members = [
        member("worker", index, index // 2, 1, 61000, count)
        for index, count in enumerate(processes)
    ]
    ports = tuple(
        (name, 1) for name in framework_named("command").port_names(("metrics",), max(processes))
    )
    members = [replace(each, placed=replace(each.placed, ports=ports)) for each in members]
    envs = environments(JOB, members, 1)
    assert [len(task) for task in envs] == processes
    ranks = [int(env["YARNAM_RANK"]) for task in envs for env in task]
    assert ranks == list(range(sum(processes)))
    assert [int(task[0]["YARNAM_RANK"]) for task in envs] == list(first_ranks(members))
    for task in envs:
        assert [env["YARNAM_LOCAL_RANK"] for env in task] == [str(n) for n in range(len(task))]


def test_an_optional_role_has_no_share_of_the_inputs() -> None:
    extra = RoleSpec("extra", 1, Resources(2048, 2), ("run",), optional=True)
    worker = next(role for role in JOB.roles if role.name == "worker")
    job = replace(JOB, roles=(worker, extra))
    table = (*TABLE[:3], member("extra", 0, 3, 2, 61050, 1))
    envs = [env for task in environments(job, table, 1) for env in task]
    assert [sdk(env)["input_share"] for env in envs] == [*([n, 6] for n in range(6)), None]
    due = replace(job, pre_run=PreRunSpec(PreRunMode.ALWAYS, is_due=True))
    [[env]] = environments(due, [member(PRE_RUN_ROLE, 0, 1, 1, 61000, 1)], 1, "a")
    assert sdk(env)["input_share"] == [0, 6]


def test_a_pre_run_is_rank_0_of_one_with_a_share_and_checkpoints_of_its_own() -> None:
    job = replace(JOB, pre_run=PreRunSpec(PreRunMode.ALWAYS, steps=7, is_due=True))
    job = replace(job, framework="tensorflow")
    [whole] = environments(job, [member(PRE_RUN_ROLE, 0, 1, 1, 61000, 1)], 1, "application_1_2")
    [env] = whole
    assert env["YARNAM_PRE_RUN"] == "1"
    assert (env["YARNAM_RANK"], env["YARNAM_WORLD_SIZE"]) == ("0", "1")
    assert (env["YARNAM_ROLE"], env["YARNAM_ROLE_WORLD_SIZE"]) == ("worker", "1")
    assert json.loads(env["TF_CONFIG"])["task"] == {"type": "worker", "index": 0}
    sdk = json.loads(env["YARNAM_SDK"])
    assert sdk["pre_run_steps"] == 7
    assert sdk["input_share"] == [0, 6], "as much as one of the six workers reads"
    assert env["YARNAM_CHECKPOINT_DIR"] == "hdfs://nn/ckpt/.pre-run.application_1_2"
    assert sdk["checkpoint"]["restore"] == "none"
    assert env["YARNAM_OUTPUT"].startswith("hdfs://nn/.out.application_1_2/attempt-1/")


def test_a_gang_after_a_pre_run_is_as_without() -> None:
    job = replace(JOB, pre_run=PreRunSpec(PreRunMode.ALWAYS, is_due=True))
    table = [member("worker", n, n, 1, 61000 + 10 * n, 2) for n in range(3)]
    assert environments(job, table, 2, "a") == environments(JOB, table, 2, "a")


def test_an_optional_role_is_not_in_the_world_and_a_frameworks_own_is_in_its_cluster() -> None:
    worker, _, evaluator = ROLES
    evaluator = replace(evaluator, optional=True)
    shown = RoleSpec("show", 1, Resources(2048, 2), ("show",), service=True)
    # One that the framework does not know stands before one that it does.
    table = (*TABLE[:3], member("show", 0, 3, 2, 61050, 1), TABLE[3])
    job = replace(JOB, framework="tensorflow", roles=(worker, shown, evaluator))
    envs = [env for task in environments(job, table, 1) for env in task]
    assert set(column(envs, "YARNAM_WORLD_SIZE")) == {"6"}
    assert "TF_CONFIG" not in envs[6]
    assert json.loads(envs[7]["TF_CONFIG"])["task"] == {"type": "evaluator", "index": 0}


@pytest.mark.parametrize("framework", ["pytorch", "jax", "tensorflow"])
def test_a_service_beside_the_training_is_not_in_its_world(framework: str) -> None:
    board = RoleSpec("board", 1, Resources(2048, 2), ("show",), service=True)
    worker = next(role for role in JOB.roles if role.name == "worker")
    job = replace(JOB, framework=framework, roles=(board, worker))
    table = (*TABLE[:3], member("board", 0, 3, 2, 61030, 1))
    *trained, [beside] = environments(job, table, 1, "application_7_1")
    alone = environments(replace(job, roles=(worker,)), TABLE[:3], 1, "application_7_1")
    names = {"WORLD_SIZE", "RANK", "NUM_PROCESSES", "TF_CONFIG"}
    for one, other in zip(trained, alone, strict=True):
        for mine, like in zip(one, other, strict=True):
            assert {n: mine.get(n) for n in names} == {n: like.get(n) for n in names}
    assert not names & set(beside)
    assert sdk(beside)["input_share"] is None
    assert {one[0]["YARNAM_WORLD_SIZE"] for one in trained} == {"6"}
    assert (beside["YARNAM_RANK"], beside["YARNAM_WORLD_SIZE"]) == ("6", "6")
    assert beside["YARNAM_HOSTS"] == "10.0.0.1,10.0.0.1,10.0.0.2"


def test_a_role_finds_the_ports_of_another() -> None:
    names = ("metrics",)
    ps = RoleSpec("ps", 1, Resources(2048, 2), ("serve",), ports=names)
    worker = RoleSpec("worker", 3, Resources(2048, 2), ("train",), 2)
    job = replace(JOB, framework="command", roles=(worker, ps))
    table = (*TABLE[:3], TABLE[4])
    both = environments(job, table, 1)
    assert both[0][0]["YARNAM_ADDRESSES_METRICS"] == "10.0.0.3:61035"
    assert "YARNAM_PORT_METRICS" not in both[0][0]
    own = environments(replace(job, roles=(replace(worker, ports=names), ps)), table, 1)
    assert own[0][0]["YARNAM_ADDRESSES_METRICS"].startswith("10.0.0.1:61005,10.0.0.1:61006")
    assert own[3][0]["YARNAM_ADDRESSES_METRICS"] == "10.0.0.3:61035"


def test_tonys_variables_beside_the_others() -> None:
    worker = RoleSpec("worker", 3, Resources(2048, 2), ("train",), 2)
    table = tuple(
        replace(one, placed=replace(one.placed, ports=(*one.placed.ports, *TONY_PORTS)))
        for one in TABLE[:3]
    )
    job = replace(JOB, framework="pytorch", roles=(worker,), compat="tony")
    envs = environments(job, table, 2, "application_7_1")
    env = envs[1][1]
    assert {name: env[name] for name in ("JOB_NAME", "TASK_INDEX", "TASK_NUM", "IS_CHIEF")} == {
        "JOB_NAME": "worker",
        "TASK_INDEX": "3",
        "TASK_NUM": "6",
        "IS_CHIEF": "false",
    }
    assert envs[0][0]["IS_CHIEF"] == "true"
    cluster = json.loads(env["CLUSTER_SPEC"])
    assert cluster["worker"][3] == "10.0.0.1:61012"
    assert (env["INIT_METHOD"], env["RANK"], env["WORLD"]) == ("tcp://10.0.0.1:61000", "3", "6")
    assert env["SESSION_ID"] == "1"
    with_port = [one["TB_PORT"] for of_member in envs for one in of_member if "TB_PORT" in one]
    assert with_port == ["7000"]
    assert envs[0][0]["TB_PORT"] == "7000"


def test_with_a_sidecar_only_tensorboard_has_tonys_port() -> None:
    small = Resources(2048, 2)
    roles = (
        RoleSpec("worker", 1, small, ("train",)),
        RoleSpec("tensorboard", 1, small, ("show",), service=True),
    )
    table = tuple(
        replace(
            one,
            task=replace(one.task, role=role.name, index=0),
            placed=replace(
                one.placed, role=role.name, processes=1, ports=(*one.placed.ports, *TONY_PORTS)
            ),
        )
        for one, role in zip(TABLE, roles, strict=False)
    )
    envs = environments(replace(JOB, framework="command", roles=roles, compat="tony"), table, 1)
    assert ["TB_PORT" in of_member[0] for of_member in envs] == [False, True]


TONY_PORTS = (("tony_tensorboard.0", 7000), ("tony_tensorboard.1", 7001))

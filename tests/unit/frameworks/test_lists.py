"""Frameworks that take the whole gang as a list: LightGBM and Paddle."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.frameworks.contract import APPLICATION, job, placed, variables
from yarnam.wire.rendezvous import environments

TWO = {"worker": {"tasks": 2, "gpus": 2, "vcores": 4}}
FOUR = "10.0.0.1:61001,10.0.0.1:61002,10.0.0.1:61101,10.0.0.1:61102"


def test_lightgbms_machines_are_the_processes_in_rank_order() -> None:
    envs = variables("lightgbm", roles=TWO)
    machines = "10.0.0.1:61001,10.0.0.1:61004,10.0.0.1:61101,10.0.0.1:61104"
    assert {env["LIGHTGBM_MACHINES"] for env in envs} == {machines}
    assert {env["LIGHTGBM_NUM_MACHINES"] for env in envs} == {"4"}
    ports = [env["LIGHTGBM_LOCAL_LISTEN_PORT"] for env in envs]
    assert ports == ["61001", "61004", "61101", "61104"]
    again = variables("lightgbm", attempt=2, roles=TWO)
    assert [env["LIGHTGBM_LOCAL_LISTEN_PORT"] for env in again] == [
        *("61002", "61005", "61102", "61105")
    ], "not those that the attempt before has left a minute ago"
    assert {env["OMP_NUM_THREADS"] for env in envs} == {"2"}


def test_lightgbm_on_an_embedded_cluster_has_the_address_of_the_interface() -> None:
    """It looks for itself among the interfaces, and 127.0.1.1 is none."""
    made = job("lightgbm", roles=TWO)
    members = [
        replace(one, placed=replace(one.placed, address=f"127.0.{number}.1"))
        for number, one in enumerate(placed(made), 1)
    ]
    ((first, *_), _) = environments(made, members, 1, APPLICATION)
    machines = "127.0.0.1:61001,127.0.0.1:61004,127.0.0.1:61101,127.0.0.1:61104"
    assert first["LIGHTGBM_MACHINES"] == machines


def test_paddles_endpoints() -> None:
    envs = variables("paddle", roles=TWO)
    assert envs[2] == {
        "PADDLE_MASTER": "10.0.0.1:61000",
        "PADDLE_TRAINER_ID": "2",
        "PADDLE_TRAINERS_NUM": "4",
        "PADDLE_TRAINER_ENDPOINTS": FOUR,
        "PADDLE_CURRENT_ENDPOINT": "10.0.0.1:61101",
        "PADDLE_RANK_IN_NODE": "0",
        "PADDLE_LOCAL_SIZE": "2",
        "FLAGS_selected_gpus": "0",
        "OMP_NUM_THREADS": "2",
    }
    (alone,) = variables("paddle", roles={"worker": {"vcores": 2}})
    assert alone["PADDLE_DISTRI_BACKEND"] == "gloo"
    assert "FLAGS_selected_gpus" not in alone

"""``yarnam plan`` and ``yarnam nodes``: text, JSON, a saved snapshot, exit codes."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import SPEC, Call, call, world
from tests.unit.client.world import World
from yarnam.cli.rendering.cluster_picture import picture
from yarnam.cli.rendering.console import live_text
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.core.model.tickets import RunningGang
from yarnam.core.queue_client.ticket_list import TicketList

__all__ = ["call", "world"]


def spec(world: World, text: str = SPEC, name: str = "spec.yaml") -> str:
    path = world.folder / name
    path.write_text(text)
    return str(path)


def fill(world: World, gpus: int) -> None:
    """So many GPUs of every node are in use."""
    world.rm.nodes = tuple(replace(n, used=Resources(1024, 1, gpus)) for n in world.rm.nodes)


def test_the_plan_shows_ladder_ranks_and_picture(world: World, call: Call) -> None:
    code, out, err = call("plan", spec(world))
    assert (code, err) == (0, "")
    assert "hello: 8 GPUs, queue root.dl, command" in out
    assert "RUNG  LEVEL  CONTAINERS" in out
    assert "0-7    worker-0" in out
    assert "The job fits now, on rung 0." in out
    assert "8 of 8 free, 8 for this job" in out
    assert world.left_on_hdfs() == []
    assert world.launcher.started == 0


def test_the_plan_in_json(world: World, call: Call) -> None:
    code, out, _ = call("plan", spec(world), "--json")
    found = json.loads(out)
    assert code == 0
    assert found["now"]["fits"] is True
    assert found["now"]["rungs"][0]["level"] == 0
    assert found["ranks"][0]["task"] == "worker-0"
    assert found["ranks"][0]["first_rank"] == 0
    forecast = found["forecast"]
    assert (forecast["wait_s"], forecast["latest_s"], forecast["reason"]) == (0.0, 0.0, None)
    assert "s3cret-value" not in out


def test_the_plan_says_what_checkpoints_in_memory_may_use(world: World, call: Call) -> None:
    given = SPEC + "checkpoint: {directory: /ckpt, memory: true}\n"
    _, out, _ = call("plan", spec(world, given))
    assert "Checkpoints in memory: at most" in out
    assert "no copies on other nodes: all tasks are on one node" in out
    _, out, _ = call("plan", spec(world, given.replace("memory: true", "memory: false")))
    assert "in memory" not in out


def test_not_now_is_said_and_exits_0(world: World, call: Call) -> None:
    fill(world, 7)
    code, out, _ = call("plan", spec(world))
    assert code == 0
    assert "The job does not fit now: 4 GPUs are free on usable nodes; the gang needs 8" in out
    assert "needs 2 more nodes with 4 free GPUs each (closest: n1 has 1, n2 has 1)" in out
    assert "Start time unknown" in out
    code, out, _ = call("plan", spec(world), "--json")
    found = json.loads(out)
    assert found["now"]["fits"] is False
    assert found["now"]["no_fit"]["changes"][0]["kind"] == "free"
    assert found["forecast"]["wait_s"] is None


def test_the_wait_is_forecast_from_the_jobs_that_wait_and_run(
    world: World, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world, 8)
    now_s = time.time()
    on = tuple((node.node_id, 8) for node in world.rm.nodes)
    gang = RunningGang("other", "root.dl", 32, now_s + 3600.0, on, now_s)
    known = TicketList(running=(gang,))
    monkeypatch.setattr("yarnam.client.submit.waiting_jobs.read_wait_queue", lambda site: known)
    _, out, _ = call("plan", spec(world), "--json")
    forecast = json.loads(out)["forecast"]
    assert 0.0 < forecast["soonest_s"] < forecast["wait_s"] < forecast["latest_s"] <= 3960.0
    _, out, _ = call("plan", spec(world))
    assert "It would be likely to start in " in out
    assert "durations suggest; smaller jobs may start first for another " in out
    monkeypatch.setattr(
        "yarnam.client.submit.waiting_jobs.read_wait_queue", lambda site: TicketList()
    )
    _, out, _ = call("plan", spec(world))
    assert "Start time unknown: 32 GPUs are in use by jobs that take no tickets." in out


def test_never_exits_91_and_a_bad_spec_65(world: World, call: Call) -> None:
    code, out, err = call("plan", spec(world, SPEC.replace("gpus: 8", "gpus: 800")))
    assert (code, out) == (91, "")
    assert "gang-exceeds-cluster" in err
    code, _, err = call("plan", spec(world, SPEC.replace("gpus:", "gpuz:")))
    assert code == 65


def test_a_model_that_nobody_has_exits_91(world: World, call: Call) -> None:
    world.rm.nodes = tuple(replace(n, gpu_model="NVIDIA A100-SXM4-80GB") for n in world.rm.nodes)
    code, _, err = call("plan", spec(world, SPEC + "placement: {gpu_model: A10O}\n"))
    assert code == 91
    assert "the cluster has NVIDIA A100-SXM4-80GB (32 GPUs)" in err
    assert "Did you mean NVIDIA A100-SXM4-80GB?" in err


def test_models_told_by_administrators(world: World, call: Call) -> None:
    rules = world.client.site.conf_dir / "gpu-models.yaml"
    rules.write_text("nodes: {n1: A100, n2: A100}\nracks: {/rack2: V100}\n")
    code, out, _ = call("nodes", "--json")
    assert code == 0
    assert [node["gpu_model"] for node in json.loads(out)] == ["A100", "A100", "V100", "V100"]
    wish = SPEC.replace("gpus: 8", "gpus: 16") + "placement: {gpu_model: v100}\n"
    code, out, _ = call("plan", spec(world, wish), "--json")
    assert {seat["node"] for seat in json.loads(out)["ranks"]} == {"n3", "n4"}
    rules.write_text("nodes: [n1]\n")
    code, _, err = call("nodes")
    assert code == 78
    assert "nodes must map names to models" in err


def test_nodes_are_listed(world: World, call: Call) -> None:
    down = replace(world.rm.nodes[0], state=NodeState.UNHEALTHY, labels=("gold",))
    world.rm.nodes = (down, *world.rm.nodes[1:])
    code, out, _ = call("nodes")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("NODE  RACK    STATE      GPUS FREE")
    assert lines[1].split()[:3] == ["n1", "/rack1", "unhealthy"]
    assert lines[1].endswith("gold")
    assert lines[1].split()[3:6] == ["0", "of", "8"], "nothing is free where nothing can run"
    assert lines[-2:] == [
        "3 of 4 nodes running, 3 idle; 24 of 24 GPUs free",
        "8 GPUs are on nodes that do not run or are closed: 1 unhealthy",
    ]
    down = replace(down, health="1/1 local-dirs are bad: /data/1")
    world.rm.nodes = (down, *world.rm.nodes[1:])
    _, out, _ = call("nodes")
    assert out.splitlines()[1].endswith("gold    1/1 local-dirs are bad: /data/1")
    _, out, _ = call("nodes", "--json")
    assert json.loads(out)[0]["free"]["gpus"] == 0


def test_a_saved_cluster_is_planned_on_elsewhere(
    world: World, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world, 7)
    saved = str(tmp_path / "cluster.json")
    code, out, err = call("nodes", "--save", saved)
    assert (code, out) == (0, "")
    assert f"Wrote {saved}: 4 nodes, 2 queues" in err
    world.rm.nodes = ()
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    code, out, _ = call("plan", spec(world), "--snapshot", saved)
    assert code == 0
    assert "does not fit now" in out
    code, _, err = call("plan", spec(world), "--snapshot", saved, "-q", "root.d")
    assert code == 65
    assert "queue root.d does not exist in this snapshot" in err
    assert "Did you mean root.dl?" in err


def test_a_file_that_is_no_snapshot(world: World, call: Call) -> None:
    code, _, err = call("plan", spec(world), "--snapshot", spec(world, "{}", "x.json"))
    assert code == 64
    assert "is not a cluster snapshot" in err


def test_a_large_cluster_is_drawn_in_short() -> None:
    nodes = tuple(
        Node(
            NodeId(f"n{i:04}"),
            RackId(f"/rack{i // 20:02}"),
            NodeState.LOST if i == 3 else NodeState.RUNNING,
            Resources(1024, 1, 8),
            Resources(0, 0, (0, 4, 8)[i % 3]),
        )
        for i in range(1000)
    )
    drawn = list(picture(ClusterSnapshot(0.0, nodes, QueueView("q")), {NodeId("n0999"): 8}))
    lines = [live_text(line).plain for line in drawn]
    assert len(lines) <= 16
    assert lines[0].startswith("/rack49  ")
    assert lines[0].endswith(", 8 for this job")
    assert "38 more racks with 760 nodes" in lines[12]
    assert all(len(line) <= 100 for line in lines)


def test_queues_are_compared_by_when_the_job_would_start(
    world: World, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.time()
    fill(world, 8)
    on = tuple((node.node_id, 8) for node in world.rm.nodes)
    gang = RunningGang("other", "root.dl", 32, now_s + 3600.0, on, now_s)
    monkeypatch.setattr(
        "yarnam.client.submit.waiting_jobs.read_wait_queue",
        lambda site: TicketList(running=(gang,)),
    )
    small = QueueView("root.small", maximum=Resources(1 << 40, 1 << 20, 4))
    before = world.rm.snapshot

    def with_queues(*arguments: object, **more: object) -> ClusterSnapshot:
        found = before(*arguments, **more)
        return replace(found, queues=(small, found.queue))

    monkeypatch.setattr(world.rm, "snapshot", with_queues)
    code, out, err = call("plan", spec(world), "--compare-queues", "--json")
    assert code == 0, err
    rows = json.loads(out)
    assert [row["queue"] for row in rows] == ["root.dl", "root.small"]
    assert 0.0 < rows[0]["forecast"]["wait_s"] <= rows[0]["forecast"]["latest_s"]
    assert rows[1]["forecast"] is None
    assert "4" in rows[1]["never"]
    _, out, _ = call("plan", spec(world), "--compare-queues")
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["QUEUE", "FITS"]
    assert lines[1].split()[:2] == ["root.dl", "no"]
    assert lines[2].split()[:3] == ["root.small", "no", "never"]

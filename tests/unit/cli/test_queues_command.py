"""``yarnam queues``, as its user sees it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.cluster_view import cluster
from tests.unit.client.world import APPLICATION, World, status
from tests.unit.queues.test_lint import GOOD
from yarnam.cli.shell import Shell, run
from yarnam.client.planning.snapshot_file import save_snapshot
from yarnam.client.queues import apply_file
from yarnam.client.queues.chosen_policies import ChosenPolicies
from yarnam.core.model.job_status import AwaitedJob, JobState, WaitQueueStatus
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Scheduler
from yarnam.core.policies.chosen_policy import QueuePolicy
from yarnam.core.queues.queue_state import QueueState
from yarnam.errors import Unavailable

WHOLE = Resources(1048576, 256, 32)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    research = QueueState(
        "root.research", "drf", Resources(349525, 85, 10), WHOLE, maximum=WHOLE,
        used=Resources(8192, 4, 8), demand=Resources(16384, 8, 16), running_jobs=1, pending_jobs=1,
        am_used=Resources(1536, 1, 0), am_limit=Resources(2000, 128, 16),
    )  # fmt: skip
    capped = QueueState("root.small", "fifo", maximum=Resources(1048576, 256, 2), max_jobs=3)
    made.rm.queue_tree = QueueState(
        "root", "drf", WHOLE, WHOLE, maximum=WHOLE, used=Resources(8192, 4, 8),
        children=(research, capped), is_leaf=False,
    )  # fmt: skip
    return made


def yarnam(world: World, *arguments: str) -> int:
    return run(["queues", *arguments], Shell(lambda **_: world.client))


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_show_draws_the_tree_and_says_why_jobs_wait(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.rm.add(APPLICATION, state="ACCEPTED", queue="root.research")
    assert yarnam(world, "show") == 0
    out = lines_of(capsys)
    assert out[0] == "32 GPUs, 32 free; all amounts but the AM share are GPUs"
    assert out[1].split() == ["QUEUE", "USED,", "SHARE", "USED", "PENDING", "FAIR", "STEADY", "MIN",
                              "MAX", "CAN", "TAKE", "WEIGHT", "POLICY", "AM", "SHARE",
                              "APPLICATIONS"]  # fmt: skip
    research = next(line for line in out if line.startswith("  research"))
    assert "████░" in research
    assert research.split()[2:9] == ["8", "8", "32", "10", "0", "-", "32"]
    assert "1536 of 2000 MiB" in research
    assert "at most 3" in next(line for line in out if line.startswith("  small"))
    assert "Waiting: 1" in out
    assert any("ApplicationMasters may use 2000 MiB in root.research" in line for line in out)
    assert out[-1].split() == ["8", "8", "16", "32"]


def test_shares_that_cannot_all_be_met_are_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(world, "show") == 0
    assert not any("add up to" in line for line in lines_of(capsys))
    root = world.rm.queue_tree
    assert root is not None
    small = replace(root.children[1], fair_share=Resources(1, 1, 4))
    world.rm.queue_tree = replace(root, children=(root.children[0], small))
    assert yarnam(world, "show") == 0
    assert any(
        "The fair shares below root add up to 36 GPUs, and it has 32" in line
        for line in lines_of(capsys)
    )
    assert yarnam(world, "show", "root.small") == 0
    assert not any("add up to" in line for line in lines_of(capsys))


def test_the_policy_of_yarnam_is_shown_beside_the_scheduler_s(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {
        "root.research": QueuePolicy("tiresias", (("limits", "3600"),), by="ann", version=2),
        "root.elsewhere": QueuePolicy("fifo", version=1),
    }
    monkeypatch.setattr(ChosenPolicies, "all", lambda _: chosen)
    assert yarnam(world, "show") == 0
    out = lines_of(capsys)
    assert "The gangs of root.research start by the policy tiresias limits=3600 (by ann)" in out
    assert not any("root.elsewhere" in line for line in out)
    assert yarnam(world, "show", "--json") == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    assert list(found) == ["root.research"]
    assert found["root.research"]["policy"] == "tiresias"

    def away(_: ChosenPolicies) -> dict[str, QueuePolicy]:
        raise Unavailable("ZooKeeper does not answer")

    monkeypatch.setattr(ChosenPolicies, "all", away)
    assert yarnam(world, "show") == 0
    assert any(line.startswith("  research") for line in lines_of(capsys))


def test_one_queue_and_json(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert yarnam(world, "show", "root.small", "--json") == 0
    found: Any = json.loads(capsys.readouterr().out)
    assert [queue["name"] for queue in found["queues"]] == ["root.small"]
    assert found["queues"][0]["can_take_gpus"] == 2
    assert found["largest_gangs"][-1] == {"gpus_per_task": 8, "node": 8, "rack": 16, "cluster": 32}


def test_weights_come_from_the_allocation_file(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    path = world.site.conf_dir / "fair-scheduler.xml"
    path.write_text(
        "<allocations><queue name='research'><weight>2.5</weight></queue></allocations>"
    )
    assert yarnam(world, "show", "--json") == 0
    found = {queue["name"]: queue for queue in json.loads(capsys.readouterr().out)["queues"]}
    assert (found["root.research"]["weight"], found["root.small"]["weight"]) == (2.5, None)


def test_why_of_a_job_and_of_a_queue(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert yarnam(world, "why", "root.research") == 0
    assert lines_of(capsys) == ["No job of root.research waits."]
    world.rm.add(APPLICATION, state="ACCEPTED", queue="root.research")
    assert yarnam(world, "why", APPLICATION) == 0
    out = lines_of(capsys)
    assert out[0].startswith(f"{APPLICATION} (hello) in root.research: ApplicationMasters may use")
    assert out[1] == "  What would start it: maxAMShare of root.research at 0.01."
    assert yarnam(world, "why", "root.research", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["cause"] == "am-share"


def test_what_no_ticket_tells_is_asked_of_the_job(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.job()
    world.rm.change(APPLICATION, queue="root.research", running_containers=1)
    found = status(JobState.QUEUED, reason="the gang does not fit in one rack")
    world.line.statuses = [replace(found, wait_queue=WaitQueueStatus(1, 0, missing="2 of 4"))]
    assert yarnam(world, "why", APPLICATION) == 0
    out = lines_of(capsys)
    assert "no ticket in ZooKeeper" in out[0]
    assert out[1] == "  Its own status says: the gang does not fit in one rack; 2 of 4."


def test_a_job_that_waits_for_others_says_so(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own status knows; neither a ticket nor YARN does."""
    world.job()
    world.rm.change(APPLICATION, queue="root.research", running_containers=1)
    prep = AwaitedJob("application_1_0001", "prep", state=JobState.RUNNING)
    world.line.statuses = [status(JobState.QUEUED, awaited=(prep,))]
    for what in (APPLICATION, "root.research"):
        assert yarnam(world, "why", what) == 0
        out = lines_of(capsys)
        assert "it waits for prep (application_1_0001, RUNNING) to succeed" in out[0]
        assert out[1:] == ["  What would start it: the end of application_1_0001."]


def test_errors_say_what_next(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert yarnam(world, "show", "root.reserch") == 64
    assert "Did you mean root.research?" in capsys.readouterr().err
    world.rm.add(APPLICATION, state="FINISHED")
    assert yarnam(world, "why", APPLICATION) == 64
    assert "it waits for nothing" in capsys.readouterr().err


def lint(world: World, path: Path, *options: str) -> int:
    return yarnam(world, "lint", str(path), *options)


def test_lint_names_line_reason_and_what_to_write(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fair-scheduler.xml"
    path.write_text("<allocations>\n<queue name='a'>\n<wieght>2</wieght></queue></allocations>")
    assert lint(world, path) == 78
    out = lines_of(capsys)
    assert f"{path}:3: error: <wieght> is not known to YARN [unknown-element]" in out
    assert "    instead: <weight>2</weight>" in out
    assert out[-1] == "1 error, 2 warnings, 1 note"


def test_lint_of_a_good_file_with_the_site_and_the_cluster(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, saved = tmp_path / "fair-scheduler.xml", str(tmp_path / "cluster.json")
    path.write_text(GOOD)
    assert lint(world, path) == 0
    assert lines_of(capsys) == [f"{path}: ok"]
    assert run(["nodes", "--save", saved], Shell(lambda **_: world.client)) == 0
    options = ("--site", str(world.site.conf_dir), "--cluster", saved, "--json")
    assert lint(world, path, *options) == 78
    rules = {row["rule"] for row in json.loads(capsys.readouterr().out)}
    assert {"other-scheduler", "minimums-above-capacity"} <= rules


AN_OLD_FILE = """<allocations>
<queue name="prod">
<minResources>10000 mb,10 vcores</minResources><maxResources>90000 mb,90 vcores</maxResources>
</queue>
</allocations>
"""
AMBARI = """<configuration>
<property><name>yarn.scheduler.capacity.root.queues</name><value>default</value></property>
<property><name>yarn.scheduler.capacity.root.capacity</name><value>100</value></property>
<property><name>yarn.scheduler.capacity.root.default.capacity</name><value>100</value></property>
<property><name>yarn.scheduler.capacity.root.default.acl_administer_jobs</name><value>%s</value></property>
<property><name>yarn.scheduler.capacity.root.default.maximum-allocation</name><value>%s</value></property>
</configuration>
"""


@pytest.mark.parametrize(
    "text", [AN_OLD_FILE, AMBARI % ("*", "memory-mb=8192,vcores=4")], ids=["fair", "capacity"]
)
def test_lint_of_a_site_without_gpus_notes_what_gpus_would_suffer(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path, conf = tmp_path / "queues.xml", tmp_path / "with-gpus"
    path.write_text(text)
    assert lint(world, path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    notes = {row["rule"] for row in found if row["severity"] == "note"}
    assert notes & {"parent-policy-not-drf", "memory-alone-counts"}
    assert not [row for row in found if "yarn.io/gpu" in row["mended"]]
    assert not [row for row in found if row["mended"] and row["mended"] in text], "as it stands"
    # A site with the resource type, and a file that names it, are judged as before.
    conf.mkdir()
    for name in ("core-site.xml", "yarn-site.xml"):
        (conf / name).write_text("<configuration/>")
    (conf / "resource-types.xml").write_text(
        "<configuration><property><name>yarn.resource-types</name><value>yarn.io/gpu</value>"
        "</property></configuration>"
    )
    assert lint(world, path, "--site", str(conf)) == 78
    path.write_text(text + "<!-- yarn.io/gpu -->")
    assert lint(world, path) == 0
    path.write_text(
        text.replace("90 vcores<", "90 vcores, yarn.io/gpu=8<").replace("=4<", "=4,yarn.io/gpu=8<")
    )
    assert lint(world, path) == 78


def test_lint_of_a_name_that_hadoop_gave_up(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An ignored list of users leaves the queue open, so that one stays an error."""
    path = tmp_path / "capacity-scheduler.xml"
    for value, code in (("*", 0), ("ada,bob", 78)):
        path.write_text(AMBARI % (value, "memory-mb=8192,vcores=4"))
        assert lint(world, path) == code
        assert "acl_administer_jobs is not known to YARN" in "\n".join(lines_of(capsys))


def test_lint_of_what_is_no_xml_has_a_position(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fair-scheduler.xml"
    path.write_text("<allocations>\n  <queue></allocations>")
    assert lint(world, path) == 78
    assert "line 2, column 12: mismatched tag" in capsys.readouterr().err
    assert lint(world, tmp_path / "gone.xml") == 64


def test_generate_diff_and_apply(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, made = tmp_path / "policy.yaml", tmp_path / "new.xml"
    policy.write_text(
        "version: 1\ncluster: {gpus: 32, memory: 1TiB, vcores: 256}\n"
        "queues: {research: {weight: 3}, small: {maximum: 2, fifo: true}}\n"
    )
    assert yarnam(world, "generate", str(policy), "-o", str(made)) == 0
    assert yarnam(world, "generate", str(policy), "-o", str(made)) == 64
    assert yarnam(world, "generate", str(policy)) == 0
    assert made.read_text() in capsys.readouterr().out
    old = world.site.conf_dir / "fair-scheduler.xml"
    old.write_text(made.read_text().replace("<weight>3<", "<weight>1<"))
    assert yarnam(world, "diff", str(old), str(made)) == 0
    assert any(line.split() == ["root.research", "weight", "1", "3"] for line in lines_of(capsys))
    assert yarnam(world, "apply", str(made), "--dry-run") == 0
    out = "\n".join(lines_of(capsys))
    assert "The jobs that run and wait now feel nothing." in out
    assert "<weight>1<" in old.read_text()


def test_convert_shows_gpus_and_writes_a_file_that_lint_takes(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, made, nodes = tmp_path / "old.xml", tmp_path / "new.xml", str(tmp_path / "nodes.json")
    old.write_text(
        "<allocations><defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
        '<queue name="a"><weight>3</weight></queue><queue name="b"/></allocations>'
    )
    save_snapshot(cluster(nodes=4), nodes)
    assert yarnam(world, "convert", str(old), "--cluster", nodes, "-o", str(made)) == 0
    out = "\n".join(lines_of(capsys))
    assert "root.a: its share is guaranteed now" in out
    assert yarnam(world, "lint", str(made)) == 0
    assert yarnam(world, "convert", str(old), "--cluster", nodes, "-o", str(made)) == 64
    assert yarnam(world, "convert", str(old), "--cluster", nodes, "--json") == 0
    assert '"capacity_gpus"' in capsys.readouterr().out


def test_an_allocation_file_is_not_applied_to_the_capacity_scheduler(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.rm.scheduler = Scheduler.CAPACITY
    path = tmp_path / "new.xml"
    path.write_text(GOOD)
    assert yarnam(world, "apply", str(path)) == 64
    assert "reads no allocation file" in capsys.readouterr().err


def test_show_under_the_capacity_scheduler(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.rm.scheduler = Scheduler.CAPACITY
    assert yarnam(world, "show") == 0
    header = next(line for line in lines_of(capsys) if line.startswith("QUEUE"))
    assert "ONE USER" in header
    assert "WEIGHT" not in header


@pytest.mark.parametrize("command", [("show", "root.research"), ("why", "root.research")])
def test_one_partition_is_looked_at_by_its_label(
    command: tuple[str, str], world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = world.rm.nodes
    world.rm.nodes = (replace(first, labels=("v100",)), *others)
    assert yarnam(world, *command, "--node-label", "v100") == 64  # the Fair Scheduler has none
    world.rm.scheduler = Scheduler.CAPACITY
    assert yarnam(world, *command, "--node-label", "a100") == 64
    assert "Labels: v100" in capsys.readouterr().err
    assert yarnam(world, *command, "--node-label", "v100") == 0
    assert world.rm.node_label == "v100"
    if command[0] == "show":
        assert "GPUs, 8 free;" in lines_of(capsys)[0]


def test_apply_replaces_the_file_and_says_when_yarn_has_it(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, target = tmp_path / "new.xml", tmp_path / "conf" / "queues.xml"
    target.parent.mkdir(exist_ok=True)
    target.write_text("old")
    target.chmod(0o640)
    policy = "<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
    made.write_text(f"<allocations>{policy}<queue name='research'/></allocations>")
    shares = QueueState("root.research", "drf", WHOLE, WHOLE, maximum=WHOLE)
    world.rm.queue_tree = QueueState(
        "root", "drf", WHOLE, WHOLE, maximum=WHOLE, children=(shares,), is_leaf=False
    )
    target.write_text(made.read_text())
    assert yarnam(world, "apply", str(made), "--to", str(target), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["written"] == str(target)
    assert Path(found["backup"]).read_text() == target.read_text()
    assert target.stat().st_mode & 0o777 == 0o640


def test_apply_refuses_a_file_with_errors(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, target = tmp_path / "new.xml", tmp_path / "queues.xml"
    made.write_text("<allocations><wieght>1</wieght></allocations>")
    assert yarnam(world, "apply", str(made), "--to", str(target)) == 78
    assert "nothing was changed" in capsys.readouterr().err
    assert not target.exists()


def test_a_file_that_yarn_does_not_take_is_an_error(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(apply_file.await_taken, "__defaults__", (0.0,))
    made = tmp_path / "new.xml"
    policy = "<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
    made.write_text(f"<allocations>{policy}<queue name='new'/></allocations>")
    assert yarnam(world, "apply", str(made), "--to", str(tmp_path / "queues.xml")) == 69
    assert "refreshQueues" in capsys.readouterr().err


def test_each_apply_is_a_version_that_undo_takes_back(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(apply_file, "not_taken", lambda *_: ())
    target = tmp_path / "queues.xml"

    def file(gpus: int) -> str:
        policy = "<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
        limit = f"memory-mb=99999,vcores=99,yarn.io/gpu={gpus}"
        return (
            f"<allocations>{policy}<queue name='research'><maxResources>{limit}</maxResources>"
            "</queue></allocations>"
        )

    target.write_text(file(1))
    for gpus in (2, 3):
        (tmp_path / "new.xml").write_text(file(gpus))
        assert yarnam(world, "apply", str(tmp_path / "new.xml"), "--to", str(target)) == 0
    capsys.readouterr()
    assert yarnam(world, "history", "--to", str(target), "--json") == 0
    first, second = json.loads(capsys.readouterr().out)
    (change,) = [one for one in second["changes"] if one["what"] == "maximum"]
    assert (change["queue"], change["before"][0], change["after"][0]) == ("root.research", "2", "3")
    assert first["by"] == second["by"] != ""
    undo = ("undo", "--to", str(target))
    assert yarnam(world, *undo, "--dry-run") == 0
    assert target.read_text() == file(3)
    for gpus in (2, 1):
        assert yarnam(world, *undo) == 0
        assert target.read_text() == file(gpus)
    capsys.readouterr()
    assert yarnam(world, *undo) == 64
    assert "before the first" in capsys.readouterr().err
    assert yarnam(world, "history", "--to", str(target)) == 0
    assert capsys.readouterr().out.count("undo") == 2


def test_undo_refuses_a_file_that_was_changed_by_hand(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(apply_file, "not_taken", lambda *_: ())
    target, made = tmp_path / "queues.xml", tmp_path / "new.xml"
    policy = "<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
    for path, name in ((target, "old"), (made, "new")):
        path.write_text(f"<allocations>{policy}<queue name='{name}'/></allocations>")
    undo = ("undo", "--to", str(target))
    assert yarnam(world, *undo) == 64
    assert "nothing to undo" in capsys.readouterr().err
    assert yarnam(world, "apply", str(made), "--to", str(target)) == 0
    target.write_text(target.read_text() + "<!-- by hand -->")
    assert yarnam(world, *undo) == 64
    assert "changed by other means" in capsys.readouterr().err
    assert "by hand" in target.read_text()
    (tmp_path / "queues.xml.versions.jsonl").write_text("[1]\n")
    assert yarnam(world, *undo) == 78
    assert "queues.xml.versions.jsonl" in capsys.readouterr().err


def test_a_first_file_is_not_said_to_be_changed_by_hand(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(apply_file, "not_taken", lambda *_: ())
    target, made = tmp_path / "queues.xml", tmp_path / "new.xml"
    policy = "<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
    made.write_text(f"<allocations>{policy}<queue name='a'/></allocations>")
    assert yarnam(world, "apply", str(made), "--to", str(target)) == 0
    capsys.readouterr()
    assert yarnam(world, "history", "--to", str(target)) == 0
    assert "there was no file before" in capsys.readouterr().out

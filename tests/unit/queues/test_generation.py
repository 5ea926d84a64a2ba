"""Policies in GPUs become allocation files that have no finding, and mean what was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.queues.files import allocations
from tests.unit.queues.test_lint import GOOD_SITE
from yarnam.adapters.yarn.allocation_xml import parse_xml
from yarnam.client.queues.queue_policy import read_policy
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.allocations import Allocations
from yarnam.core.queues.comparison import compare, effects, not_taken
from yarnam.core.queues.fair_share import steady_shares
from yarnam.core.queues.generation import allocation_file
from yarnam.core.queues.lint import LintInput, lint
from yarnam.core.queues.queue_state import QueueState
from yarnam.core.queues.queues_now import QueuesNow
from yarnam.errors import BadSpec, UsageError

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "queues"
CLUSTER = Resources(16 << 20, 3072, 256)
NODES = tuple(
    Node(NodeId(f"n{i}"), RackId("/r"), NodeState.RUNNING, Resources(1 << 19, 96, 8), Resources())
    for i in range(32)
)


def generated(path: Path) -> Allocations:
    text = allocation_file(read_policy(str(path)))
    found, refusals = read_allocations(parse_xml(text.encode()))
    assert lint(LintInput(found, GOOD_SITE, NODES), refusals) == ()
    return found


def gpus(found: Allocations) -> dict[str, int]:
    return {name: share.gpus for name, share in steady_shares(found.root, CLUSTER).items()}


def test_there_is_an_example_of_each_common_policy() -> None:
    assert len(list(EXAMPLES.glob("*.yaml"))) >= 5


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_have_no_finding(path: Path) -> None:
    found = generated(path)
    assert sum(gpus(found)[queue.name] for queue in found.root.children) >= 255


def test_shares_and_limits_are_those_of_the_policy() -> None:
    found = generated(EXAMPLES / "guaranteed-and-opportunistic.yaml")
    shares = gpus(found)
    assert shares["root.guaranteed"] >= 253
    assert shares["root.guaranteed.vision"] == shares["root.guaranteed.speech"]
    queue = found.queue("root.guaranteed.vision")
    assert queue is not None
    assert queue.minimum == Resources((16 << 20) * 96 // 256, 3072 * 96 // 256, 96)
    assert queue.min_share_timeout_s == 60
    over = generated(EXAMPLES / "oversubscription.yaml").queue("root.vision")
    assert over is not None
    assert over.maximum.gpus == 192
    fixed = generated(EXAMPLES / "preemption.yaml").queue("root.production")
    assert fixed is not None
    assert not fixed.is_preemptable


SIZED = "version: 1\ncluster: {gpus: 8, memory: 1TiB, vcores: 9}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\nqueues: {a: {gpu: 1}}", "2:14: queues.a.gpu: is not a key of a policy"),
        ("version: 2\nqueues: {a: {}}", "1:10: version:"),
        ("version: 1\nqueues: {a: {gpus: 9}}\n", "has no `cluster`"),
        ("version: 1\ncluster: {gpus: 8, memory: 1TiB, vcores: 9}\nqueues: {a: {gpus: 9}}",
         "together they are guaranteed 9 GPUs, and there are 8"),
        ("version: 1\ncluster: {gpus: 8, memory: 1TiB, vcores: 9}\nqueues: {a: {gpus: 4}}",
         "minimum_after"),
        ("version: 1\ncluster: {gpus: 8, memory: 1TiB, vcores: 9}\nqueues: {default: {}}",
         "named default"),
        (f"{SIZED}\ndefault_queue: b\nqueues: {{a: {{}}}}", "not a queue that takes jobs"),
        (f"{SIZED}\nqueues: {{a: {{maximum: 2, oversubscription: 2}}}}", "one of them"),
        ("version: 1\nqueues: {'a.b': {}}", "queues"),
        ("- a", "mapping"),
        ("", "empty"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_policy_has_a_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(BadSpec) as caught:
        read_policy(str(path))
    assert said in caught.value.message


def test_a_policy_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_policy(str(tmp_path / "gone.yaml"))


DRF = "<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
BEFORE = allocations(f"{DRF}<queue name='a'/><queue name='b'/>")
AFTER = allocations(
    f"{DRF}<queue name='a'><weight>3</weight></queue>"
    "<queue name='c'><maxResources>memory-mb=9,vcores=9,yarn.io/gpu=8</maxResources></queue>"
)


def test_differences_are_told_in_gpus() -> None:
    rows = {
        (one.queue, one.what): (one.before, one.after) for one in compare(BEFORE, AFTER, CLUSTER)
    }
    assert rows["root.a", "weight"] == ("1", "3")
    assert rows["root.a", "steady share"] == ("128 GPUs", "248 GPUs")
    assert rows["root.c", "maximum"] == ("", "8 GPUs")
    assert rows["root.b", "steady share"] == ("128 GPUs", "")
    assert not any(queue == "root" for queue, _ in rows)
    assert compare(AFTER, AFTER, CLUSTER) == ()


def live(*children: QueueState, preempts: bool = True) -> QueuesNow:
    root = QueueState("root", "drf", CLUSTER, CLUSTER, maximum=CLUSTER, children=children,
                      is_leaf=False)  # fmt: skip
    return QueuesNow(1.0, root, preempts=preempts)


def test_effects_are_those_on_running_jobs() -> None:
    half = Resources(0, 0, 128)
    busy = {"policy": "drf", "fair_share": half, "running_jobs": 2, "maximum": CLUSTER}
    now = live(
        QueueState("root.a", used=Resources(0, 0, 100), **busy),
        QueueState("root.b", used=Resources(0, 0, 20), **busy),
        QueueState("root.c", used=Resources(0, 0, 12), **busy),
    )
    said = {one.queue: "" for one in effects(now, AFTER)}
    for one in effects(now, AFTER):
        said[one.queue] += one.message
    assert "its fair share rises from 128 to 248" in said["root.a"]
    assert "is gone: its 2 jobs stay" in said["root.b"]
    assert "above its new maximum of 8" in said["root.c"]
    assert "up to 4 may be preempted" in said["root.c"]
    assert "preempted" not in "".join(
        one.message for one in effects(QueuesNow(1.0, now.root), AFTER)
    )


def test_a_file_is_taken_when_the_report_agrees() -> None:
    shares = steady_shares(BEFORE.root, CLUSTER)
    a, b = (QueueState(name, "drf", shares[name], maximum=CLUSTER) for name in ("root.a", "root.b"))
    assert not_taken(live(a, b), BEFORE) == []
    assert not_taken(live(a, b), AFTER) == ["root.a", "root.c"]

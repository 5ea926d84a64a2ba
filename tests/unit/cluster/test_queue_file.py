"""The Fair Scheduler's allocation file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop.queue_file import default_queues, queues_of
from yarnam.cluster.shape import ClusterShape
from yarnam.errors import BadConfig


def queues(plan: ClusterPlan) -> dict[str, ET.Element]:
    root = ET.fromstring(default_queues(plan)).find("queue")
    assert root is not None
    return {"root": root} | {f"root.{each.get('name')}": each for each in root.findall("queue")}


def test_the_default_queues_allow_what_tests_need(plan: ClusterPlan) -> None:
    found = queues(plan)
    assert set(found) == {
        "root", "root.default", "root.dl", "root.research", "root.prod", "root.small",
        "root.locked",
    }  # fmt: skip
    # An ACL counts upwards too: only a root that admits nobody lets a queue shut somebody out.
    assert found["root"].findtext("aclSubmitApps") == " "
    assert found["root"].findtext("schedulingPolicy") == "drf"
    assert found["root.locked"].findtext("aclSubmitApps") == "nobody"
    assert (found["root.small"].findtext("maxResources") or "").endswith("yarn.io/gpu=2")


def test_production_is_sure_of_a_quarter(plan: ClusterPlan) -> None:
    assert queues(plan)["root.prod"].findtext("minResources") == (
        "memory-mb=65536, vcores=64, yarn.io/gpu=8"
    )


def test_the_users_file_is_taken_as_it_is(
    make_plan: Callable[..., ClusterPlan], tmp_path: Path
) -> None:
    file = tmp_path / "queues.xml"
    file.write_text("<allocations><!-- mine --></allocations>")
    assert queues_of(make_plan(ClusterShape(queues=str(file)))) == file.read_text()


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "No such file"), ("<allocations>", "not XML"), ("<queues/>", "outermost element")],
)
def test_a_file_that_cannot_be_right_is_refused(
    make_plan: Callable[..., ClusterPlan], tmp_path: Path, content: str | None, says: str
) -> None:
    file = tmp_path / "queues.xml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BadConfig, match=says):
        queues_of(make_plan(ClusterShape(queues=str(file))))


def capacity_properties(plan: ClusterPlan) -> dict[str, str]:
    rows = ET.fromstring(default_queues(plan)).findall("property")
    return {row.findtext("name") or "": row.findtext("value") or "" for row in rows}


@pytest.mark.parametrize("gpus", [0, 1, 2, 8, 100])
def test_the_capacity_scheduler_gets_the_same_queues(
    make_plan: Callable[..., ClusterPlan], gpus: int
) -> None:
    plan = make_plan(ClusterShape(scheduler="capacity", gpus_per_node=gpus, gpus="simulated"))
    found = capacity_properties(plan)
    prefix = "yarn.scheduler.capacity.root"
    names = found[f"{prefix}.queues"].split(",")
    assert {f"root.{name}" for name in names} | {"root"} == set(queues(make_plan(ClusterShape())))
    # YARN refuses queues that do not add up to 100 per cent.
    assert sum(float(found[f"{prefix}.{name}.capacity"]) for name in names) == pytest.approx(100)
    for name in names:
        capacity = float(found[f"{prefix}.{name}.capacity"])
        assert 0 < capacity <= float(found[f"{prefix}.{name}.maximum-capacity"]) <= 100
    if gpus >= 2:
        share = float(found[f"{prefix}.small.maximum-capacity"]) / 100
        assert share * gpus * len(plan.nodes) == pytest.approx(2)


def test_a_file_of_the_other_scheduler_is_refused(
    make_plan: Callable[..., ClusterPlan], tmp_path: Path
) -> None:
    file = tmp_path / "queues.xml"
    file.write_text("<allocations/>")
    with pytest.raises(BadConfig, match="outermost element is <allocations>"):
        queues_of(make_plan(ClusterShape(scheduler="capacity", queues=str(file))))

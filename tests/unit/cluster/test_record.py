"""What is written down about a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from yarnam.cluster.plan import ClusterPlan
from yarnam.cluster.record import (
    ClusterRecord,
    read,
    read_cluster_id,
    recorded_slots,
    write,
)
from yarnam.cluster.shape import ClusterShape, NodeOverride
from yarnam.errors import BadConfig


def test_a_cluster_is_read_as_it_was_written(make_plan: Callable[..., ClusterPlan]) -> None:
    shape = ClusterShape(gpu_model="A100", node_overrides={"nm1": NodeOverride(gpus=1)})
    plan = make_plan(shape)
    write(ClusterRecord(plan, "ready"))
    found = read(plan.places)
    assert found == ClusterRecord(plan, "ready")


def test_there_is_no_record_before_the_first_up(plan: ClusterPlan) -> None:
    assert read(plan.places) is None
    assert read_cluster_id(plan.places) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}'])
def test_a_damaged_record_is_an_error_and_not_nothing(plan: ClusterPlan, content: str) -> None:
    plan.places.root.mkdir(parents=True)
    plan.places.record.write_text(content)
    with pytest.raises(BadConfig, match="is damaged") as refusal:
        read(plan.places)
    assert "cluster down" in refusal.value.hint


def test_another_format_is_left_to_who_wrote_it(plan: ClusterPlan) -> None:
    write(ClusterRecord(plan, "ready"))
    document = json.loads(plan.places.record.read_text())
    plan.places.record.write_text(json.dumps(document | {"format": 99}))
    with pytest.raises(BadConfig, match="has format 99"):
        read(plan.places)
    # `down` still knows whose processes to look for.
    assert read_cluster_id(plan.places) == "test-123"


def test_slots_of_all_clusters_are_known(plan: ClusterPlan) -> None:
    write(ClusterRecord(plan, "failed"))
    broken = plan.places.base / "broken"
    broken.mkdir()
    (broken / "cluster.json").write_text("{")
    assert recorded_slots(plan.places.base) == {9}

"""What is written down about a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from yarnam.cluster.cluster_plan import (
    ClusterPlan,
    ClusterRecord,
    load_cluster,
    read_cluster_id,
    recorded_slots,
    save_cluster,
)
from yarnam.cluster.shape import ClusterShape, NodeOverride
from yarnam.errors import BadConfig


def test_a_cluster_is_read_as_it_was_written(make_plan: Callable[..., ClusterPlan]) -> None:
    shape = ClusterShape(gpu_model="A100", node_overrides={"nm1": NodeOverride(gpus=1)})
    plan = make_plan(shape)
    save_cluster(ClusterRecord(plan, "ready"))
    found = load_cluster(plan.paths)
    assert found == ClusterRecord(plan, "ready")


def test_there_is_no_record_before_the_first_up(plan: ClusterPlan) -> None:
    assert load_cluster(plan.paths) is None
    assert read_cluster_id(plan.paths) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}'])
def test_a_damaged_record_is_an_error_and_not_nothing(plan: ClusterPlan, content: str) -> None:
    plan.paths.root.mkdir(parents=True)
    plan.paths.record.write_text(content)
    with pytest.raises(BadConfig, match="is damaged") as refusal:
        load_cluster(plan.paths)
    assert "cluster down" in refusal.value.hint


def test_another_format_is_left_to_who_wrote_it(plan: ClusterPlan) -> None:
    save_cluster(ClusterRecord(plan, "ready"))
    document = json.loads(plan.paths.record.read_text())
    plan.paths.record.write_text(json.dumps(document | {"format": 99}))
    with pytest.raises(BadConfig, match="has format 99"):
        load_cluster(plan.paths)
    # `down` still knows whose processes to look for.
    assert read_cluster_id(plan.paths) == "test-123"


def test_slots_of_all_clusters_are_known(plan: ClusterPlan) -> None:
    save_cluster(ClusterRecord(plan, "failed"))
    broken = plan.paths.base / "broken"
    broken.mkdir()
    (broken / "cluster.json").write_text("{")
    assert recorded_slots(plan.paths.base) == {9}

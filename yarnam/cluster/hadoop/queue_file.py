"""The Fair Scheduler's allocation file of the embedded cluster."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.errors import BadConfig

# A leading blank means: no users, no groups. An ACL is inherited downwards, so a queue can only
# shut somebody out when root does.
NOBODY = " "
SMALL_GPUS = 2
LOCKED_USER = "nobody"


def default_queues(plan: ClusterPlan) -> str:
    """Queues to try everything on: weights, a cap, an ACL, a guaranteed share. ``root.default``
    takes what names no queue. It is the queue to avoid in specs: to the Fair Scheduler the word
    ``default`` means "unspecified"."""
    gpus = sum(node.gpus for node in plan.nodes)
    memory = sum(node.memory_mib for node in plan.nodes)
    vcores = sum(node.vcores for node in plan.nodes)
    # Production gets a quarter for certain, by preemption if need be.
    share = f"memory-mb={memory // 4}, vcores={vcores // 4}, yarn.io/gpu={gpus // 4}"
    return f"""\
<?xml version="1.0"?>
<allocations>
  <defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
  <queue name="root">
    <schedulingPolicy>drf</schedulingPolicy>
    <aclSubmitApps>{NOBODY}</aclSubmitApps>
    <aclAdministerApps>{NOBODY}</aclAdministerApps>
    <queue name="default"><weight>1</weight><aclSubmitApps>*</aclSubmitApps></queue>
    <queue name="dl"><weight>3</weight><aclSubmitApps>*</aclSubmitApps></queue>
    <queue name="research"><weight>2</weight><aclSubmitApps>*</aclSubmitApps></queue>
    <queue name="prod">
      <weight>4</weight>
      <minResources>{share}</minResources>
      <minSharePreemptionTimeout>5</minSharePreemptionTimeout>
      <aclSubmitApps>*</aclSubmitApps>
    </queue>
    <queue name="small">
      <maxResources>memory-mb={memory}, vcores={vcores}, yarn.io/gpu={SMALL_GPUS}</maxResources>
      <aclSubmitApps>*</aclSubmitApps>
    </queue>
    <queue name="locked"><aclSubmitApps>{LOCKED_USER}</aclSubmitApps></queue>
  </queue>
  <queuePlacementPolicy>
    <rule name="specified" create="false"/>
    <rule name="default" queue="root.default"/>
  </queuePlacementPolicy>
</allocations>
"""


def queues_of(plan: ClusterPlan) -> str:
    """The user's allocation file where the shape names one, else the default queues."""
    if plan.shape.queues is None:
        return default_queues(plan)
    path = Path(plan.shape.queues)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadConfig(f"queues file {path}: {error.strerror or error}") from error
    check_allocations(text, path)
    return text


def check_allocations(text: str, path: Path) -> None:
    """Catch what would make the ResourceManager die a minute later with a stack trace."""
    try:
        # The file is the user's own, read with the user's own rights.
        root = ET.fromstring(text)  # noqa: S314
    except ET.ParseError as error:
        raise BadConfig(f"queues file {path} is not XML: {error}") from error
    if root.tag != "allocations":
        raise BadConfig(
            f"queues file {path}: the outermost element is <{root.tag}>",
            hint="A Fair Scheduler allocation file is an <allocations> element.",
        )

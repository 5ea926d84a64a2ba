"""The queues of the embedded cluster: the file that its scheduler reads them from."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop.properties import properties_xml
from yarnam.cluster.shape import SchedulerName, is_before
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
    return _capacity_queues(plan) if plan.shape.scheduler == "capacity" else _fair_queues(plan)


def _capacity_queues(plan: ClusterPlan) -> str:
    """The same queues for the Capacity Scheduler: name, per cent of the cluster, at most."""
    gpus = sum(node.gpus for node in plan.nodes)
    most = 100 * min(1.0, SMALL_GPUS / gpus) if gpus else 100.0
    small = min(5.0, most)
    queues = (
        ("default", 10.0, 100.0), ("dl", 35.0, 100.0), ("research", 20.0, 100.0),
        ("prod", 25.0, 100.0), ("small", small, most), ("locked", 10.0 - small, 100.0),
    )  # fmt: skip
    prefix = "yarn.scheduler.capacity"
    calculator = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
    properties = {
        f"{prefix}.root.queues": ",".join(name for name, _, _ in queues),
        f"{prefix}.root.acl_submit_applications": NOBODY,
        f"{prefix}.root.acl_administer_queue": NOBODY,
        # The default calculator counts memory alone: GPUs would be no limit.
        f"{prefix}.resource-calculator": calculator,
        # Each job has an ApplicationMaster of its own; by default a tenth of a queue is for them.
        f"{prefix}.maximum-am-resource-percent": "0.5",
    }
    for name, capacity, maximum in queues:
        own = f"{prefix}.root.{name}"
        properties |= {
            f"{own}.capacity": f"{capacity:g}",
            f"{own}.maximum-capacity": f"{maximum:g}",
            # One user may take all that the queue may: by default no more than its capacity.
            f"{own}.user-limit-factor": "100",
            f"{own}.acl_submit_applications": LOCKED_USER if name == "locked" else "*",
        }
    return properties_xml(properties)


def _fair_queues(plan: ClusterPlan) -> str:
    gpus = sum(node.gpus for node in plan.nodes)
    memory = sum(node.memory_mib for node in plan.nodes)
    vcores = sum(node.vcores for node in plan.nodes)
    # Production gets a quarter for certain, by preemption if need be.
    share = f"memory-mb={memory // 4}, vcores={vcores // 4}, yarn.io/gpu={gpus // 4}"
    most = f"memory-mb={memory}, vcores={vcores}, yarn.io/gpu={SMALL_GPUS}"
    cap = f"<maxResources>{most}</maxResources>"
    if is_before(plan.hadoop_version, 3, 2):
        # It reads no other resources, and takes those that a limit does not name for zero.
        share, cap = f"{memory // 4} mb, {vcores // 4} vcores", ""
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
      {cap}
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
    """The user's file where the shape names one, else the default queues."""
    if plan.shape.queues is None:
        return default_queues(plan)
    path = Path(plan.shape.queues)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadConfig(f"queues file {path}: {error.strerror or error}") from error
    check_queues(text, path, plan.shape.scheduler)
    return text


OUTERMOST: dict[SchedulerName, tuple[str, str]] = {
    "fair": ("allocations", "A Fair Scheduler allocation file"),
    "capacity": ("configuration", "A Capacity Scheduler configuration"),
}
"""Per scheduler: the outermost element of its file, and what the file is called."""


def check_queues(text: str, path: Path, scheduler: SchedulerName) -> None:
    """Catch what would make the ResourceManager die a minute later with a stack trace."""
    try:
        # The file is the user's own, read with the user's own rights.
        root = ET.fromstring(text)  # noqa: S314
    except ET.ParseError as error:
        raise BadConfig(f"queues file {path} is not XML: {error}") from error
    tag, name = OUTERMOST[scheduler]
    if root.tag != tag:
        raise BadConfig(
            f"queues file {path}: the outermost element is <{root.tag}>",
            hint=f"{name} is an <{tag}> element; the cluster's scheduler is '{scheduler}'.",
        )

"""``yarnam queues what-if`` over a morning of two teams: the product's own simulation and chart."""

from __future__ import annotations

import tempfile
from pathlib import Path

from yarnam.adapters.yarn.allocation_xml import load_allocations
from yarnam.cli.rendering.what_if_text import what_if_svg
from yarnam.client.queues.what_if import what_if
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState
from yarnam.sim.what_if.replay import PastJob, PastRole

_QUEUES = """<allocations><defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
<queue name="speech"><maxResources>memory-mb=9999999, vcores=9999, yarn.io/gpu={speech}</maxResources></queue>
<queue name="vision"/></allocations>"""  # noqa: E501


def _job(number: int) -> PastJob:
    """Every four minutes a gang: of speech 8 GPUs for an hour, of vision 16 for half an hour."""
    is_speech = number % 2 == 0
    role = PastRole("worker", 2 if is_speech else 4, Resources(32768, 16, 4))
    queue, run_s = ("root.speech", 3600.0) if is_speech else ("root.vision", 1800.0)
    return PastJob(queue, 240.0 * number, run_s, (role,))


def what_if_picture() -> str:
    node = Resources(512 * 1024, 96, 8)
    nodes = [
        Node(NodeId(f"gpu-{number:02}"), RackId("/rack1"), NodeState.RUNNING, node, Resources())
        for number in range(1, 9)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "queues.xml")
        files = []
        for gpus in (64, 24):
            file.write_text(_QUEUES.format(speech=gpus))
            files.append(load_allocations(file))
    before, after = files
    found = what_if([_job(number) for number in range(40)], nodes, before, after, {})
    return what_if_svg(found, "fair-scheduler.xml", "speech-24.xml")

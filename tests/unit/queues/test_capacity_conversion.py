"""An allocation file as the Capacity Scheduler would have it: same GPUs, no finding that forbids a
gang."""

from __future__ import annotations

from functools import reduce

from tests.unit.queues.test_capacity_lint import GOOD_SITE
from tests.unit.queues.test_lint import GOOD, NODES
from yarnam.adapters.yarn.allocation_xml import parse_xml
from yarnam.cli.rendering.queue_text import settings_xml
from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.capacity import CapacityInput, lint_capacity
from yarnam.core.queues.capacity.capacity_conversion import Conversion, convert
from yarnam.core.queues.capacity.capacity_file import CAPACITY, read_settings_of

CLUSTER = reduce(Resources.plus, (node.total for node in NODES))


def converted(text: str = GOOD) -> Conversion:
    given, refusals = read_allocations(parse_xml(text.encode()))
    assert not refusals
    return convert(given, CLUSTER)


def test_shares_become_capacities() -> None:
    found = converted()
    by_name = {one.name: one for one in found.queues}
    for queue in found.queues:
        assert abs(queue.capacity - queue.share) < 1, queue
    assert by_name["root.vision"].maximum == 192
    assert by_name["root.vision"].minimum == 64
    assert found.settings[f"{CAPACITY}.root.queues"] == "vision,speech"
    assert found.settings[f"{CAPACITY}.root.vision.maximum-capacity"] == "75"
    assert found.settings[f"{CAPACITY}.root.vision.max-parallel-apps"] == "50"
    assert found.settings[f"{CAPACITY}.root.vision.maximum-am-resource-percent"] == "0.3"
    assert any("preemption timeouts" in change for change in by_name["root.vision"].changes)
    assert any("placement rules" in change for change in found.changes)


def test_the_written_file_has_no_finding() -> None:
    document = parse_xml(settings_xml(converted().settings).encode())
    site = {**GOOD_SITE, "yarn.scheduler.maximum-allocation-mb": "512000"}
    assert lint_capacity(CapacityInput(read_settings_of(document), site, NODES)) == ()


def test_a_queue_without_a_whole_gpu_is_told() -> None:
    queues = "".join(f'<queue name="q{number}"/>' for number in range(300))
    found = converted(f"<allocations>{queues}</allocations>")
    percents = [float(text) for name, text in found.settings.items() if name.endswith(".capacity")]
    assert abs(sum(percents) - 100) < 0.05
    assert all("none is guaranteed" in one.changes[0] for one in found.queues if one.capacity < 1)
    assert any(one.capacity < 1 for one in found.queues)

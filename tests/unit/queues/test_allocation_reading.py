"""What the Fair Scheduler reads from an allocation file, and what it refuses."""

from __future__ import annotations

import pytest

from hdfs_utils.errors import MalformedData
from tests.unit.queues.files import allocations
from yarnam.adapters.yarn.allocation_xml import MAX_DEPTH, load_allocations, parse_xml
from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.allocations import Policy
from yarnam.core.queues.amounts import UNLIMITED, Limit, parse_amounts
from yarnam.errors import BadConfig, UsageError

CLUSTER = Resources(1000, 100, 10)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("memory-mb=5, vcores=2, yarn.io/gpu=1", Limit(5, 2, 1)),
        ("vcores=2", Limit(None, 2, None)),
        ("yarn.io/gpu=2", Limit(None, 0, 2)),
        ("memory-mb=50%,vcores=25.5%", Limit(0.5, 0.255, 1.0)),
        ("1024 mb, 4 vcores", Limit(1024, 4, 0)),
        ("1024.9MB,4 VCORES", Limit(1024, 4, 0)),
        ("50%", Limit(0.5, 0.5, 0.5)),
        ("50% memory, 20% cpu", Limit(0.5, 0.2, 0.0)),
        ("vcores=2,example.com/fpga=3", Limit(None, 2, None, ("example.com/fpga",))),
    ],
)
def test_the_notations_of_amounts(text: str, limit: Limit) -> None:
    assert parse_amounts(text, missing=None) == limit


@pytest.mark.parametrize(
    "text",
    ["", "1024", "1024 mb", "4 vcores", "memory-mb=1Gi", "memory-mb=-1", "memory-mb=5,vcores=50%",
     "memory-mb", "-1 mb, 4 vcores", "-5%", "50% memory, 20 cpu"],
)  # fmt: skip
def test_amounts_that_yarn_refuses(text: str) -> None:
    with pytest.raises(ValueError):
        parse_amounts(text, missing=None)


def test_percentages_follow_the_cluster() -> None:
    assert Limit(0.5, 0.255, None).of(CLUSTER) == Resources(500, 25, UNLIMITED)


def test_defaults_and_inheritance() -> None:
    found = allocations(
        """
        <queueMaxResourcesDefault>vcores=7</queueMaxResourcesDefault>
        <queueMaxAMShareDefault>0.2</queueMaxAMShareDefault>
        <defaultMinSharePreemptionTimeout>60</defaultMinSharePreemptionTimeout>
        <defaultQueueSchedulingPolicy>DRF</defaultQueueSchedulingPolicy>
        <queue name="a" type="parent">
          <allowPreemptionFrom>false</allowPreemptionFrom>
          <minSharePreemptionTimeout>5</minSharePreemptionTimeout>
          <schedulingPolicy>fair</schedulingPolicy>
          <queue name="x"><maxAMShare>-1</maxAMShare><weight>2.5</weight></queue>
        </queue>"""
    )
    root, queue = found.root, found.queue("root.a.x")
    assert queue is not None
    assert (queue.policy, queue.weight, queue.max_am_share) == (Policy.DRF, 2.5, -1.0)
    assert (queue.min_share_timeout_s, queue.is_preemptable) == (5, False)
    assert queue.maximum.vcores == 7
    assert root.maximum == Limit()
    assert root.min_share_timeout_s == 60
    assert [one.name for one in root.leaves()] == ["root.a.x"]


def test_root_may_be_written_or_left_out() -> None:
    inside = '<queue name="a"/><queue name="b"/>'
    written = allocations(f'<queue name="root"><weight>2</weight>{inside}</queue>').root
    left_out = allocations(inside).root
    assert [one.name for one in written.walk()] == [one.name for one in left_out.walk()]


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ('<queue name="a.b"/>', "period"),
        ("<queue/>", "no name"),
        ('<queue name="root"/><queue name="b"/>', "beside root"),
        ('<queue name="a"><weight>heavy</weight></queue>', "not a number"),
        ('<queue name="a"><maxResources>1024</maxResources></queue>', "missing resource"),
        ('<queue name="a"><schedulingPolicy>best</schedulingPolicy></queue>', "not a policy"),
        ('<queue name="a"><schedulingPolicy>fifo</schedulingPolicy><queue name="b"/></queue>',
         "leaf"),
        ("<defaultQueueSchedulingPolicy>fifo</defaultQueueSchedulingPolicy>", "fifo"),
        ('<queue name="a"><maxRunningApps>many</maxRunningApps></queue>', "integer"),
        ('<queue name="a"><reservation/><queue name="b"/></queue>', "reservation"),
    ],
)  # fmt: skip
def test_what_yarn_refuses_has_a_line(inside: str, said: str) -> None:
    _, refusals = read_allocations(parse_xml(f"<allocations>\n{inside}</allocations>".encode()))
    assert [one.line for one in refusals] == [2]
    assert said in refusals[0].message


BOMB = b"""<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;&x;&x;">]>
<allocations>&y;</allocations>"""


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"<allocations>\n<queue></allocations>", "line 2, column 10"),
        (b"", "line 1"),
        (BOMB, "document type"),
        (b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'><allocations/>", "document type"),
        (b"<a>" * 100, f"deeper than {MAX_DEPTH}"),
        (b"<?xml version='1.0' encoding='klingon'?><a/>", "line 1"),
        (b"<a>\xff</a>", "line 1"),
        (b"<a>&x;</a>", "undefined entity"),
    ],
)
def test_malformed_and_hostile_xml_has_a_position(data: bytes, said: str) -> None:
    with pytest.raises(MalformedData, match=said):
        parse_xml(data)


def test_a_file_is_loaded_or_the_error_says_where(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "fair-scheduler.xml"
    with pytest.raises(UsageError, match="cannot read"):
        load_allocations(path)
    path.write_text("<allocations>\n<queue name=''/></allocations>")
    with pytest.raises(BadConfig, match="line 2: a queue has no name"):
        load_allocations(path)
    path.write_text("<allocations><queue name='a'/></allocations>")
    assert load_allocations(path).queue("root.a")

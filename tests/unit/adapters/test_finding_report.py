"""A finding on its way from an agent to the ApplicationMaster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from yarnam.adapters.grpc.finding_messages import finding_of_report
from yarnam.agent.launch.task_run import Process, ProcessPlan
from yarnam.agent.mailbox.agent_reports import process_report
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.model.outcomes import Finding, Origin, Stream
from yarnam.wire.pb import yarnam_pb2 as pb


def sent(finding: Finding) -> pb.Finding:
    process = Process(ProcessPlan(0, 0, "/bin/x", ["x"], {}, Path("log")), finding=finding)
    return process_report(process).finding


@pytest.mark.parametrize(
    "origin", [None, Origin(None, 5.0), Origin(Stream.STDERR, 7.5), Origin(Stream.STDOUT, 0.0)]
)
def test_nothing_of_it_is_lost(origin: Origin | None) -> None:
    finding = replace(UNKNOWN, line="x", at_s=3.0, ruled_out=("a", "b"), origin=origin)
    assert finding_of_report(sent(finding)) == finding


def test_a_time_that_no_clock_shows_is_left_out() -> None:
    for wrong in (float("nan"), float("inf"), -1.0, 1e300):
        report = sent(replace(UNKNOWN, origin=Origin(Stream.STDERR, wrong)))
        assert finding_of_report(report) == UNKNOWN


def test_a_stream_of_a_later_version_makes_it_unreadable() -> None:
    report = sent(replace(UNKNOWN, origin=Origin(None, 1.0)))
    report.stream = "syslog"
    assert finding_of_report(report) is None

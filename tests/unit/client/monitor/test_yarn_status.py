"""The queue of a job is the one that YARN reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.client.world import World, status
from yarnam.client.monitor.yarn_status import in_queue


@pytest.mark.parametrize(
    ("known", "requested", "reported", "shown"),
    [
        ("root.dl", "", "root.dl", ("root.dl", "")),
        ("root.dl", "", "dl", ("root.dl", "")),
        ("root.dl", "", "", ("root.dl", "")),
        ("root.dl", "", "root.shared", ("root.shared", "root.dl")),
        ("root.shared", "root.dl", "root.other", ("root.other", "root.dl")),
        ("root.shared", "root.dl", "root.dl", ("root.dl", "")),
    ],
)
def test_what_yarn_reports_counts(
    known: str, requested: str, reported: str, shown: tuple[str, str]
) -> None:
    found = in_queue(status(queue=known, requested_queue=requested), reported)
    assert (found.queue, found.requested_queue) == shown


def test_a_move_shows_before_the_applicationmaster_knows_of_it(tmp_path: Path) -> None:
    job = World(tmp_path).job(queue="root.other")
    assert job.status().queue == "root.other"
    assert job.status().requested_queue == "root.dl"

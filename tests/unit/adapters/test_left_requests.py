"""Requests that a job's owner leaves for the next ApplicationMaster."""

from __future__ import annotations

import getpass
from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_utils import connect
from yarnam.adapters.hdfs import job_store
from yarnam.adapters.hdfs.job_store import LeftRequests, leave_request
from yarnam.core.gang.am_attempts import is_obeyed
from yarnam.core.model.events import (
    CancelRequested,
    LeftRequest,
    ResumeRequested,
    ScaleRequested,
    SuspendRequested,
)
from yarnam.wire.codec import encode_event
from yarnam.wire.protocol import REQUESTS_DIRECTORY

OWNER = getpass.getuser()
SUSPEND = SuspendRequested(5.0, OWNER, 60.0, "a demo")
RESUME, SCALE = ResumeRequested(6.0, OWNER), ScaleRequested(7.0, OWNER, 4)


def test_they_are_read_in_order_and_once(tmp_path: Path) -> None:
    files, directory = connect("file:///"), str(tmp_path)
    assert LeftRequests(files, directory).read() == ()
    for request in (SUSPEND, RESUME, SCALE):
        leave_request(files, directory, request)
    left = LeftRequests(files, directory)
    assert left.read() == [SUSPEND, RESUME, SCALE]
    assert LeftRequests(files, directory).read() == [SUSPEND, RESUME, SCALE], "nobody obeyed them"
    left.forget()
    assert LeftRequests(files, directory).read() == []


def test_what_makes_no_sense_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, directory = connect("file:///"), str(tmp_path)
    place = tmp_path / REQUESTS_DIRECTORY
    place.mkdir()
    for number, content in enumerate(
        [
            b"",
            b"[]",
            b"{" * 1000,
            b"x" * (job_store.MAX_REQUEST_BYTES + 1),
            encode_event(CancelRequested(1.0, OWNER)),
            encode_event(replace(SUSPEND, limit_s=-1.0)),
            encode_event(replace(SUSPEND, limit_s=1e18)),
        ]
    ):
        (place / f"{number}.json").write_bytes(content)
    (place / "a-directory").mkdir()
    by_policy = replace(SCALE, by="root", is_policy=True, is_program=True, scheduled=9)
    (place / "z.json").write_bytes(encode_event(by_policy))
    assert LeftRequests(files, directory).read() == [SCALE], "by whoever has written the file"
    monkeypatch.setattr(job_store, "MAX_REQUESTS", 2)
    for number in range(3):
        (place / f"zz-{number}.json").write_bytes(encode_event(replace(SCALE, tasks=number)))
    assert [one.tasks for one in LeftRequests(files, directory).read()] == [1, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize("request_", [SUSPEND, RESUME, SCALE])
def test_one_that_the_journal_has_is_not_obeyed_again(request_: LeftRequest) -> None:
    later = replace(request_, at_s=request_.at_s + 3.0)
    assert is_obeyed(request_, [later])
    assert not is_obeyed(request_, [])
    assert not is_obeyed(later, [request_]), "an earlier one like it"
    assert not is_obeyed(request_, [replace(later, by="eve")])

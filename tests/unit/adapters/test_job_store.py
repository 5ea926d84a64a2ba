"""What happens to the journal while HDFS is away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hdfs_utils import errors as hdfs
from hdfs_utils.journal.log import AppendLog
from tests.fakes.files import MemoryFiles
from yarnam.adapters.hdfs.error_map import as_yarnam
from yarnam.adapters.hdfs.job_store import HdfsJournal
from yarnam.core.model.events import CancelRequested, Event
from yarnam.errors import ExitCode, Unavailable
from yarnam.ports import Superseded


def events(*names: str) -> list[Event]:
    return [CancelRequested(1.0, name) for name in names]


class Outage:
    """The next append fails, with the first ``survivors`` records written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, survivors: int) -> None:
        real = AppendLog.append

        def append(log: AppendLog, records: Sequence[bytes]) -> None:
            monkeypatch.setattr(AppendLog, "append", real)
            log.append(records[:survivors])
            raise hdfs.Unavailable("no answer", path="/j", operation="sync", outcome_unknown=True)

        monkeypatch.setattr(AppendLog, "append", append)


@pytest.mark.parametrize("survivors", [0, 1, 2])
def test_appending_again_after_an_outage_records_nothing_twice(
    monkeypatch: pytest.MonkeyPatch, survivors: int
) -> None:
    fs = MemoryFiles()
    journal = HdfsJournal(fs, "/j", 1)
    journal.replay()
    journal.append(events("a"))
    Outage(monkeypatch, survivors)
    with pytest.raises(Unavailable):
        journal.append(events("b", "c"))
    journal.append(events("b", "c"))
    journal.append(events("d"))
    assert list(HdfsJournal(fs, "/j", 2).replay()) == events("a", "b", "c", "d")


def test_a_newer_attempt_during_the_outage_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = MemoryFiles()
    journal = HdfsJournal(fs, "/j", 1)
    journal.replay()
    Outage(monkeypatch, 0)
    with pytest.raises(Unavailable):
        journal.append(events("a"))
    HdfsJournal(fs, "/j", 2).replay()
    with pytest.raises(Superseded):
        journal.append(events("a"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (hdfs.Unavailable("x"), ExitCode.UNAVAILABLE),
        (hdfs.SafeMode("x"), ExitCode.UNAVAILABLE),
        # The same as for the client: the user has to make room.
        (hdfs.QuotaExceeded("x"), ExitCode.NO_PERMISSION),
        (hdfs.LeaseConflict("x"), ExitCode.UNAVAILABLE),
        (hdfs.PermissionDenied("x"), ExitCode.NO_PERMISSION),
        (hdfs.Fenced("x"), ExitCode.INTERNAL),
        (hdfs.CorruptData("x"), ExitCode.UNAVAILABLE),
        (hdfs.NotADirectory("x"), ExitCode.BAD_CONFIG),
    ],
)
def test_hdfs_errors_in_yarnams_words(error: hdfs.HdfsError, code: ExitCode) -> None:
    said = as_yarnam(error, "journal /j")
    assert said.exit_code is code
    assert "journal /j" in said.message

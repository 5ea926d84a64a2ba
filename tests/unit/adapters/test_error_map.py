"""One map from HDFS's errors to yarnam's, whoever asks."""

from __future__ import annotations

import pytest

from hdfs_utils import TimeLimits
from hdfs_utils import errors as hdfs
from tests.fakes.files import MemoryFiles, fail_on
from yarnam.adapters.hdfs.error_map import as_yarnam, hdfs_errors
from yarnam.adapters.hdfs.job_store import HdfsJournal, HdfsStateStore
from yarnam.adapters.hdfs.small_files import SmallFiles
from yarnam.core.model.events import JobStarted
from yarnam.errors import (
    BadConfig,
    NoPermission,
    QuotaFull,
    Unavailable,
    WireMismatch,
    YarnamError,
)
from yarnam.ports import Superseded

MEANING: dict[type[hdfs.HdfsError], type[YarnamError]] = {
    hdfs.HdfsError: Unavailable,
    hdfs.NotFound: Unavailable,
    hdfs.AlreadyExists: BadConfig,
    hdfs.PermissionDenied: NoPermission,
    hdfs.NotAuthenticated: NoPermission,
    hdfs.NotADirectory: BadConfig,
    hdfs.IsADirectory: BadConfig,
    hdfs.DirectoryNotEmpty: BadConfig,
    hdfs.InvalidPath: BadConfig,
    hdfs.QuotaExceeded: QuotaFull,
    hdfs.Unavailable: Unavailable,
    hdfs.SafeMode: Unavailable,
    hdfs.Starting: Unavailable,
    hdfs.LeaseConflict: Unavailable,
    hdfs.LeaseLost: Unavailable,
    hdfs.Fenced: Superseded,
    hdfs.FencedByAnother: Superseded,
    hdfs.CorruptData: Unavailable,
    hdfs.MalformedData: WireMismatch,
    hdfs.NotSupported: BadConfig,
    hdfs.BadConfig: BadConfig,
    hdfs.NoCredentials: BadConfig,
}


def every(kind: type[hdfs.HdfsError]) -> set[type[hdfs.HdfsError]]:
    return {kind}.union(*(every(below) for below in kind.__subclasses__()))


def test_every_error_has_its_meaning() -> None:
    ours = {kind for kind in every(hdfs.HdfsError) if kind.__module__ == hdfs.__name__}
    assert ours == set(MEANING)
    for kind, meaning in MEANING.items():
        found = as_yarnam(kind("gone", path="/a"), "reading a")
        assert type(found) is meaning, kind
        assert found.message == "reading a: /a: gone"
        assert found.hint or meaning is Superseded


@pytest.mark.parametrize(
    ("error", "code"),
    [(hdfs.QuotaExceeded("full"), 77), (hdfs.PermissionDenied("no"), 77), (hdfs.SafeMode("s"), 69)],
)
def test_client_and_application_master_end_with_the_same_code(
    error: hdfs.HdfsError, code: int
) -> None:
    fs = MemoryFiles()
    fs.limits = TimeLimits(data_s=0.0)  # the journal gives up at once
    journal = HdfsJournal(fs, "/job/journal", 1)
    journal.replay()

    def client() -> None:
        with hdfs_errors("writing"):
            SmallFiles(fs).put("/job/a", b"a")

    def record() -> None:
        HdfsStateStore(fs, "/job", 1).put("status.json", b"{}")

    fs.fail = fail_on("write", error, times=99)
    for write in (client, record, lambda: journal.append([JobStarted(1.0)])):
        with pytest.raises(YarnamError) as caught:
            write()
        assert caught.value.exit_code == code

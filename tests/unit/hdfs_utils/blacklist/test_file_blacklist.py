"""Entries as files: where they go, who is believed, and that none is lost."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict

import pytest

from hdfs_utils.blacklist import FileBlacklist, KnownEntries, State, gather_entries, quarantine
from hdfs_utils.blacklist.file_blacklist import COMPACT_FROM
from hdfs_utils.blacklist.locations import DIRECTORY_NAME, guards, locations_for_writing
from hdfs_utils.blacklist.quarantine import quarantined, restore
from hdfs_utils.errors import AlreadyExists, NotFound, PermissionDenied
from hdfs_utils.filesystem import FileStatus
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.blacklist.makers import claim, entry

OPEN = "/tmp/open"


@pytest.fixture
def fs() -> MemoryFiles:
    files = MemoryFiles()
    files.write_bytes("/data/set/a/1.txt", b"x")
    return files


def store(fs: MemoryFiles) -> FileBlacklist:
    return FileBlacklist(fs, OPEN)


def test_the_highest_directory_that_is_no_top_comes_first() -> None:
    assert locations_for_writing("/data/set/a/1.txt") == ("/data/set", "/data/set/a", "/data")
    assert locations_for_writing("/data/1.txt") == ("/data",)
    assert locations_for_writing("/1.txt") == ()


def test_what_is_added_is_found_by_everybody_below(fs: MemoryFiles) -> None:
    added = entry("/data/set/a/1.txt")
    (where,) = store(fs).add([added])
    assert where.location == f"/data/set/{DIRECTORY_NAME}"
    assert where.is_trusted
    for path in ("/data/set", "/data/set/a", "/data/set/a/1.txt"):
        assert store(fs).read([path]).known == KnownEntries(gather_entries([added]))
    assert store(fs).read(["/data/set/b"]).known == KnownEntries(), "about no file of it"
    assert store(fs).read(["/data/set/a/1"]).known == KnownEntries()
    assert store(fs).read(["/other"]).known == KnownEntries()
    assert store(fs).read(["/data"], ["/data/set"]).known.trusted.entries.keys() == {added.key}


def test_who_may_not_write_there_goes_to_the_open_place(fs: MemoryFiles) -> None:
    def fail(operation: str, path: str) -> None:
        if path.startswith("/data") and operation in ("mkdirs", "create"):
            raise PermissionDenied("not yours", path=path)

    fs.fail = fail
    (where,) = store(fs).add([entry("/data/set/a/1.txt")])
    assert (where.location, where.is_trusted) == (OPEN, False)
    known = store(fs).read(["/data/set"]).known
    assert not known.trusted.entries
    assert len(known.open.entries) == 1
    assert fs.stat(OPEN).permission == 0o1777


def test_an_entry_speaks_only_for_what_lies_below_its_place(fs: MemoryFiles) -> None:
    fs.mkdirs("/home/mallory")
    store(fs).add([entry("/data/set/a/1.txt")], at="/home/mallory")
    assert store(fs).read(["/home/mallory", "/data/set"]).known == KnownEntries()


def test_a_file_speaks_for_its_owner_whatever_it_says(fs: MemoryFiles) -> None:
    store(fs).add([entry("/data/set/a/1.txt", claim(by="somebody-else"))])
    (found,) = store(fs).read(["/data/set"]).known.trusted.entries.values()
    assert {c.by for c in found.claims} == {"me"}


def _dir(permission: int, owner: str = "alice", group: str = "team") -> FileStatus:
    return FileStatus("/x", 0, True, 0, owner, group, permission, 0, 0)


@pytest.mark.parametrize(
    ("parent", "place", "below", "trusted"),
    [
        (_dir(0o755), _dir(0o755), "", True),
        (_dir(0o755), _dir(0o777), "", False),
        (_dir(0o755), _dir(0o775), "", False),
        (_dir(0o775), _dir(0o775), "", True),
        (_dir(0o775), _dir(0o775, "bob"), "", True),
        (_dir(0o775), _dir(0o775, group="all"), "", False),
        (_dir(0o755), _dir(0o755, "mallory"), "", False),
        (_dir(0o775), _dir(0o755, "mallory", group="all"), "", False),
        (_dir(0o777), _dir(0o755, "bob"), "", True),
        (_dir(0o777), _dir(0o777), "", True),
        (_dir(0o777), _dir(0o775, group="all"), "", True),
        # /tmp: everybody may make a place there, so whose it is decides.
        (_dir(0o1777, "root"), _dir(0o755, "mallory"), "alice", False),
        (_dir(0o1777, "root"), _dir(0o755, "alice"), "alice", True),
        (_dir(0o1777, "root"), _dir(0o755, "root"), "alice", True),
        (_dir(0o1777, "root"), _dir(0o777, "alice"), "alice", False),
    ],
)
def test_whom_to_believe(parent: FileStatus, place: FileStatus, below: str, trusted: bool) -> None:
    assert guards(parent, place, below) is trusted


def test_a_place_wider_than_its_directory_only_warns(fs: MemoryFiles) -> None:
    store(fs).add([entry("/data/set/a/1.txt")])
    fs.chmod(f"/data/set/{DIRECTORY_NAME}", 0o777)
    known = store(fs).read(["/data/set"]).known
    assert not known.trusted.entries
    assert len(known.open.entries) == 1


def test_twenty_writers_at_once_lose_nothing(fs: MemoryFiles) -> None:
    start = threading.Barrier(20)
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            own = store(fs)
            start.wait(10)
            for round_ in range(2):
                own.add([entry(f"/data/set/a/{number}-{round_}", claim(job=f"job{number}"))])
                own.add([entry("/data/set/a/1.txt", claim(job=f"job{number}"))])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    looked = store(fs).read(["/data/set"])
    assert not looked.problems
    trusted = looked.known.trusted
    assert {e.path for e in trusted.entries.values()} >= {
        f"/data/set/a/{n}-{r}" for n in range(20) for r in range(2)
    }
    (shared,) = trusted.of("/data/set/a/1.txt")
    assert {c.job for c in shared.claims} == {f"job{n}" for n in range(20)}
    # and compaction has kept the number of files within bounds
    assert len(fs.list(f"/data/set/{DIRECTORY_NAME}")) < 2 * COMPACT_FROM


def test_compaction_that_dies_before_it_deletes_changes_nothing(fs: MemoryFiles) -> None:
    own = store(fs)
    for number in range(5):
        own.add([entry("/data/set/a/1.txt", claim(job=f"job{number}"))])
    before = own.read(["/data/set"]).known

    def fail(operation: str, path: str) -> None:
        if operation == "delete":
            raise PermissionDenied("died here", path=path)

    fs.fail = fail
    own.compact(f"/data/set/{DIRECTORY_NAME}")
    fs.fail = lambda _operation, _path: None
    assert len(fs.list(f"/data/set/{DIRECTORY_NAME}")) == 6
    assert store(fs).read(["/data/set"]).known == before
    own.compact(f"/data/set/{DIRECTORY_NAME}")
    assert len(fs.list(f"/data/set/{DIRECTORY_NAME}")) == 1
    assert store(fs).read(["/data/set"]).known == before


def test_a_strange_file_in_a_place_is_named_and_not_counted(fs: MemoryFiles) -> None:
    store(fs).add([entry("/data/set/a/1.txt")])
    for name, content in {"x.json": b"{", "y.json": b"[]", "z.txt": b"notes"}.items():
        fs.write_bytes(f"/data/set/{DIRECTORY_NAME}/{name}", content)
    future = json.dumps({"yarnam-blacklist": 99, "entries": []}).encode()
    fs.write_bytes(f"/data/set/{DIRECTORY_NAME}/w.json", future)
    looked = store(fs).read(["/data/set"])
    assert len(looked.known.trusted.entries) == 1
    assert len(looked.problems) == 3


def test_quarantine_and_back(fs: MemoryFiles) -> None:
    status = fs.stat("/data/set/a/1.txt")
    moved = quarantine(fs, status, reason="bad-crc", by="me", at_s=7.0)
    assert not fs.exists("/data/set/a/1.txt")
    assert fs.read_bytes(moved.now) == b"x"
    assert quarantined(fs, ["/data/set/a", "/data/set", "/nowhere"]) == (moved,)
    fs.write_bytes("/data/set/a/1.txt", b"new")
    with pytest.raises(AlreadyExists, match="another file is at its place"):
        restore(fs, moved)
    fs.delete("/data/set/a/1.txt")
    restore(fs, moved)
    assert fs.read_bytes("/data/set/a/1.txt") == b"x"
    assert quarantined(fs, ["/data/set/a"]) == ()


def test_a_restore_moves_what_lies_in_the_quarantine_whatever_its_record_says(
    fs: MemoryFiles,
) -> None:
    """Who may write beside the data may plant records; who restores may read and move more."""
    fs.write_bytes("/home/owner/private", b"secret")
    moved = quarantine(fs, fs.stat("/data/set/a/1.txt"), reason="bad-crc", by="me", at_s=7.0)
    for lie in ({"now": "/home/owner/private"}, {"origin": "/data/set/a/other"}, {"length": -1}):
        told = {**asdict(moved), **lie}
        fs.write_bytes(moved.now + ".origin.json", json.dumps(told).encode(), overwrite=True)
        assert quarantined(fs, ["/data/set/a"]) == (moved,)
    bad = [b"[" * 3000, b"", b"\xff", b"{}", b'{"reason": 1e400}', b" " * 100_000]
    for number, content in enumerate(bad):
        planted = f"/data/set/a/.yarnam-quarantine/{number}.txt.0123456789ab"
        fs.write_bytes(planted, b"p")
        fs.write_bytes(f"{planted}.origin.json", content)
    fs.write_bytes("/data/set/a/.yarnam-quarantine/nameless", b"p")
    fs.write_bytes("/data/set/a/.yarnam-quarantine/nameless.origin.json", b"{}")
    found = quarantined(fs, ["/data/set/a"])
    assert [q.origin for q in found] == [f"/data/set/a/{n}.txt" for n in (0, 1, 1, 2, 3, 4, 5)]
    assert {q.reason for q in found} == {"bad-crc", "its record cannot be read"}
    restore(fs, next(q for q in found if q.reason == "bad-crc"))
    assert fs.read_bytes("/data/set/a/1.txt") == b"x"
    assert fs.read_bytes("/home/owner/private") == b"secret"


def test_a_quarantine_that_dies_in_between_loses_nothing(fs: MemoryFiles) -> None:
    status = fs.stat("/data/set/a/1.txt")

    def fail(operation: str, path: str) -> None:
        if operation == "rename" and path == "/data/set/a/1.txt":
            raise PermissionDenied("no", path=path)

    fs.fail = fail
    with pytest.raises(PermissionDenied):
        quarantine(fs, status, reason="bad-crc", by="me", at_s=7.0)
    fs.fail = lambda _operation, _path: None
    assert fs.read_bytes("/data/set/a/1.txt") == b"x"
    assert quarantined(fs, ["/data/set/a"]) == ()
    quarantine(fs, status, reason="bad-crc", by="me", at_s=7.0)
    quarantine(fs, status, reason="bad-crc", by="you", at_s=8.0)  # a second one of the same mind
    fs.delete("/data/set/a/.yarnam-quarantine", recursive=True)
    with pytest.raises(NotFound):
        quarantine(fs, status, reason="bad-crc", by="me", at_s=9.0)


def test_states_are_not_kept_in_the_files_but_follow_from_claims(fs: MemoryFiles) -> None:
    store(fs).add([entry("/data/set/a/1.txt", claim(at_s=1))])
    store(fs).add([entry("/data/set/a/1.txt", claim(State.CLEARED, at_s=2))])
    (found,) = store(fs).read(["/data/set"]).known.trusted.entries.values()
    assert {c.state for c in found.claims} == {State.PROVED, State.CLEARED}

"""Whoever may write to a place may leave anything there: readers go on, and are not exhausted."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import Any

import pytest

from hdfs_utils.blacklist import Entry, FileBlacklist, encode
from hdfs_utils.blacklist.entries import MAX_EVIDENCE, State, decode, new_claim
from hdfs_utils.blacklist.file_blacklist import COMPACT_FROM
from hdfs_utils.blacklist.locations import DIRECTORY_NAME
from hdfs_utils.blacklist.read_budget import (
    MAX_OPEN_BYTES,
    MAX_OPEN_CLAIMS,
    MAX_OPEN_FILE_BYTES,
    MAX_OPEN_FILES,
    ReadBudget,
)
from hdfs_utils.errors import MalformedData, NotFound
from hdfs_utils.filesystem import FileStatus
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.blacklist.makers import claim, entry

OPEN = "/tmp/open"


class OwnedFiles(MemoryFiles):
    """Files belong to whom the part of their name before the first ``-`` names."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def _status(self, plain: str, node: Any) -> FileStatus:
        status = super()._status(plain, node)
        owner, dash, _ = plain.rpartition("/")[2].partition("-")
        return replace(status, owner=owner) if dash and not status.is_dir else status

    def open_reader(self, path: str) -> Any:
        self.opened.append(path)
        return super().open_reader(path)


@pytest.fixture
def fs() -> OwnedFiles:
    files = OwnedFiles()
    files.write_bytes("/data/set/1.txt", b"x")
    put(files, "ann-1", entry("/data/set/1.txt"))
    return files


def put(fs: MemoryFiles, name: str, *content: Any) -> None:
    data = content[0] if isinstance(content[0], bytes) else encode(content)
    fs.write_bytes(f"{OPEN}/{name}.json", data)


def known_of(fs: MemoryFiles, owner: str) -> list[str]:
    found = FileBlacklist(fs, OPEN).read(["/data/set"]).known.open.entries.values()
    return [e.path for e in found if any(c.by == owner for c in e.claims)]


def changed(**fields: Any) -> bytes:
    plain = json.loads(encode([entry("/data/set/2.txt")]))
    plain["entries"][0].update(fields)
    return json.dumps(plain).encode()


def changed_claim(**fields: Any) -> bytes:
    one = json.loads(encode([entry("/data/set/2.txt")]))["entries"][0]["claims"][0]
    return changed(claims=[{**one, **fields}])


def raw(text: str) -> bytes:
    return changed(length="HERE").replace(b'"HERE"', text.encode())


HOSTILE = [
    b"[" * 3000,
    b'{"yarnam-blacklist": 1, "entries": ' + b"[" * 100_000,
    b'{"a":' * 3000,
    b"\xff\xfe",
    b"",
    b"null",
    b"7" * 100_000,
    b'{"yarnam-blacklist": 1e400, "entries": []}',
    b'{"yarnam-blacklist": 1, "entries": {"a": 1}}',
    b'{"yarnam-blacklist": 1, "entries": [[]]}',
    raw("1e400"),
    raw("-1"),
    raw("1.5"),
    raw("NaN"),
    raw("9" * 5000),
    changed(mtime_ms=True),
    changed(path="data/set/2.txt"),
    changed(path=["/data/set/2.txt"]),
    changed(path="/data/set/\ud800"),
    changed(records=[1]),
    changed(records=[1, 2, 3]),
    changed(records="12"),
    changed(claims=[]),
    changed(claims=None),
    changed_claim(state="banned"),
    changed_claim(state=["proved"]),
    changed_claim(last_s=1e300),
    changed_claim(first_s=-1),
    changed_claim(expires_s="soon"),
    changed_claim(evidence="e" * (MAX_EVIDENCE + 1)),
    changed_claim(by=None),
]


@pytest.mark.parametrize("content", HOSTILE)
def test_nothing_that_lies_there_stops_a_reader(fs: OwnedFiles, content: bytes) -> None:
    put(fs, "mallory-1", content)
    put(fs, "zoe-1", entry("/data/set/3.txt"))
    looked = FileBlacklist(fs, OPEN).read(["/data/set"])
    assert [e.path for e in looked.known.open.entries.values()] == [
        "/data/set/1.txt",
        "/data/set/3.txt",
    ]
    (problem,) = looked.problems
    assert problem.startswith(f"{OPEN}/mallory-1.json: ")
    assert len(problem) < 500
    assert problem.isprintable()
    with pytest.raises(MalformedData):
        decode(content)


def test_the_same_beside_the_data(fs: OwnedFiles) -> None:
    """In a place that is trusted, too: none but the file itself is lost."""
    blacklist = FileBlacklist(fs, OPEN)
    blacklist.add([entry("/data/set/1.txt")])
    for number, content in enumerate(HOSTILE):
        fs.write_bytes(f"/data/set/{DIRECTORY_NAME}/me-{number}.json", content)
    looked = blacklist.read(["/data/set"])
    assert len(looked.known.trusted.entries) == 1
    assert len(looked.problems) == 4, "three by name, the others counted"
    blacklist.compact(f"/data/set/{DIRECTORY_NAME}")
    assert blacklist.read(["/data/set"]).known == looked.known


def flood(fs: OwnedFiles, size: int, count: int) -> None:
    claims = [claim(job=f"job{n}") for n in range(size // 200)]
    for number in range(count):
        put(fs, f"mallory-{number}", entry(f"/data/set/m{number}", *claims))


@pytest.mark.long
def test_a_flood_crowds_out_itself_alone(fs: OwnedFiles) -> None:
    flood(fs, 512 << 10, 30)
    put(fs, "zoe-1", entry("/data/set/3.txt"))
    fs.opened.clear()
    looked = FileBlacklist(fs, OPEN).read(["/data/set"])
    found = looked.known.open.entries.values()
    assert sum(fs.stat(path).length for path in fs.opened) <= MAX_OPEN_BYTES
    assert 5000 < sum(len(e.claims) for e in found) <= MAX_OPEN_CLAIMS
    assert known_of(fs, "ann") == ["/data/set/1.txt"]
    assert known_of(fs, "zoe") == ["/data/set/3.txt"]
    newest = {f"/data/set/m{number}" for number in (29, 28)}
    assert newest <= set(known_of(fs, "mallory"))
    assert "files were read" in looked.problems[0]
    assert "too many" in looked.problems[-1]


def test_a_large_file_is_not_read_and_thousands_of_small_ones_do_not_hide_another(
    fs: OwnedFiles,
) -> None:
    put(fs, "mallory-large", b" " * (MAX_OPEN_FILE_BYTES + 1))
    for number in range(MAX_OPEN_FILES + 5):
        put(fs, f"mallory-{number}", b"")
    fs.opened.clear()
    looked = FileBlacklist(fs, OPEN).read(["/data/set"])
    assert len(fs.opened) == MAX_OPEN_FILES
    assert f"{OPEN}/mallory-large.json" not in fs.opened
    assert known_of(fs, "ann") == ["/data/set/1.txt"]
    assert len(looked.problems) == 5


def test_all_open_places_of_a_read_share_one_budget() -> None:
    budget = ReadBudget(files=3, bytes=250, claims=3)
    files = [replace(_status("a"), mtime_ms=n, path=f"/{n}") for n in range(4)]
    assert [f.path for f in budget.choose(files)] == ["/3", "/2"]
    assert budget.choose([replace(_status("b"), length=51)]) == []
    assert len(budget.choose([replace(_status("b"), length=50)])) == 1
    assert budget.choose([replace(_status("c"), length=0)]) == []
    assert len(budget.keep([entry("/a"), entry("/b")])) == 2
    two = entry("/c", claim(job="1"), claim(job="2"))
    assert budget.keep([two, entry("/d")]) == []


def _status(owner: str) -> FileStatus:
    return FileStatus(f"/{owner}", 100, False, 0, owner, "us", 0o644, 1, 128)


def test_what_is_about_other_files_is_not_kept(fs: OwnedFiles) -> None:
    put(fs, "mallory-1", *(entry(f"/other/{number}") for number in range(2000)))
    put(fs, "mallory-2", entry("/data/setting/1"), entry("/data/set"))
    blacklist = FileBlacklist(fs, OPEN)
    gc.collect()
    before = sum(isinstance(one, Entry) for one in gc.get_objects())
    looked = blacklist.read(["/data/set"])
    gc.collect()
    kept = sum(isinstance(one, Entry) for one in gc.get_objects()) - before
    assert {e.path for e in looked.known.open.entries.values()} == {"/data/set", "/data/set/1.txt"}
    assert kept < 10


def test_nothing_is_read_twice_not_even_what_is_of_no_use(fs: OwnedFiles) -> None:
    put(fs, "mallory-1", b"[" * 3000)
    blacklist = FileBlacklist(fs, OPEN)
    first = blacklist.read(["/data/set"])
    fs.opened.clear()
    assert blacklist.read(["/data/set"]) == first
    assert fs.opened == []
    put(fs, "zoe-1", entry("/data/set/3.txt"))
    fs.delete(f"{OPEN}/mallory-1.json")
    second = blacklist.read(["/data/set"])
    assert fs.opened == [f"{OPEN}/zoe-1.json"]
    assert (len(second.known.open.entries), second.problems) == (2, ())
    # another question about the same files
    assert len(blacklist.read(["/data/set/3.txt"]).known.open.entries) == 1


def test_who_takes_files_away_all_the_time_hides_no_others(fs: OwnedFiles) -> None:
    put(fs, "mallory-1", entry("/data/set/2.txt"))

    def fail(operation: str, path: str) -> None:
        if operation == "open" and "mallory" in path:
            raise NotFound("gone", path=path)

    fs.fail = fail
    looked = FileBlacklist(fs, OPEN).read(["/data/set"])
    assert [e.path for e in looked.known.open.entries.values()] == ["/data/set/1.txt"]
    assert not looked.problems


def test_a_file_that_grows_after_it_was_listed(fs: OwnedFiles) -> None:
    put(fs, "mallory-1", entry("/data/set/2.txt"))

    def grow(operation: str, path: str) -> None:
        if operation == "open" and "mallory" in path:
            fs.fail = lambda _operation, _path: None
            fs.write_bytes(path, b" " * (1 << 20), overwrite=True)

    fs.fail = grow
    looked = FileBlacklist(fs, OPEN).read(["/data/set"])
    assert "longer than" in looked.problems[0]
    assert len(looked.known.open.entries) == 1


def test_honest_words_of_any_length_are_read(fs: OwnedFiles) -> None:
    long = new_claim(State.PROVED, "me", "r" * 5000, "e" * 50_000, now_s=1.0)
    many = [entry(f"/data/set/{n}", long) for n in range(1000)]
    fs.fail = _no_rights_in_data
    (where,) = FileBlacklist(fs, OPEN).add(many)
    assert where.location == OPEN
    looked = FileBlacklist(fs, OPEN).read(["/data/set"])
    assert len(looked.known.open.entries) == 1001
    assert not looked.problems


def _no_rights_in_data(operation: str, path: str) -> None:
    from hdfs_utils.errors import PermissionDenied

    if path.startswith("/data") and operation in ("mkdirs", "create"):
        raise PermissionDenied("not yours", path=path)


def test_compaction_writes_no_file_that_is_too_large_to_be_read(
    fs: OwnedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("entries", "location_reader", "file_blacklist"):
        monkeypatch.setattr(f"hdfs_utils.blacklist.{module}.MAX_FILE_BYTES", 20_000)
    blacklist = FileBlacklist(fs, OPEN)
    for number in range(2 * COMPACT_FROM + 5):
        words = new_claim(State.PROVED, "me", "bad", "e" * 1000, job=f"job{number}", now_s=5.0)
        blacklist.add([entry("/data/set/1.txt", words)])
    looked = blacklist.read(["/data/set"])
    assert not looked.problems
    (found,) = looked.known.trusted.entries.values()
    assert len(found.claims) == 2 * COMPACT_FROM + 5

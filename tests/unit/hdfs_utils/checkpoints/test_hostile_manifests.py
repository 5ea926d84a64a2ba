"""A manifest is the word of whoever may write beside the checkpoints: it is checked, not believed.

Its seal and its checksums are no secret, so all here are right but the content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdfs_utils import checkpoints
from hdfs_utils.checkpoints import Checkpointer, LocalFile, SkippedCheckpoint, export
from hdfs_utils.checkpoints.format import manifest as mf
from hdfs_utils.errors import AlreadyExists, CorruptData
from tests.fakes.files import MemoryFiles

HOME = "/ckpt"


def sealed(content: Any) -> bytes:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def forge(fs: MemoryFiles, path: str, change: Callable[[Any], Any]) -> None:
    place = f"{path}/{checkpoints.MANIFEST}"
    content = json.loads(fs.read_bytes(place).rpartition(b"\n")[0].rpartition(b"\n")[0])
    changed = change(content)
    fs.write_bytes(place, sealed(content if changed is None else changed), overwrite=True)


@pytest.fixture
def fs() -> MemoryFiles:
    files = MemoryFiles()
    checkpoints.save(HOME, 1, {"good": b"older"}, fs=files)
    values = {"plain": b"#!/bin/sh\n", "w": np.arange(6, dtype="<f4").reshape(2, 3)}
    checkpoints.save(HOME, 2, values, fs=files)
    return files


def newest(fs: MemoryFiles) -> str:
    return max(s.path for s in fs.list(HOME) if "/step-" in s.path)


@pytest.mark.parametrize("name", ["../../escaped", "{outside}", "a/../../../b", "", "a//b", "a\0b"])
@pytest.mark.parametrize("which", [0, 1])
def test_no_name_leads_out_of_the_directory_that_is_exported_to(
    fs: MemoryFiles, tmp_path: Path, name: str, which: int
) -> None:
    outside = tmp_path / "outside"

    def rename(content: Any) -> None:
        content["shards"][0]["entries"][which]["name"] = name.format(outside=outside)

    forge(fs, newest(fs), rename)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CorruptData, match="cannot be the name"):
        export.export(checkpoints.open_checkpoint(newest(fs), fs=fs), tmp_path / "a/b/to")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_in_the_draft_is_not_followed(fs: MemoryFiles, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/file").write_bytes(b"mine")
    checkpoints.save(HOME, 3, {"a": b"1", "sub/b": b"2", "c": b"3"}, fs=fs)

    class Planting(checkpoints.OpenCheckpoint):
        def plain(self, name: str) -> bytes:
            [draft] = tmp_path.glob(".to.*.tmp")
            links = {"a": ("sub", "private"), "sub/b": ("c", "private/file")}
            if name in links:
                link, where = links[name]
                (draft / link).symlink_to(tmp_path / where)
            return super().plain(name)

    opened = Planting(fs, checkpoints.read_manifest(fs, newest(fs)))
    with pytest.raises(CorruptData, match="leads out"):
        export.export(opened, tmp_path / "to")
    checkpoints.save(HOME, 4, {"sub/b": b"2", "c": b"3"}, fs=fs)
    opened = Planting(fs, checkpoints.read_manifest(fs, newest(fs)))
    with pytest.raises(AlreadyExists, match="do not go together"):
        export.export(opened, tmp_path / "to")
    assert (tmp_path / "private/file").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.rglob("*")] == ["private", "file"]


def test_names_that_do_not_go_together_as_files(fs: MemoryFiles, tmp_path: Path) -> None:
    for step, values in enumerate(({"a": b"", "a/b": b""}, {"x": np.ones(1), "x.npy": b""}), 3):
        checkpoints.save(HOME, step, values, fs=fs)
        with pytest.raises(AlreadyExists, match="do not go together"):
            export.export(checkpoints.open_checkpoint(newest(fs), fs=fs), tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


def put(*path: Any) -> Callable[[Any], None]:
    """A change: the last of ``path`` where the others lead to; ``...`` takes a key away."""
    *way, key, value = path

    def change(content: Any) -> None:
        for part in way:
            content = content[part]
        if value is ...:
            del content[key]
        else:
            content[key] = value

    return change


ENTRY = ("shards", 0, "entries", 1)
MALFORMED = [
    *[put(key, ...) for key in ("format", "chunk", "step", "epoch", "shards", "metrics", "writer")],
    put("step", -1),
    put("step", "2"),
    put("step", True),
    put("step", 10**30),
    put("saved_ms", 10**18),
    put("metrics", {"loss": "low"}),
    put("metrics", {"loss": float("nan")}),
    put("metrics", {"loss": 10**400}),
    put("writer", []),
    put("metadata", None),
    put("shards", None),
    put("shards", [7]),
    put("shards", 0, "file", "../x"),
    put("shards", 0, "file", "/etc/passwd"),
    put("shards", 0, "file", "a/b"),
    put("shards", 0, "file", ".."),
    put("shards", 0, "file", 7),
    put("shards", 0, "length", -1),
    put("shards", 0, "length", 1),
    put("shards", 0, "data_length", 10**12),
    put("shards", 0, "chunks", ""),
    put("shards", 0, "chunks", "+0000000"),
    put("shards", 0, "crc32c", "-1"),
    put("shards", 0, "entries", {"a": 1}),
    put(*ENTRY, "offset", -24),
    put(*ENTRY, "length", 10**9),
    put(*ENTRY, "length", 1.5),
    put(*ENTRY, "array", ["<f4", [2, 3], [0, 0]]),
    put(*ENTRY, "array", ["<f4", [2, 3], [0, 0], [2, 4]]),
    put(*ENTRY, "array", ["<f4", [10**9, 3], [0, 0], [2, 3]]),
    put(*ENTRY, "array", ["<f4", [-2, -3], [0, 0], [-2, -3]]),
    put(*ENTRY, "array", ["f4,f4", [2, 3], [0, 0], [2, 3]]),
    put(*ENTRY, "array", [7, [2, 3], [0, 0], [2, 3]]),
    put(*ENTRY, "array", "<f4"),
    put(*ENTRY, "name", ["w"]),
    lambda _content: [],
    lambda _content: b"[" * 100_000,
    lambda _content: b"\xff",
    lambda _content: b"1" * 5_000,
]


@pytest.mark.parametrize("change", MALFORMED)
def test_what_no_save_writes_is_corrupt_and_an_older_one_is_taken(
    fs: MemoryFiles, change: Callable[[Any], Any]
) -> None:
    bad = newest(fs)
    forge(fs, bad, change)
    skipped: list[SkippedCheckpoint] = []
    found = checkpoints.load_latest(HOME, fs=fs, report=skipped.append)
    assert found is not None
    assert found[0].step == 1
    assert [one.path for one in skipped] == [bad]
    assert len(skipped[0].reason) < 1000
    with Checkpointer(HOME, fs=fs, report=skipped.append) as one:
        restored = one.restore(lambda opened: opened.plain("good"))
    assert restored is not None
    assert restored[1] == b"older"


@pytest.mark.parametrize("dtype", ["|O", "<f8", "|S1000000", "finfo", "nonsense", "V8"])
def test_an_array_of_another_type_than_its_bytes(fs: MemoryFiles, dtype: str) -> None:
    forge(fs, newest(fs), put(*ENTRY, "array", [dtype, [2, 3], [0, 0], [2, 3]]))
    opened = checkpoints.open_checkpoint(newest(fs), fs=fs)
    with pytest.raises(CorruptData):
        opened.array("w")


def test_a_footer_is_checked_like_a_manifest(fs: MemoryFiles) -> None:
    plain = {"name": "a", "offset": 0, "length": 5}
    assert mf.decode_entry(plain, 0, 5) == mf.Entry("a", 0, 0, 5)
    with pytest.raises(ValueError, match="outside of its shard"):
        mf.decode_entry(plain, 0, 4)
    with pytest.raises(ValueError, match="cannot be the name"):
        mf.decode_entry({**plain, "name": "../a"}, 0, 5)


def test_names_that_were_always_fine_still_are(fs: MemoryFiles, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    values = {".hidden": b"1", "a b/ü": b"2", "...": b"3", "f\udc80": LocalFile(tmp_path / "f")}
    dated = np.array(["2020-01-01"], "datetime64[25s]")
    others = {"e": np.zeros((0, 4)), "t": dated, "u": np.array(["ab"]), "s": np.float64(2)}
    checkpoints.save(HOME, 9, {**values, **others}, {"deep": [[]]}, metrics={"n": 1}, fs=fs)
    opened = checkpoints.open_checkpoint(newest(fs), fs=fs)
    assert opened.plain("...") == b"3"
    assert opened.array("t") == dated
    assert len(export.export(opened, tmp_path / "to")) == 8

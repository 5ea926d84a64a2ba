"""Files and trees: whole at their final name or not there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hdfs_utils import transfer
from hdfs_utils.backends.local import LocalFileSystem
from hdfs_utils.errors import AlreadyExists, InvalidPath, NotFound, Unavailable
from hdfs_utils.filesystem import TimeLimits
from hdfs_utils.transfer.tree_manifest import ListedFile, read_manifest
from tests.fakes.files import MemoryFiles, fail_on


@pytest.fixture
def fs() -> MemoryFiles:
    files = MemoryFiles()
    files.limits = TimeLimits(outage_s=0.0)
    return files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "pkg" / "empty").mkdir(parents=True)
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "pkg" / "a b.py").write_bytes(b"x" * (transfer.PIECE + 1))
    (root / "pkg" / "zero").touch()
    (root / "link").symlink_to("run.sh")
    return root


def names(fs: MemoryFiles, path: str) -> list[str]:
    return [s.path.removeprefix(path) for s in fs.walk(path)]


def test_a_file_there_and_back(fs: MemoryFiles, tmp_path: Path) -> None:
    source, back = tmp_path / "a", tmp_path / "b"
    source.write_bytes(os.urandom(transfer.PIECE * 2 + 5))
    assert transfer.put_file(fs, source, "/d/a") == transfer.PIECE * 2 + 5
    back.write_bytes(b"old")
    assert transfer.get_file(fs, "/d/a", back) == transfer.PIECE * 2 + 5
    assert back.read_bytes() == source.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    with pytest.raises(AlreadyExists):
        transfer.put_file(fs, source, "/d/a", overwrite=False)


def test_a_broken_download_leaves_the_old_file(fs: MemoryFiles, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(NotFound):
        transfer.get_file(fs, "/missing", tmp_path / "a")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_tree_there_and_back(fs: MemoryFiles, tree: Path, tmp_path: Path) -> None:
    sent = transfer.put_tree(fs, tree, "/stage/tree")
    assert (sent.files, sent.size) == (4, transfer.PIECE + 1 + 2 * len("#!/bin/sh\n"))
    expected = ["/link", "/pkg", "/pkg/a b.py", "/pkg/empty", "/pkg/zero", "/run.sh"]
    assert names(fs, "/stage/tree") == expected
    assert names(fs, "/stage") == ["/tree", *(f"/tree{name}" for name in expected)]
    back = tmp_path / "x" / "back"
    assert transfer.get_tree(fs, "/stage/tree", back) == sent
    assert transfer.sha256_tree(back) == transfer.sha256_tree(tree)
    assert os.access(back / "run.sh", os.X_OK)
    assert not os.access(back / "pkg" / "zero", os.X_OK)


def test_nothing_is_replaced(fs: MemoryFiles, tree: Path, tmp_path: Path) -> None:
    fs.write_bytes("/stage/tree/old", b"")
    with pytest.raises(AlreadyExists):
        transfer.put_tree(fs, tree, "/stage/tree")
    assert names(fs, "/stage") == ["/tree", "/tree/old"]
    with pytest.raises(FileExistsError):
        transfer.get_tree(fs, "/stage/tree", tmp_path)


@pytest.mark.parametrize("operation", ["create", "write", "close", "chmod", "rename"])
def test_a_broken_upload_leaves_nothing(fs: MemoryFiles, tree: Path, operation: str) -> None:
    fs.mkdirs("/stage")
    fs.fail = fail_on(operation, Unavailable("down"), times=99)
    with pytest.raises(Unavailable):
        transfer.put_tree(fs, tree, "/stage/tree")
    assert names(fs, "/stage") == []


def test_a_broken_tree_download_leaves_nothing(fs: MemoryFiles, tree: Path, tmp_path: Path) -> None:
    transfer.put_tree(fs, tree, "/stage/tree")
    fs.fail = fail_on("open", Unavailable("down"), times=99)
    (tmp_path / "down").mkdir()
    with pytest.raises(Unavailable):
        transfer.get_tree(fs, "/stage/tree", tmp_path / "down" / "tree")
    assert list((tmp_path / "down").iterdir()) == []


def test_what_cannot_be_sent_is_refused_before_anything_is(fs: MemoryFiles, tree: Path) -> None:
    (tree / "loop").symlink_to(tree)
    with pytest.raises(InvalidPath, match="symbolic link"):
        transfer.put_tree(fs, tree, "/stage/tree")
    (tree / "loop").unlink()
    os.mkfifo(tree / "pipe")
    with pytest.raises(InvalidPath, match="neither"):
        transfer.put_tree(fs, tree, "/stage/tree")
    (tree / "pipe").unlink()
    (tree / "dangling").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError):
        transfer.put_tree(fs, tree, "/stage/tree")
    assert not fs.exists("/stage")


def test_the_hash_of_a_tree_tells_content_names_and_modes_apart(tree: Path, tmp_path: Path) -> None:
    first = transfer.sha256_tree(tree)
    os.utime(tree / "run.sh", (1, 1))
    assert transfer.sha256_tree(tree) == first
    seen = {first}
    for change in (
        lambda: (tree / "pkg" / "zero").write_bytes(b"1"),
        lambda: (tree / "pkg" / "zero").chmod(0o755),
        lambda: (tree / "pkg" / "zero").rename(tree / "pkg" / "one"),
        lambda: (tree / "pkg" / "empty").rmdir(),
    ):
        change()
        seen.add(transfer.sha256_tree(tree))
    assert len(seen) == 5
    # Moving bytes from one file to its neighbour is a change, too.
    for left, right in ((b"ab", b"c"), (b"a", b"bc")):
        (tmp_path / "t").mkdir(exist_ok=True)
        (tmp_path / "t" / "1").write_bytes(left)
        (tmp_path / "t" / "2").write_bytes(right)
        seen.add(transfer.sha256_tree(tmp_path / "t"))
    assert len(seen) == 7
    assert transfer.sha256_tree(tmp_path / "t" / "1") != transfer.sha256_tree(tmp_path / "t" / "2")


# ---- the manifest of a tree -----------------------------------------------------------------


def put(fs: MemoryFiles, source: Path, target: str, *, manifest: bool = True) -> None:
    options = transfer.Options(overwrite=True, manifest=manifest, resume=False)
    transfer.copy(LocalFileSystem(), str(source), fs, target, options)


def is_true(fs: MemoryFiles, root: str) -> bool:
    """Whether the manifest lists exactly the files, each as it is."""
    listed = read_manifest(fs, root)
    files = {s.path.removeprefix(f"{root}/"): s.path for s in fs.walk(root) if not s.is_dir}
    files = {name: path for name, path in files.items() if not name.startswith("_")}
    found = {name: ListedFile(fs.stat(p).length, fs.crc32c([p])[0]) for name, p in files.items()}
    return listed == found


@pytest.mark.parametrize("manifest", [True, False])
def test_a_replaced_file_stays_in_its_trees_manifest(
    fs: MemoryFiles, tree: Path, tmp_path: Path, *, manifest: bool
) -> None:
    put(fs, tree, "/d/t")
    assert is_true(fs, "/d/t")
    other = tmp_path / "other"
    other.write_bytes(b"other bytes")
    put(fs, other, "/d/t/pkg/a b.py", manifest=manifest)
    assert fs.read_bytes("/d/t/pkg/a b.py") == b"other bytes"
    assert is_true(fs, "/d/t")


def test_a_new_file_and_a_replaced_directory_are_listed(
    fs: MemoryFiles, tree: Path, tmp_path: Path
) -> None:
    put(fs, tree, "/d/t")
    put(fs, tree / "run.sh", "/d/t/new.sh")
    assert is_true(fs, "/d/t")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "one").write_bytes(b"1")
    put(fs, tmp_path / "pkg", "/d/t/pkg", manifest=False)
    assert is_true(fs, "/d/t")


def test_a_file_in_the_place_of_a_directory_takes_its_entries_along(
    fs: MemoryFiles, tree: Path
) -> None:
    put(fs, tree, "/d/t")
    shutil.rmtree(tree / "pkg")
    (tree / "pkg").write_text("a file now")
    transfer.sync(LocalFileSystem(), str(tree), fs, "/d/t")
    listed = read_manifest(fs, "/d/t")
    assert listed is not None
    assert "pkg" in listed
    assert [name for name in listed if name.startswith("pkg/")] == []


def test_a_sync_keeps_the_manifest_true(fs: MemoryFiles, tree: Path) -> None:
    put(fs, tree, "/d/t")
    (tree / "run.sh").write_text("#!/bin/bash\n")
    (tree / "more").write_text("more")
    (tree / "pkg" / "zero").unlink()
    transfer.sync(LocalFileSystem(), str(tree), fs, "/d/t", delete=True)
    assert is_true(fs, "/d/t")
    (tree / "more").unlink()
    transfer.sync(LocalFileSystem(), str(tree), fs, "/d/t", delete=True)
    assert is_true(fs, "/d/t")


def test_a_break_leaves_a_file_unlisted_never_listed_wrongly(
    fs: MemoryFiles, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(fs, tree, "/d/t")
    other = tmp_path / "other"
    other.write_bytes(b"other bytes")
    rename = fs.rename

    def breaks(src: str, dst: str, overwrite: bool = False) -> None:
        if dst == "/d/t/run.sh":
            raise KeyboardInterrupt
        rename(src, dst, overwrite)

    monkeypatch.setattr(fs, "rename", breaks)
    with pytest.raises(KeyboardInterrupt):
        put(fs, other, "/d/t/run.sh")
    listed = read_manifest(fs, "/d/t")
    assert listed is not None
    assert "run.sh" not in listed
    assert "pkg/zero" in listed


def test_a_damaged_manifest_is_left_alone(fs: MemoryFiles, tree: Path) -> None:
    put(fs, tree, "/d/t")
    fs.write_bytes("/d/t/_MANIFEST.jsonl", b"{broken", overwrite=True)
    put(fs, tree / "run.sh", "/d/t/run.sh")
    assert fs.read_bytes("/d/t/_MANIFEST.jsonl") == b"{broken"

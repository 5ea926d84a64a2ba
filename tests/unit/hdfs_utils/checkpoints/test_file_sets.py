"""Sets of files as checkpoints: read without links, proved by their format, restored whole."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from pathlib import Path

import pytest

from hdfs_utils import checkpoints, errors
from hdfs_utils.checkpoints import Checkpointer, OpenCheckpoint, Retention, Token, file_sets
from hdfs_utils.checkpoints.file_sets import FileChanged, FileVersion, SetDraft, save_set

JOB = "application_1700000000000_0001"


def zipped(content: bytes = b"weights" * 100) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        # With a time of their own: two archives of one test may be made in two seconds.
        archive.writestr(zipfile.ZipInfo("archive/data.pkl"), content)
        archive.writestr(zipfile.ZipInfo("archive/data/0"), content)
    return data.getvalue()


def tensors(size: int = 400) -> bytes:
    header = {"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


def saver(root: Path, attempt: int = 1, keep: int = 3) -> Checkpointer:
    return Checkpointer(f"file://{root}", token=Token(JOB, (attempt,)), retention=Retention(keep))


def versions(directory: Path) -> dict[str, FileVersion]:
    return {
        path.relative_to(directory).as_posix(): FileVersion.of(path.stat())
        for path in directory.rglob("*")
        if path.is_file()
    }


def restored(root: Path, target: Path, attempt: int = 2) -> SetDraft:
    draft = SetDraft(target)
    assert saver(root, attempt).restore(draft.add) is not None
    draft.publish()
    return draft


@pytest.fixture
def local(tmp_path: Path) -> Path:
    directory = tmp_path / "work" / "ckpt"
    (directory / "deep").mkdir(parents=True)
    (directory / "model.pt").write_bytes(zipped())
    (directory / "deep" / ("n" * 255)).write_bytes(b"x" * 10_000_000)
    os.utime(directory / "model.pt", ns=(5_000_000_007, 5_000_000_007))
    return directory


def test_a_set_comes_back_byte_by_byte_with_its_times(local: Path, tmp_path: Path) -> None:
    saved = save_set(saver(tmp_path / "kept"), local, versions(local), {"ranks": [0, 0]})
    assert (saved.step, file_sets.is_set(saved)) == (1, True)
    target = tmp_path / "again"
    draft = restored(tmp_path / "kept", target)
    assert (draft.files, draft.size) == (2, 10_000_000 + len(zipped()))
    for name in versions(local):
        assert (target / name).read_bytes() == (local / name).read_bytes()
        assert (target / name).stat().st_mtime_ns == (local / name).stat().st_mtime_ns
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_sets_are_numbered_over_attempts_and_the_newest_stay(local: Path, tmp_path: Path) -> None:
    root = tmp_path / "kept"
    numbers = [
        save_set(saver(root, attempt, keep=2), local, versions(local), {}).step
        for attempt in (1, 1, 2, 2, 3)
    ]
    assert numbers == [1, 2, 3, 4, 5]
    found = [one for one in root.iterdir() if one.name.startswith("step-")]
    assert sorted(int(one.name[5:15]) for one in found) == [4, 5]


@pytest.mark.parametrize("change", ["grow", "replace", "same size", "delete", "link", "fifo"])
def test_a_file_that_is_not_the_one_that_was_seen_is_not_saved(
    change: str, local: Path, tmp_path: Path
) -> None:
    seen, model = versions(local), local / "model.pt"
    match change:
        case "grow":
            model.write_bytes(model.read_bytes() + b"more")
        case "replace":
            other = local.parent / "other"
            other.write_bytes(model.read_bytes())
            os.utime(other, ns=(5_000_000_007, 5_000_000_007))
            other.replace(model)
        case "same size":
            model.write_bytes(bytes(model.stat().st_size))
        case "delete":
            model.unlink()
        case "link":
            model.rename(local.parent / "target")
            model.symlink_to(local.parent / "target")
        case _:
            model.unlink()
            os.mkfifo(model)
    with pytest.raises(FileChanged):
        save_set(saver(tmp_path / "kept"), local, seen, {})
    assert checkpoints.latest(f"file://{tmp_path}/kept") is None


def test_a_directory_that_became_a_link_leads_nowhere(local: Path, tmp_path: Path) -> None:
    seen = versions(local)
    (local / "deep").rename(tmp_path / "elsewhere")
    (local / "deep").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileChanged):
        save_set(saver(tmp_path / "kept"), local, seen, {})


def test_an_older_attempt_saves_no_set(local: Path, tmp_path: Path) -> None:
    older = saver(tmp_path / "kept", 1)
    save_set(older, local, versions(local), {})
    save_set(saver(tmp_path / "kept", 2), local, versions(local), {})
    with pytest.raises(errors.Fenced):
        save_set(older, local, versions(local), {})


def test_nothing_is_restored_over_files(local: Path, tmp_path: Path) -> None:
    save_set(saver(tmp_path / "kept"), local, versions(local), {})
    target = tmp_path / "again"
    target.mkdir()
    restored(tmp_path / "kept", target)  # an empty directory is replaced
    (target / "model.pt").write_bytes(b"newer")
    with pytest.raises(errors.AlreadyExists):
        restored(tmp_path / "kept", target)
    assert (target / "model.pt").read_bytes() == b"newer"


def test_a_corrupt_set_is_passed_over_for_the_one_before(local: Path, tmp_path: Path) -> None:
    root = tmp_path / "kept"
    save_set(saver(root), local, versions(local), {})
    (local / "model.pt").write_bytes(zipped(b"newer"))
    newest = save_set(saver(root), local, versions(local), {})
    shard = Path(newest.path, "shard-00000-of-00001")
    data = bytearray(shard.read_bytes())
    data[5_000_000] ^= 1
    shard.write_bytes(data)
    restored(root, tmp_path / "again")
    assert (tmp_path / "again" / "model.pt").read_bytes() == zipped()
    assert [one.name[:8] for one in root.iterdir() if "corrupt" in one.name] == ["corrupt-"]


def test_what_the_sdk_saved_is_not_taken_for_files(tmp_path: Path) -> None:
    saver(tmp_path / "kept").save(7, {"weights": b"1"})
    with pytest.raises(errors.InvalidPath, match="not a set of files"):
        restored(tmp_path / "kept", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_the_first_set_that_brings_a_name_keeps_it(local: Path, tmp_path: Path) -> None:
    save_set(saver(tmp_path / "a"), local, versions(local), {})
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.pt").write_bytes(b"of another task")
    (other / "state-4.bin").write_bytes(b"4")
    save_set(saver(tmp_path / "b"), other, versions(other), {})
    draft = SetDraft(tmp_path / "again")
    for place in ("a", "b"):
        saver(tmp_path / place, 2).restore(draft.add)
    draft.publish()
    assert (tmp_path / "again" / "model.pt").read_bytes() == zipped()
    assert (tmp_path / "again" / "state-4.bin").read_bytes() == b"4"


def test_pieces_of_a_value_are_verified_and_complete(local: Path, tmp_path: Path) -> None:
    data = os.urandom(70 << 20)  # more than two pieces
    (local / "model.pt").write_bytes(data)
    saved = save_set(saver(tmp_path / "kept"), local, versions(local), {})
    fs = saver(tmp_path / "kept").fs
    pieces = [bytes(piece) for piece in OpenCheckpoint(fs, saved).pieces("model.pt")]
    assert len(pieces) == 3
    assert b"".join(pieces) == data


# ---- proofs ------------------------------------------------------------------------------------

WHOLE = {
    "a.pt": zipped(),
    "b.npz": zipped(),
    "c.bin": zipped(),  # by its first bytes
    "d.safetensors": tensors(),
    "e.safetensors": tensors(0),
}
FORMATLESS = {"a.bin": b"anything", "b.json": b"", "old.pt": b"\x80\x02\x8a\nl\xfc"}


@pytest.mark.parametrize("name", WHOLE)
def test_every_cut_of_a_file_with_a_format_is_found(name: str, tmp_path: Path) -> None:
    data = WHOLE[name]
    (tmp_path / name).write_bytes(data)
    assert file_sets.prove(tmp_path, [name]) == ({}, frozenset())
    for size in {4, 7, 8, 9, len(data) // 2, len(data) - 1}:
        (tmp_path / name).write_bytes(data[:size])
        assert name in file_sets.prove(tmp_path, [name]).unproved, size


@pytest.mark.parametrize("name", FORMATLESS)
def test_other_files_do_not_tell_where_they_end(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMATLESS[name])
    assert file_sets.prove(tmp_path, [name]) == ({}, frozenset({name}))


@pytest.mark.parametrize(
    "data", [b"", bytes(4096), zipped()[:-4] + b"\xff\xff\0\0", b"PK\x03\x04" + bytes(500)]
)
def test_a_zip_that_is_none_is_found(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(data)
    assert "a.pt" in file_sets.prove(tmp_path, ["a.pt"]).unproved


@pytest.mark.parametrize(
    "header",
    [b"[1]", b"{", b'{"w": 1}', b'{"w": {"data_offsets": [0, "x"]}}', b"[" * 50_000, b"\xff\xfe"],
)
def test_a_header_that_is_none_is_found(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert "a.safetensors" in file_sets.prove(tmp_path, ["a.safetensors"]).unproved


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.pt").symlink_to("/etc/passwd")
    found = file_sets.prove(tmp_path, ["a.pt", "gone.pt"]).unproved
    assert set(found) == {"a.pt", "gone.pt"}

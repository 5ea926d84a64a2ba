"""Copies of files: what arrives is what was there, and nothing outside the target is touched."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from yarnam.agent.programs.file_copy import (
    BROKEN,
    REFUSED,
    TAKEN,
    Copied,
    CopyRefused,
    receive_files,
    send_files,
    stays_inside,
)


def sent(source: Path, notes: list[str] | None = None) -> io.BytesIO:
    stream = io.BytesIO()
    send_files(source, stream, (notes if notes is not None else []).append, lambda _: None)
    stream.seek(0)
    return stream


def received(stream: io.BytesIO, target: Path, *, overwrites: bool = False) -> Copied:
    return receive_files(stream, target, pytest.fail, lambda _: None, overwrites=overwrites)


def archive(*members: tarfile.TarInfo, content: bytes = b"evil") -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w|") as tar:
        for member in members:
            if member.isreg():
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if member.isreg() else None)
    stream.seek(0)
    return stream


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_a_tree_arrives_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "run"
    (source / "a" / "b").mkdir(parents=True)
    (source / "empty").mkdir()
    data = os.urandom(3 << 20)
    (source / "a" / "b" / "mödel.pt").write_bytes(data)
    (source / "go").write_text("#!/bin/sh\n")
    (source / "go").chmod(0o755)
    (source / "a" / "latest").symlink_to("b/mödel.pt")
    os.utime(source / "go", (1_000_000_000, 1_000_000_000))
    assert received(sent(source), tmp_path / "new") == Copied(2, len(data) + 10)
    new = tmp_path / "new"
    assert (new / "a" / "b" / "mödel.pt").read_bytes() == data
    assert (new / "empty").is_dir()
    assert (new / "go").stat().st_mode & 0o777 == 0o755
    assert (new / "go").stat().st_mtime == 1_000_000_000
    assert (new / "a" / "latest").readlink() == Path("b/mödel.pt")
    # Into a directory that exists.
    (tmp_path / "dir").mkdir()
    received(sent(source / "go"), tmp_path / "dir")
    assert (tmp_path / "dir" / "go").exists()


def test_links_that_lead_out_are_left_out(tmp_path: Path) -> None:
    source = tmp_path / "run"
    source.mkdir()
    (tmp_path / "secret").write_text("x")
    (source / "up").symlink_to("../secret")
    (source / "absolute").symlink_to(tmp_path / "secret")
    os.mkfifo(source / "pipe")
    notes: list[str] = []
    assert received(sent(source, notes), tmp_path / "new") == Copied(0, 0)
    assert list((tmp_path / "new").iterdir()) == []
    assert len(notes) == 3
    # What the user names is followed: it is the user's own word.
    received(sent(source / "up"), tmp_path / "named")
    assert (tmp_path / "named").read_text() == "x"


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    with pytest.raises(CopyRefused, match="exists; --force overwrites it") as refused:
        received(sent(tmp_path / "a"), tmp_path / "b")
    assert refused.value.code == TAKEN
    assert (tmp_path / "b").read_text() == "old"
    received(sent(tmp_path / "a"), tmp_path / "b", overwrites=True)
    assert (tmp_path / "b").read_text() == "new"
    (tmp_path / "b").unlink()
    (tmp_path / "b").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("kept")
    received(sent(tmp_path / "a"), tmp_path / "b", overwrites=True)
    assert (tmp_path / "precious").read_text() == "kept", "a link is replaced, not followed"


HOSTILE: list[tuple[str, Callable[[Path], io.BytesIO]]] = [
    ("climbs", lambda _: archive(entry("x", tarfile.DIRTYPE), entry("x/../../evil"))),
    ("climbs first", lambda _: archive(entry("../evil"))),
    ("absolute", lambda outside: archive(entry(str(outside / "evil")))),
    ("another top", lambda _: archive(entry("x", tarfile.DIRTYPE), entry("y"))),
    (
        "through a link of its own",
        lambda _: archive(
            entry("x", tarfile.DIRTYPE), entry("x/a", tarfile.DIRTYPE),
            entry("x/a/l", tarfile.SYMTYPE, ".."), entry("x/a/l/evil"),
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "stream"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_hostile_names_are_refused(
    name: str, stream: Callable[[Path], io.BytesIO], tmp_path: Path
) -> None:
    target = tmp_path / "in" / "new"
    target.parent.mkdir()
    with pytest.raises(CopyRefused):
        received(stream(tmp_path), target, overwrites=True)
    assert not list(tmp_path.rglob("evil"))
    assert not list(tmp_path.rglob("y"))


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE])
def test_devices_and_hard_links_are_left_out(kind: bytes, tmp_path: Path) -> None:
    notes: list[str] = []
    stream = archive(entry("x", tarfile.DIRTYPE), entry("x/d", kind, "/etc/passwd"))
    receive_files(stream, tmp_path / "new", notes.append, lambda _: None, overwrites=True)
    assert list((tmp_path / "new").iterdir()) == []
    assert len(notes) == 1


def test_links_of_others_that_lead_out_are_left_out(tmp_path: Path) -> None:
    notes: list[str] = []
    stream = archive(entry("x", tarfile.DIRTYPE), entry("x/l", tarfile.SYMTYPE, "../../etc"))
    receive_files(stream, tmp_path / "new", notes.append, lambda _: None, overwrites=True)
    assert not (tmp_path / "new" / "l").is_symlink()
    assert len(notes) == 1


def test_a_stream_that_breaks_off_leaves_no_half_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100_000))
    whole = sent(tmp_path / "a").getvalue()
    with pytest.raises(CopyRefused) as refused:
        received(io.BytesIO(whole[:50_000]), tmp_path / "b")
    assert refused.value.code == BROKEN
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]
    with pytest.raises(CopyRefused) as refused:
        received(io.BytesIO(b""), tmp_path / "b")
    assert refused.value.code == BROKEN


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CopyRefused, match="does not exist") as refused:
        sent(tmp_path / "none")
    assert refused.value.code == REFUSED


@pytest.mark.parametrize(
    ("link", "target", "inside"),
    [
        ("a/l", "../b", True),
        ("l", "../b", False),
        ("a/l", "../../b", False),
        ("l", "a/../../b", False),
        ("l", "/etc", False),
        ("l", "", False),
        ("l", ".", True),
    ],
)
def test_where_links_lead(link: str, target: str, inside: bool) -> None:
    assert stays_inside(Path(link), target) is inside

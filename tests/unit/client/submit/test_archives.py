"""Code directories as archives."""

from __future__ import annotations

import os
import socket
import tarfile
from pathlib import Path

import pytest

from yarnam.client.submit.archives import pack_folder
from yarnam.errors import BadSpec
from yarnam.spec.shipping.shipped_folder import shipped_folder


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "pkg").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "pkg" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "pkg" / "run.sh").chmod(0o755)
    return folder


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return tar.getnames()


def test_the_same_content_gives_the_same_bytes(code: Path, tmp_path: Path) -> None:
    pack_folder(shipped_folder(code), tmp_path / "one.tar.gz")
    os.utime(code / "train.py", (1, 1))
    pack_folder(shipped_folder(code), tmp_path / "two.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as tar:
        assert tar.getmember("pkg/run.sh").mode == 0o755
        assert tar.getmember("train.py").mode == 0o644
        assert {entry.uname for entry in tar.getmembers()} == {""}


def test_what_no_container_needs_stays_here(code: Path, tmp_path: Path) -> None:
    for name in (".git", "__pycache__", ".venv"):
        (code / name).mkdir()
        (code / name / "big").write_text("x")
    (code / "old.pyc").write_text("x")
    pack_folder(shipped_folder(code), tmp_path / "code.tar.gz")
    assert names(tmp_path / "code.tar.gz") == ["pkg", "pkg/run.sh", "train.py"]


def test_links(code: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("from outside")
    (code / "copied.txt").symlink_to(outside)
    (code / "same").symlink_to("pkg")
    pack_folder(shipped_folder(code), tmp_path / "code.tar.gz")
    with tarfile.open(tmp_path / "code.tar.gz") as tar:
        assert tar.getmember("copied.txt").isreg()
        found = tar.extractfile("copied.txt")
        assert found is not None
        assert found.read() == b"from outside"
        assert tar.getmember("same").issym()


def test_a_link_to_a_folder_outside_is_refused(code: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (code / "data").symlink_to(tmp_path / "data")
    with pytest.raises(BadSpec, match="links to a directory outside"):
        pack_folder(shipped_folder(code), tmp_path / "code.tar.gz")


def test_a_broken_link_is_refused(code: Path, tmp_path: Path) -> None:
    (code / "gone").symlink_to("nowhere")
    with pytest.raises(BadSpec, match=r"cannot ship .*gone"):
        pack_folder(shipped_folder(code), tmp_path / "code.tar.gz")


def test_a_socket_is_refused(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(code)  # its path may be at most 107 bytes long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(BadSpec, match="cannot ship"):
            pack_folder(shipped_folder(code), tmp_path / "code.tar.gz")

"""``yarnam env gc --local``: what it lists and removes on this machine."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from yarnam.cli.setup.env_command import command


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache" / "environments"
    folder.mkdir(parents=True)
    for name, age_s in (("old.tar.gz", 40 * 86400.0), ("new.tar.gz", 60.0)):
        (folder / name).write_bytes(b"x" * 500_000)
        used_s = time.time() - age_s
        os.utime(folder / name, (used_s, used_s))
    monkeypatch.setenv("YARNAM_HOME", str(tmp_path))
    return folder


def run(*given: str) -> str:
    done = CliRunner().invoke(command, ["gc", "--local", *given], standalone_mode=False)
    assert done.exception is None
    return done.output


def test_what_was_not_used_is_removed_from_this_machine(archives: Path) -> None:
    assert json.loads(run("--dry-run", "--json"))[0]["path"] == str(archives / "old.tar.gz")
    assert (archives / "old.tar.gz").exists()
    said = run()
    assert "old.tar.gz" in said
    assert "new.tar.gz" not in said
    assert "Archives removed: 1 (0.5 MB)." in said
    assert [path.name for path in archives.iterdir()] == ["new.tar.gz"]
    assert len(json.loads(run("--unused-for", "0s", "--json"))) == 1
    assert list(archives.iterdir()) == []

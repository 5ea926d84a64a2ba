"""``yarnam tensorboard``: what it says where it cannot start."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.client.world import APPLICATION, World
from yarnam.cli.jobs import tensorboard_command
from yarnam.cli.shell import Shell, run
from yarnam.errors import ExitCode


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(tensorboard_command, "NEEDED", ())
    made = World(tmp_path)
    made.job()
    return made


def tensorboard(world: World, *arguments: str) -> int:
    return run(["tensorboard", APPLICATION, *arguments], Shell(lambda **_: world.client))


def test_a_port_in_use_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        assert tensorboard(world, "--port", port, "--logdir", "/logs") == ExitCode.USAGE
    assert "--port 0" in capsys.readouterr().err


def test_without_tensorboard_it_says_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tensorboard_command, "NEEDED", ("no_such_module",))
    assert tensorboard(world, "--port", "0") == ExitCode.BAD_CONFIG
    assert "pip install 'yarnam[tensorboard]'" in capsys.readouterr().err


def test_a_tensorboard_that_does_not_start_is_shown(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no numpy' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(tensorboard_command.sys, "executable", str(broken))
    assert tensorboard(world, "--port", "0", "--logdir", "/logs") == ExitCode.UNAVAILABLE
    assert "ended with code 3: no numpy" in capsys.readouterr().err

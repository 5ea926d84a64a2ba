"""``yarnam tokens`` over a client on fakes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from hdfs_utils.protocols import gssapi
from tests.unit.client.test_job import token_source
from tests.unit.client.world import APPLICATION, World
from yarnam.cli.shell import Shell, run
from yarnam.errors import ExitCode

UNTIL_S = 1.6e9


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    made.job()
    made.rm.tokens_end_s = UNTIL_S
    made.client.site.open_token_source = lambda: token_source(made)
    monkeypatch.setattr(gssapi, "identity", lambda: gssapi.Identity("alice@SITE", 3600))
    return made


def test_until_when_they_live_is_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("tokens", "refresh", APPLICATION), Shell(lambda **_: world.client)) == 0
    assert len(world.line.tokens) == 2
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(UNTIL_S))
    printed = capsys.readouterr()
    assert printed.out == f"{APPLICATION}: its tokens live until {until}\n"
    assert not any(token in printed.out + printed.err for token in world.line.tokens)


def test_json(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("tokens", "refresh", APPLICATION, "--json"), Shell(lambda **_: world.client)) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"application": APPLICATION, "until_s": UNTIL_S}


def test_without_kerberos_the_error_says_so(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.client.site.open_token_source = None
    code = run(("tokens", "refresh", APPLICATION), Shell(lambda **_: world.client))
    assert code == ExitCode.BAD_CONFIG
    assert "no delegation tokens" in capsys.readouterr().err

"""``yarnam scale`` over a client on fakes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.monitor.test_requested_size import KEY, elastic
from tests.unit.client.world import APPLICATION, World
from yarnam.cli.shell import Shell, run
from yarnam.errors import ExitCode
from yarnam.wire.codec import encode


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    record = replace(made.job(key=KEY).record(), job=elastic())
    made.put(KEY, "job.json", encode(record))
    return made


def test_the_wish_is_passed_on_and_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("scale", APPLICATION, "2"), Shell(lambda **_: world.client)) == 0
    assert world.line.scaled == [("me", 2)]
    assert capsys.readouterr().out == (
        f"{APPLICATION}: resize to 2 worker tasks (8 GPUs) requested\n"
    )


def test_json(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("scale", APPLICATION, "auto", "--json"), Shell(lambda **_: world.client)) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"application": APPLICATION, "tasks": None, "gpus": None}
    assert world.line.scaled == [("me", None)]


@pytest.mark.parametrize(
    ("size", "words"),
    [("9", "can have 1 to 3"), ("two", "a number or `auto`"), ("-1", ""), ("٣", "a number or")],
)
def test_nonsense_is_a_usage_error(
    world: World, capsys: pytest.CaptureFixture[str], size: str, words: str
) -> None:
    code = run(("scale", APPLICATION, size), Shell(lambda **_: world.client))
    assert code == ExitCode.USAGE
    assert words in capsys.readouterr().err
    assert world.line.scaled == []

"""``yarnam cluster`` without a cluster: options, refusals, nothing there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from yarnam.cli.setup import cluster_command as cli
from yarnam.cli.shell import run
from yarnam.cluster.shape import ClusterShape
from yarnam.errors import BadConfig, ExitCode


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YARNAM_HOME", str(tmp_path))
    return tmp_path


def test_options_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "shape.yaml"
    file.write_text("nodes: 6\nracks: 3\n")
    shape = cli._shape(file, {"nodes": 3, "racks": None, "gpus_per_node": 2})
    assert (shape.nodes, shape.racks, shape.gpus_per_node) == (3, 3, 2)
    assert cli._shape(None, {"nodes": None}) == ClusterShape()


def test_a_queue_file_is_relative_to_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli._shape(None, {"queues": "q.xml"}).queues == str(tmp_path / "q.xml")
    with pytest.raises(BadConfig):
        cli._shape(None, {"racks": 9})


def test_an_impossible_shape_ends_before_anything_starts(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert run(["cluster", "up", "--nodes", "0"]) == ExitCode.BAD_CONFIG
    assert "nodes is 0" in capsys.readouterr().err
    assert not list(home.iterdir())


@pytest.mark.parametrize("argv", [["status"], ["env"], ["logs"], ["restart", "rm"]])
def test_no_cluster_is_unavailable_and_says_what_to_do(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cluster", *argv]) == ExitCode.UNAVAILABLE
    assert "yarnam cluster up" in capsys.readouterr().err


def test_taking_down_what_is_not_there_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "down", "--name", "none"]) == ExitCode.OK
    assert capsys.readouterr().out == "no cluster 'none'\n"


def test_a_list_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "list", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == []


def test_a_bad_name_is_a_usage_error() -> None:
    assert run(["cluster", "status", "--name", "../x"]) == ExitCode.USAGE

"""``yarnam ckpt`` on a local disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hdfs_utils.checkpoints import Checkpoint, Checkpointer, Retention, Token, latest
from yarnam.cli.shell import Shell, run
from yarnam.errors import ExitCode

JOB = "application_1700000000000_0007"


@pytest.fixture
def home(tmp_path: Path) -> str:
    return f"file://{tmp_path}/c"


@pytest.fixture
def saved(home: str) -> list[Checkpoint]:
    one = Checkpointer(home, token=Token(JOB, (2,)), retention=Retention(9))
    values = [
        one.save(step, {"w": np.full(1000, step), "note.txt": b"hi"}, metrics={"loss": 1 / step})
        for step in (10, 20, 30)
    ]
    return [value for value in values if value]


def yarnam(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(("ckpt", *arguments), Shell(lambda **_: pytest.fail("no client is needed")))
    said = capsys.readouterr()
    return code, said.out, said.err


def flip(checkpoint: Checkpoint) -> None:
    path = Path(checkpoint.path) / checkpoint.shards[0].file
    data = bytearray(path.read_bytes())
    data[77] ^= 1
    path.write_bytes(data)


def test_ls(home: str, saved: list[Checkpoint], capsys: pytest.CaptureFixture[str]) -> None:
    (Path(home[7:]) / "step-0000000040-e000001-aaaaaaaa").mkdir()
    code, out, err = yarnam(capsys, "ls", home)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["STEP", "STATE", "RANKS", "SIZE", "SAVED", "BY", "METRICS", "NAME"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["40", "unfinished"], ["30", "whole"], ["20", "whole"], ["10", "whole"],
    ]  # fmt: skip
    assert f"{JOB} attempt 2" in lines[2]
    assert "loss=0.03333" in lines[2]
    assert "no manifest" in err
    code, out, _ = yarnam(capsys, "ls", home, "--json")
    found = json.loads(out)
    assert [one["state"] for one in found] == ["unfinished", "whole", "whole", "whole"]
    assert found[1]["writer"]["owner"] == JOB
    assert found[1]["values"] == ["w", "note.txt"]
    assert found[1]["path"] == f"file://{saved[2].path}"


def test_nothing_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = f"file://{tmp_path}/none"
    assert yarnam(capsys, "ls", home)[0] == 0
    assert yarnam(capsys, "verify", home)[0] == 0
    code, _, err = yarnam(capsys, "restore", home, "--to", f"{tmp_path}/x")
    assert code == ExitCode.USAGE
    assert "has no whole checkpoint" in err


def test_verify(home: str, saved: list[Checkpoint], capsys: pytest.CaptureFixture[str]) -> None:
    (Path(home[7:]) / "step-0000000040-e000001-aaaaaaaa").mkdir()
    assert yarnam(capsys, "verify", home)[0] == 0
    flip(saved[1])
    code, out, _ = yarnam(capsys, "verify", home)
    assert code == 65
    words = [line.split()[1].rstrip(":") for line in out.splitlines()]
    assert words == ["unfinished", "whole", "torn", "whole"]
    assert yarnam(capsys, "verify", home, "30")[0] == 0
    assert yarnam(capsys, "verify", home, "20")[0] == 65
    assert yarnam(capsys, "verify", home, "25")[0] == ExitCode.USAGE
    results = json.loads(yarnam(capsys, "verify", home, saved[0].path.split("/")[-1], "--json")[1])
    assert [one["is_whole"] for one in results] == [True]


def test_restore_takes_the_newest_that_is_whole(
    home: str, saved: list[Checkpoint], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(saved[2])
    code, out, err = yarnam(capsys, "restore", home, "--to", f"{tmp_path}/out")
    assert code == 0
    assert "step 20, 2 files" in out
    assert "Skipped" in err
    assert set(np.load(tmp_path / "out" / "w.npy")) == {20}
    assert (tmp_path / "out" / "note.txt").read_bytes() == b"hi"
    assert yarnam(capsys, "restore", home, "--to", f"{tmp_path}/out")[0] == ExitCode.USAGE
    code, _, err = yarnam(capsys, "restore", home, "30", "--to", f"{tmp_path}/other")
    assert code == ExitCode.USAGE
    assert "not complete" in err
    assert not (tmp_path / "other").exists()


def test_prune_shows_first_and_never_leaves_only_a_torn_one(
    home: str, saved: list[Checkpoint], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = yarnam(capsys, "prune", home, "--keep", "1", "--best", "loss:max")
    assert code == 0
    assert [line.split()[3] for line in out.splitlines()[1:]] == ["keep", "would", "keep"]
    assert "Would delete 1 of 3" in err
    assert all(Path(one.path).exists() for one in saved)
    flip(saved[2])
    code, out, err = yarnam(capsys, "prune", home, "--keep", "1", "--yes", "--json")
    assert code == 0
    assert "is torn" in err
    assert [Path(one.path).exists() for one in saved] == [False, True, True]
    assert latest(home, report=lambda _skipped: None) == saved[1]
    assert yarnam(capsys, "prune", home, "--best", "loss:most")[0] == ExitCode.USAGE


def test_cp(
    home: str, saved: list[Checkpoint], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"file://{tmp_path}/d"
    assert yarnam(capsys, "cp", home, target, "20")[0] == 0
    assert yarnam(capsys, "cp", home, target)[0] == 0
    found = latest(target)
    assert found is not None
    assert (found.step, found.names, found.writer["owner"]) == (30, ("w", "note.txt"), JOB)
    assert found.writer["copied_from"] == f"file://{saved[2].path}"
    flip(saved[0])
    assert yarnam(capsys, "cp", home, target, "10")[0] == ExitCode.USAGE
    assert len(json.loads(yarnam(capsys, "ls", target, "--json")[1])) == 2
    # Whoever saves there next comes after the copies.
    mine = Checkpointer(target, token=Token("mine")).save(5, {"w": b""})
    assert latest(target) == mine


def test_help_and_refusals_import_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from yarnam.cli.shell import run\n"
        "run(('ckpt', 'ls', '--help'))\n"
        "heavy = {'numpy', 'rich.progress', 'hdfs_utils', 'google_crc32c', 'skein', 'grpc'}\n"
        "loaded = {name for name, module in sys.modules.items() if type(module) is type(sys)}\n"
        "print('heavy:', sorted(heavy & loaded))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("heavy: []\n")

"""Ctrl-C and SIGTERM end ``data verify`` and a submit that checks, whatever a check is doing."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.unit.hdfs_utils.validation.malicious_samples import endless_bzip2

BIN = Path(sys.executable).parent
BEGIN_LIMIT_S = 240.0
END_LIMIT_S = 30.0
"""It takes half a second; with a margin for busy cores."""

VERIFY = [str(BIN / "yarnam"), "data", "verify"]
SUBMIT = (
    "import sys\n"
    "from pathlib import Path\n"
    "from tests.unit.client.world import World, job_spec\n"
    "from yarnam.cli import shell, signals\n"
    "from yarnam.client.submit.preflight import check_job\n"
    "from yarnam.core.model.job_spec import DataInput, VerifyInput\n"
    "home = Path(sys.argv[1])\n"
    "world = World(home / 'world')\n"
    "world.files.write_bytes('/data/a.txt.bz2', (home / 'a.txt.bz2').read_bytes())\n"
    "given = DataInput('set', 'hdfs:///data', verify=VerifyInput.SAMPLE)\n"
    "signals.end_cleanly_on_signals()\n"
    "shell._invoke = lambda *_: check_job(world.site, job_spec(inputs=(given,)))\n"
    "sys.exit(shell.run(['submit']))\n"
)


def tangled(file: BinaryIO, path: str) -> None:
    """A check of somebody's own that keeps Python's lock for ever: no signal is handled in it."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def command_of(way: str, home: Path) -> list[str]:
    if way == "submit":
        (home / "a.txt.bz2").write_bytes(endless_bzip2(100_000))
        (home / "world").mkdir()
        return [sys.executable, "-c", SUBMIT, str(home)]
    if way == "own check":
        (home / "a.tangled").write_bytes(b"x")
        return [*VERIFY, "--check", f".tangled={__name__}:tangled", f"file://{home}"]
    (home / "a.txt.bz2").write_bytes(endless_bzip2(100_000))
    return [*VERIFY, f"file://{home}"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["verify", "own check", "submit"])
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_signal_ends_it_within_seconds(tmp_path: Path, way: str, number: int) -> None:
    with subprocess.Popen(
        command_of(way, tmp_path), stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        try:
            child = _busy_child(process)
            process.send_signal(number)
            sent_s = time.monotonic()
            process.wait(END_LIMIT_S)
        finally:
            process.kill()
    assert time.monotonic() - sent_s < END_LIMIT_S
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    until_s = time.monotonic() + END_LIMIT_S
    while (there := Path(f"/proc/{child}").exists()) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not there, "its check ends with it"


def _busy_child(process: subprocess.Popen[bytes]) -> int:
    """Once it has computed for half a second: by then it is within the file."""
    until_s = time.monotonic() + BEGIN_LIMIT_S
    while time.monotonic() < until_s:
        assert process.poll() is None, process.stderr and process.stderr.read()
        for child in _children(process.pid):
            with suppress(FileNotFoundError, ProcessLookupError):  # over already
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                if int(fields[11]) >= 80:  # hundredths of a second
                    return child
        time.sleep(0.05)
    pytest.fail("no check began")


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
            children = (task / "children").read_text()
            yield from map(int, children.split())

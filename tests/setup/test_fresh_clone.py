"""``make demo`` as a newcomer types it: a fresh clone, an empty home, no Java, no Hadoop.

It clones what is committed, downloads some 300 MB and takes minutes: `make setup-guard`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST_RUN_S = 1200
SECOND_RUN_S = 600
NOWHERE = "http://127.0.0.1:9"  # the discard port: nobody listens

pytestmark = pytest.mark.setup


@dataclass(frozen=True)
class Newcomer:
    """A clone and an environment that has nothing of this machine's user."""

    clone: Path
    environ: dict[str, str]

    def make(self, target: str, limit_s: float, **more: str) -> tuple[str, float]:
        started = time.monotonic()
        process = subprocess.Popen(
            ["make", target, f"PYTHON={Path(sys.executable).resolve()}"],
            cwd=self.clone,
            env={**self.environ, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # make alone would leave its children behind
            output, _ = process.communicate()
            pytest.fail(f"make {target} took longer than {limit_s:.0f} s:\n{output}")
        print(output)
        assert process.returncode == 0, output[-4000:]
        return output, time.monotonic() - started

    def processes(self) -> list[str]:
        """Living processes that have this place in their command or environment."""
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            try:
                about = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            if str(self.clone.parent).encode() in about:
                found.append(about[:200].replace(b"\0", b" ").decode(errors="replace"))
        return found


def tools_without_hadoop(folder: Path) -> str:
    """A PATH with what this machine has, less Java and Hadoop."""
    folder.mkdir()
    for directory in ("/usr/local/bin", "/usr/bin", "/bin"):
        for tool in Path(directory).iterdir():
            link = folder / tool.name
            is_hadoops = re.match(r"java|jre|jdk|hadoop|hdfs|yarn|mapred", tool.name)
            if not is_hadoops and not link.is_symlink():
                link.symlink_to(tool)
    return str(folder)


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    place = tmp_path / "newcomer"
    home = place / "home"
    home.mkdir(parents=True)
    # pip's own settings stay: they say where packages come from on this machine.
    environ = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))
    }
    environ |= {
        "HOME": str(home),
        "PATH": tools_without_hadoop(place / "bin"),
        "LANG": "C.UTF-8",
        "USER": "somebody-else",  # as su leaves it behind: the system's word counts, not this
    }
    clone = place / "yarnam"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True, timeout=60)
    someone = Newcomer(clone, environ)
    try:
        yield someone
    finally:
        if (clone / ".venv" / "bin" / "yarnam").exists():
            someone.make("demo-down", 120)
        shutil.rmtree(clone / ".venv", ignore_errors=True)  # 1 GB; pytest keeps its directories


def accuracy(output: str) -> float:
    (found,) = re.findall(r"^test accuracy +(\d\.\d+)", output, re.MULTILINE)[-1:]
    return float(found)


def files(folder: Path) -> dict[str, float]:
    return {
        str(path.relative_to(folder)): path.stat().st_mtime
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.timeout(FIRST_RUN_S + SECOND_RUN_S + 300)
def test_the_demo_in_a_fresh_clone(newcomer: Newcomer) -> None:
    first, first_s = newcomer.make("demo", FIRST_RUN_S)
    assert accuracy(first) >= 0.95
    assert re.search(r"^newest checkpoint +hdfs://\S+/examples/digits/checkpoints/", first, re.M)
    assert "make demo-down" in first
    downloads = Path(newcomer.environ["HOME"]) / ".cache" / "yarnam"
    before = {name: when for name, when in files(downloads).items() if name.endswith(".jar")}
    assert before

    # Nothing can be fetched now: a second run that tried would fail.
    second, second_s = newcomer.make(
        "demo", SECOND_RUN_S, PIP_INDEX_URL=NOWHERE, YARNAM_MAVEN_REPOSITORY=NOWHERE
    )
    assert accuracy(second) >= 0.95
    assert "set-up:" not in second
    after = {name: when for name, when in files(downloads).items() if name.endswith(".jar")}
    assert after == before
    print(f"first run {first_s:.0f} s, second run {second_s:.0f} s")
    # No set-up, no download, no boot: on a quiet machine less than half of the first run's time.
    assert second_s < first_s

    newcomer.make("demo-down", 120)
    assert newcomer.processes() == []

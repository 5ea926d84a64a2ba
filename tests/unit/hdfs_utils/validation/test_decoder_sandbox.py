"""A decoder that crashes, hangs or is killed takes nothing with it, and is judged rightly."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from hdfs_utils.validation import CheckOptions, Checks, Reason, Verdict, check_file
from hdfs_utils.validation.sandbox.decoder_pool import DecoderPool
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.validation.samples import make

_POOLS: list[DecoderPool] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """No child outlives its test."""
    yield
    while _POOLS:
        _POOLS.pop().close()


@pytest.fixture
def fs() -> MemoryFiles:
    files = MemoryFiles()
    files.write_bytes("/a.parquet", make("a.parquet", 1))
    return files


def children(code: str, silence_limit_s: float = 120.0) -> CheckOptions:
    """Checks whose children run this code."""
    pool = DecoderPool((sys.executable, "-c", code), silence_limit_s)
    _POOLS.append(pool)
    return CheckOptions(Checks(decoders=pool))


def test_one_child_serves_many_files(fs: MemoryFiles) -> None:
    pool = DecoderPool()
    options = CheckOptions(Checks(decoders=pool))
    for _ in range(3):
        assert check_file(fs, fs.stat("/a.parquet"), options).verdict is Verdict.CLEAN
    assert pool.started == 1
    (child,) = pool._idle
    pool.close()
    assert child.process.poll() == 0, "it ends by itself when the pool is closed"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_a_file_on_which_the_library_crashes_is_corrupt(fs: MemoryFiles, name: str) -> None:
    options = children(f"import os, signal; os.kill(os.getpid(), signal.{name})")
    report = check_file(fs, fs.stat("/a.parquet"), options)
    assert report.verdict is Verdict.CORRUPT
    assert f"pyarrow crashes on it ({name}), each time" in report.findings[0].message


def test_a_crash_that_does_not_come_again_accuses_nobody(
    fs: MemoryFiles, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mark = tmp_path_factory.mktemp("mark") / "once"
    options = children(
        f"import os, signal, pathlib\nmark = pathlib.Path({str(mark)!r})\n"
        "if not mark.exists():\n    mark.touch()\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
        "from hdfs_utils.validation.sandbox.decoder_child import main\nmain()\n",
    )
    assert check_file(fs, fs.stat("/a.parquet"), options).verdict is Verdict.CLEAN


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_a_child_that_was_killed_accuses_nobody(fs: MemoryFiles, end: str) -> None:
    options = children(f"import os; {end}")
    report = check_file(fs, fs.stat("/a.parquet"), options)
    assert report.verdict is Verdict.NOT_CHECKED
    assert report.findings[0].reason is Reason.NOT_SUPPORTED


def test_a_child_that_hangs_is_ended(fs: MemoryFiles) -> None:
    options = children("import time; time.sleep(600)", 0.3)
    report = check_file(fs, fs.stat("/a.parquet"), options)
    assert report.verdict is Verdict.NOT_CHECKED
    assert "without progress" in report.findings[0].message


def test_what_a_library_prints_gets_not_between_the_messages(fs: MemoryFiles) -> None:
    options = children(
        "import dataclasses\n"
        "import hdfs_utils.validation.sandbox.decoder_child as child\n"
        "from hdfs_utils.validation.formats import columnar\n"
        "before = columnar.FORMATS[0]\n"
        "def noisy(source, found):\n"
        "    print('noise', flush=True)\n"
        "    before.check(source, found)\n"
        "columnar.FORMATS = (dataclasses.replace(before, check=noisy),)\n"
        "child.main()\n"
    )
    assert check_file(fs, fs.stat("/a.parquet"), options).verdict is Verdict.CLEAN

"""A decoder that crashes, hangs or is killed takes nothing with it, and is judged rightly."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from hdfs_utils.validation import Reason, Verdict, check_file, isolated
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.validation.samples import make


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No child of another test, and none left."""
    isolated.close_children()
    yield
    isolated.close_children()


@pytest.fixture
def fs() -> MemoryFiles:
    files = MemoryFiles()
    files.write_bytes("/a.parquet", make("a.parquet", 1))
    return files


def become(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(isolated, "COMMAND", (sys.executable, "-c", code))


def test_one_child_serves_many_files(fs: MemoryFiles) -> None:
    before = isolated._Child
    made = []

    class Counted(before):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    isolated._Child = Counted  # type: ignore[misc]
    try:
        for _ in range(3):
            assert check_file(fs, fs.stat("/a.parquet")).verdict is Verdict.CLEAN
    finally:
        isolated._Child = before  # type: ignore[misc]
    assert len(made) == 1
    isolated.close_children()
    assert made[0].process.poll() == 0, "it ends by itself when it is let go"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_a_file_on_which_the_library_crashes_is_corrupt(
    fs: MemoryFiles, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    become(monkeypatch, f"import os, signal; os.kill(os.getpid(), signal.{name})")
    report = check_file(fs, fs.stat("/a.parquet"))
    assert report.verdict is Verdict.CORRUPT
    assert f"pyarrow crashes on it ({name}), each time" in report.findings[0].message


def test_a_crash_that_does_not_come_again_accuses_nobody(
    fs: MemoryFiles, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mark = tmp_path_factory.mktemp("mark") / "once"
    become(
        monkeypatch,
        f"import os, signal, pathlib\nmark = pathlib.Path({str(mark)!r})\n"
        "if not mark.exists():\n    mark.touch()\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
        "from hdfs_utils.validation.child import main\nmain()\n",
    )
    assert check_file(fs, fs.stat("/a.parquet")).verdict is Verdict.CLEAN


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_a_child_that_was_killed_accuses_nobody(
    fs: MemoryFiles, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    become(monkeypatch, f"import os; {end}")
    report = check_file(fs, fs.stat("/a.parquet"))
    assert report.verdict is Verdict.NOT_CHECKED
    assert report.findings[0].reason is Reason.NOT_SUPPORTED


def test_a_child_that_hangs_is_ended(fs: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "SILENCE_LIMIT_S", 0.3)
    become(monkeypatch, "import time; time.sleep(600)")
    report = check_file(fs, fs.stat("/a.parquet"))
    assert report.verdict is Verdict.NOT_CHECKED
    assert "without progress" in report.findings[0].message


def test_what_a_library_prints_gets_not_between_the_messages(fs: MemoryFiles) -> None:
    code = (
        "import hdfs_utils.validation.child as child\n"
        "before = child.CHECKS['parquet']\n"
        "def noisy(source, found):\n"
        "    print('noise', flush=True)\n"
        "    before(source, found)\n"
        "child.CHECKS['parquet'] = noisy\n"
        "child.main()\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        become(patch, code)
        assert check_file(fs, fs.stat("/a.parquet")).verdict is Verdict.CLEAN

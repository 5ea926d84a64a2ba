"""A decoder that crashes, hangs, fills memory or is killed takes nothing with it, and is judged
rightly; it finds neither the network nor what lies in the working directory."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from hdfs_utils.validation import CheckOptions, Checks, FileReport, Reason, Verdict, check_file
from hdfs_utils.validation.sandbox import confinement
from hdfs_utils.validation.sandbox.decoder_pool import DecoderPool, Limits
from hdfs_utils.validation.user_checks import as_check
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.validation.samples import make

CHILD = "from hdfs_utils.validation.sandbox.decoder_child import main\nmain()\n"


@pytest.fixture
def fs() -> MemoryFiles:
    files = MemoryFiles()
    files.write_bytes("/a.parquet", make("a.parquet", 1))
    return files


Children = Callable[..., CheckOptions]


@pytest.fixture
def children() -> Iterator[Children]:
    """Options for checks whose children run some code; none outlives its test."""
    pools: list[DecoderPool] = []

    def options(code: str = CHILD, **limits: float) -> CheckOptions:
        chosen = Limits(**limits)  # type: ignore[arg-type]
        pools.append(DecoderPool((sys.executable, "-c", code), chosen))
        return CheckOptions(decoders=pools[-1])

    yield options
    for pool in pools:
        pool.close()


def look(fs: MemoryFiles, options: CheckOptions) -> FileReport:
    return check_file(fs, fs.stat("/a.parquet"), options)


def test_one_child_serves_many_files(fs: MemoryFiles) -> None:
    pool = DecoderPool()
    for _ in range(3):
        assert look(fs, CheckOptions(decoders=pool)).verdict is Verdict.CLEAN
    assert pool.started == 1
    (child,) = pool._idle.values()
    pool.close()
    assert child.process.poll() is not None


def test_a_child_ends_with_its_thread_and_the_next_thread_gets_its_own(fs: MemoryFiles) -> None:
    pool = DecoderPool()
    seen: list[Verdict] = []
    for _ in range(2):
        thread = threading.Thread(
            target=lambda: seen.append(look(fs, CheckOptions(decoders=pool)).verdict)
        )
        thread.start()
        (first,) = pool._idle.values() or (None,)
        thread.join()
        if first is not None:
            first.process.wait(10)
    pool.close()
    assert seen == [Verdict.CLEAN] * 2
    assert pool.started == 2


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_a_file_on_which_the_library_crashes_is_corrupt(
    fs: MemoryFiles, children: Children, name: str
) -> None:
    report = look(fs, children(f"import os, signal; os.kill(os.getpid(), signal.{name})"))
    assert report.verdict is Verdict.CORRUPT
    assert f"decoding it crashes ({name}), each time" in report.findings[0].message


def test_a_library_that_aborts_for_want_of_memory_accuses_nobody(
    fs: MemoryFiles, children: Children
) -> None:
    said = "terminate called after throwing an instance of 'std::bad_alloc'"
    report = look(fs, children(f"import os; os.write(2, {said.encode()!r}); os.abort()"))
    assert [f.reason for f in report.findings] == [Reason.OVER_LIMIT]
    assert "more memory than 2048 MiB" in report.findings[0].message


def test_a_crash_that_does_not_come_again_accuses_nobody(
    fs: MemoryFiles, children: Children, tmp_path: Path
) -> None:
    mark = tmp_path / "once"
    options = children(
        f"import os, signal, pathlib\nmark = pathlib.Path({str(mark)!r})\n"
        "if not mark.exists():\n    mark.touch()\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
        f"{CHILD}",
    )
    assert look(fs, options).verdict is Verdict.CLEAN


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_a_child_that_was_killed_accuses_nobody(
    fs: MemoryFiles, children: Children, end: str
) -> None:
    report = look(fs, children(f"import os; {end}"))
    assert report.verdict is Verdict.NOT_CHECKED
    assert report.findings[0].reason is Reason.OVER_LIMIT


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"silence_s": 0.3}, "made no progress for 0.3 s"),
        ({"time_s": 0.3}, "was not done within 0.6 s"),
    ],
)
def test_a_child_that_hangs_is_ended(
    fs: MemoryFiles, children: Children, limits: dict[str, float], why: str
) -> None:
    report = look(fs, children("import time; time.sleep(600)", **limits))
    assert report.verdict is Verdict.NOT_CHECKED
    assert why in report.findings[0].message


def test_a_child_that_asks_for_ever_is_ended_too(fs: MemoryFiles, children: Children) -> None:
    code = "import sys\nwhile True:\n    sys.stdout.buffer.write(b'R' + bytes(12))\n"
    report = look(fs, children(code, time_s=0.5))
    assert "was not done within 0.8 s" in report.findings[0].message


@pytest.mark.parametrize(
    "answer",
    [
        b"X", b"D\xff\xff\xff\xff", b"D\x02\0\0\0[]",
        b'D\x32\0\0\0{"findings": [], "records": -1, "is_last": false}   ',
        b"D\x06\0\0\0" + b"[" * 6,
    ],
)  # fmt: skip
def test_nonsense_of_a_child_is_a_finding(
    fs: MemoryFiles, children: Children, answer: bytes
) -> None:
    code = f"import os, time; os.write(1, {answer!r}); time.sleep(600)"
    report = look(fs, children(code))
    assert [f.reason for f in report.findings] == [Reason.OVER_LIMIT]
    assert "it answered nonsense" in report.findings[0].message


def test_what_a_library_prints_gets_not_between_the_messages(
    fs: MemoryFiles, children: Children
) -> None:
    options = children(
        "import dataclasses, os\n"
        "import hdfs_utils.validation.sandbox.decoder_child as child\n"
        "from hdfs_utils.validation import registry\n"
        "before = registry.FORMATS['parquet']\n"
        "def noisy(source, found):\n"
        "    print('noise' * 100_000, flush=True)\n"
        "    os.system('echo noise >&2')\n"
        "    before.check(source, found)\n"
        "registry.FORMATS['parquet'] = dataclasses.replace(before, check=noisy)\n"
        "child.main()\n"
    )
    assert look(fs, options).verdict is Verdict.CLEAN


# ---- what a check finds around it ------------------------------------------------------


def look_around(file: BinaryIO, path: str) -> Iterator[str]:
    """A check that tells what it has."""
    import socket

    yield f"cwd {Path.cwd()}"
    yield f"variables {sorted(os.environ)}"
    yield f"memory {resource.getrlimit(resource.RLIMIT_AS)[0] >> 20}"
    try:
        Path("/tmp/never").write_bytes(bytes(confinement.MAX_WRITTEN + 1))
    except OSError as error:
        yield f"writes {error.errno}"
    finally:
        Path("/tmp/never").unlink(missing_ok=True)
    with socket.socket() as one:
        one.settimeout(2)
        port = int(file.read())
        try:
            one.connect(("127.0.0.1", port))
            yield "network"
        except OSError:
            yield "no network"


def test_what_a_check_has(monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import socket

    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", "/secret")
    fs = MemoryFiles()
    with socket.create_server(("127.0.0.1", 0)) as server:
        fs.write_bytes("/a.look", b"%d" % server.getsockname()[1])
        options = CheckOptions(Checks(own={".look": as_check(look_around)}), decoders=DecoderPool())
        report = check_file(fs, fs.stat("/a.look"), options)
    options.decoders.close()
    found = [f.message for f in report.findings]
    assert "cwd /" in found
    assert "memory 2048" in found
    assert f"writes {errno.EFBIG}" in found
    assert not [text for text in found if "HADOOP" in text]
    # Where a user may not make namespaces the network stays; this kernel's answer is asked for.
    pid = os.fork()
    if not pid:
        import ctypes

        os._exit(ctypes.CDLL(None).unshare(0x50000000) != 0)
    may_hide = os.waitpid(pid, 0)[1] == 0
    assert found[-1] == ("no network" if may_hide else "network")


def grow(file: BinaryIO, path: str) -> None:
    """A check that takes all the memory that it gets."""
    held = []
    while True:
        held.append(bytes(64 << 20))


def test_memory_is_bounded_and_said(children: Children) -> None:
    fs = MemoryFiles()
    fs.write_bytes("/a.grow", b"x")
    fs.write_bytes("/b.txt", b"fine\n")
    pool = DecoderPool(limits=Limits(memory=512 << 20))
    options = CheckOptions(Checks(own={".grow": as_check(grow)}), decoders=pool)
    report = check_file(fs, fs.stat("/a.grow"), options)
    assert [f.reason for f in report.findings] == [Reason.OVER_LIMIT]
    assert report.findings[0].message == "its check needs more memory than 512 MiB"
    assert check_file(fs, fs.stat("/b.txt"), options).verdict is Verdict.CLEAN
    pool.close()
    assert pool.started == 2, "the next file gets a child that is not worn"


@pytest.mark.parametrize("module", ["json", "random", "pyarrow", "hdfs_utils"])
def test_a_module_in_the_working_directory_is_not_run(
    fs: MemoryFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """As where somebody stands in a directory of shared data."""
    (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), ".", *sys.path])
    pool = DecoderPool()
    report = look(fs, CheckOptions(decoders=pool))
    pool.close()
    assert report.verdict is Verdict.CLEAN
    assert not (tmp_path / "ran").exists()


def sleepy(file: BinaryIO, path: str) -> None:
    """A check that never ends, and says where it runs."""
    while True:
        time.sleep(0.01)


def test_a_child_ends_with_its_parent_whatever_it_does(tmp_path: Path) -> None:
    """The parent is killed with SIGKILL while its child is in a loop."""
    import subprocess

    (tmp_path / "a.loop").write_bytes(b"x")
    code = (
        "import sys, threading, time, hdfs_utils\n"
        "from hdfs_utils.validation import CheckOptions, Checks, check_file\n"
        "from hdfs_utils.validation.user_checks import load\n"
        "from hdfs_utils.validation.sandbox.decoder_pool import DECODERS\n"
        "fs = hdfs_utils.connect('file:///')\n"
        "own = {'.loop': load('tests.unit.hdfs_utils.validation.test_decoder_sandbox:sleepy')}\n"
        f"path = {str(tmp_path / 'a.loop')!r}\n"
        "options = CheckOptions(Checks(own=own))\n"
        "threading.Thread(target=check_file, args=(fs, fs.stat(path), options)).start()\n"
        "while not DECODERS.started: time.sleep(0.01)\n"
        "time.sleep(1)\n"
        "import pathlib; tasks = pathlib.Path('/proc/self/task').iterdir()\n"
        "print(*[(t / 'children').read_text() for t in tasks], flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        (child,) = parent.stdout.readline().split()
        parent.kill()
    until = time.monotonic() + 10
    status = Path(f"/proc/{int(child)}")
    while status.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not status.exists()

"""What the kernel's log says of a process, read from a file of the same form."""

from __future__ import annotations

import os
from pathlib import Path

from yarnam.agent.launch.failure_examination import FailedRun, examine
from yarnam.agent.launch.output_streams import OutputStreams
from yarnam.agent.resources.kernel_log import KERNEL_LOG, MAX_LINES, kernel_lines
from yarnam.core.model.outcomes import FailureClass

LOG = """\
6,1,1000000,-;Out of memory: Killed process 4711 (python3) total-vm:1kB
6,2,990000000,-;python3[4711]: segfault at 0 ip 00007f sp 00007f error 4 in libx.so
 SUBSYSTEM=cpu
3,3,990000001,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.
3,4,995000000,-;Memory cgroup out of memory: Killed process 4711 (python3) total-vm:9kB
3,5,995000000,-;Out of memory: Killed process 47110 (java) total-vm:9kB
4,6,not a number,-;process 4711
no record of process 4711
6,7,996000000,-;x 4711 \x1b[2J
"""
NOW_S = 1000.0


def written(folder: Path, text: str) -> Path:
    path = folder / "kmsg"
    path.write_text(text)
    return path


def test_recent_lines_that_name_the_process(tmp_path: Path) -> None:
    segfault, xid, memory = kernel_lines(4711, written(tmp_path, LOG), NOW_S)
    assert segfault.startswith("python3[4711]: segfault at 0")
    assert "79, pid=4711" in xid
    assert memory.startswith("Memory cgroup out of memory: Killed process 4711 (python3)")
    assert kernel_lines(471, written(tmp_path, LOG), NOW_S) == ()


def test_a_log_that_grows_or_may_not_be_read(tmp_path: Path) -> None:
    many = "".join(f"6,{n},999000000,-;process 7 x{n}\x1b[2J\n" for n in range(5000))
    found = kernel_lines(7, written(tmp_path, many), NOW_S)
    assert len(found) == MAX_LINES
    assert "\x1b" not in found[-1]
    assert kernel_lines(7, tmp_path / "none") == ()
    os.mkfifo(tmp_path / "empty")
    assert kernel_lines(7, tmp_path / "empty") == ()
    assert kernel_lines(2**22 + 1, KERNEL_LOG) == ()  # no process has this number


def test_a_kill_for_want_of_memory_is_told_by_it(tmp_path: Path) -> None:
    said = kernel_lines(4711, written(tmp_path, LOG), NOW_S)[-1:]
    facts = tuple(f"yarnam: the kernel's log: {line}" for line in said)
    run = FailedRun(tmp_path / "none", OutputStreams(), 0, 9, facts)
    found = examine(run, (), ()).finding
    assert (found.failure, found.line) == (FailureClass.CPU_OUT_OF_MEMORY, facts[0])
    without = FailedRun(tmp_path / "none", OutputStreams(), 0, 9)
    assert examine(without, (), ()).finding.failure is FailureClass.KILLED

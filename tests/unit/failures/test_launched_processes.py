"""A launcher whose process has failed: what that process said, and how it ended, is what counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.launcher_output import horovodrun, mpirun, torchrun
from yarnam.core.failures.evidence_zones import ProcessEvidence, child_status, zones_of
from yarnam.core.failures.process_failure import process_finding
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.outcomes import (
    FailureClass,
    FailureRole,
    FailureRule,
    Finding,
    RetryAction,
)
from yarnam.errors import Blame

C = FailureClass


def child(exception: str, prefix: str = "") -> str:
    lines = (
        "Traceback (most recent call last):",
        '  File "/job/fit.py", line 12, in <module>',
        "    run()",
        exception,
    )
    return "".join(f"{prefix}{line}\n" for line in lines)


def spawned(how: str) -> str:
    return f"""\
Traceback (most recent call last):
  File "/env/lib/python3.12/site-packages/torch/multiprocessing/spawn.py", line 180, in join
    raise ProcessExitedException(
torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with {how}
"""


LAUNCHERS = [("", torchrun()), ("[1]<stderr>:", horovodrun()), ("[1,0]<stderr>:", horovodrun()),
             ("Fri Nov 27 10:00:00 2026[1]<stderr>:", horovodrun()), ("[rank1]: ", torchrun()),
             ("[default1]:", torchrun()), ("", spawned("exit code 1"))]  # fmt: skip


def find(text: str, code: int = 1, signal: int = 0, *own: FailureRule) -> Finding:
    evidence = ProcessEvidence(code, signal, tuple(text.splitlines()))
    return process_finding(evidence, SHIPPED_RULES, own)


SAID = [
    ("ModuleNotFoundError: No module named 'tokens_fast'", C.IMPORT_ERROR),
    ("KeyError: 'lr'", C.SEMANTIC_ERROR),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", C.GPU_OUT_OF_MEMORY),
    ("ConnectionResetError: [Errno 104] Connection reset by peer", C.PEER_LOST),
    ("fit.Surprise: the moon is full", C.TRACEBACK),
]


@pytest.mark.parametrize(("prefix", "launcher"), LAUNCHERS)
@pytest.mark.parametrize(("exception", "failure"), SAID)
def test_the_childs_reason_is_the_finding_as_without_a_launcher(
    prefix: str, launcher: str, exception: str, failure: FailureClass
) -> None:
    found = find(child(exception, prefix) + launcher)
    alone = find(child(exception))
    assert (found.rule, found.failure) == (alone.rule, failure)
    assert (found.role, found.action, found.blame) == (alone.role, alone.action, alone.blame)
    assert found.line == exception


@pytest.mark.parametrize(("exception", "failure"), SAID)
def test_the_words_of_mpirun_do_not_hide_its_process(exception: str, failure: FailureClass) -> None:
    """It prints no traceback of its own: its words stand below that of its process."""
    for prefix in ("", "[1,1]<stderr>:"):
        found = find(child(exception, prefix) + mpirun())
        alone = find(child(exception))
        assert (found.rule, found.line) == (alone.rule, exception)
        assert found.failure is failure
    assert find("step 40 loss 1.91\n" + mpirun()).role is FailureRole.CONFIRMATION


def test_what_a_destructor_of_the_child_raises_is_not_its_reason() -> None:
    ignored = "Exception ignored in: <function Adam.__del__ at 0x7f1d>\n"
    text = child("KeyError: 'lr'") + ignored + child("AttributeError: no attribute 'handle'")
    for launched in (text, text + torchrun(), text + horovodrun()):
        assert find(launched).line == "KeyError: 'lr'"


def test_the_first_line_of_a_traceback_is_no_reason() -> None:
    assert find(child("fit.Surprise: the moon is full")).line == "fit.Surprise: the moon is full"
    chained = (
        child("fit.First: a")
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + child("fit.Second: b")
    )
    assert find(chained).line == "fit.Second: b"
    assert find(chained + torchrun()).line == "fit.Second: b"
    assert find("Traceback (most recent call last):").line == "Traceback (most recent call last):"


def test_of_several_processes_the_one_with_a_reason_counts() -> None:
    """The others found a peer gone."""
    gone = child("ConnectionResetError: [Errno 104] Connection reset by peer", "[rank0]: ")
    why = child("fit.Surprise: the moon is full", "[rank1]: ")
    for text in (why + gone, gone + why, why + gone + gone):
        found = find(text + torchrun())
        assert (found.line, found.role) == ("fit.Surprise: the moon is full", FailureRole.ROOT)
    known = child("KeyError: 'lr'", "[rank2]: ")
    assert find(why + known + gone + torchrun()).failure is C.SEMANTIC_ERROR


def test_what_a_child_has_survived_is_not_its_reason() -> None:
    survived = child("KeyError: 'lr'")
    later = "".join(f"step {number}\n" for number in range(60))
    assert find(survived + later + torchrun()).role is FailureRole.CONFIRMATION
    assert find(survived + later + torchrun(-9)).failure is C.KILLED
    assert find(survived + torchrun(-9)).failure is C.KILLED


def test_a_child_may_say_why_without_a_traceback() -> None:
    said = "fit.py: error: unrecognized arguments: --epocs\n"
    assert find(said + torchrun(2)).failure is C.SEMANTIC_ERROR
    assert find(torchrun()).role is FailureRole.CONFIRMATION


@pytest.mark.parametrize("number", [4, 7, 8, 9, 11, 15])
def test_a_signal_that_ended_the_child_is_as_one_that_ended_the_process(number: int) -> None:
    alone = find("step 40 loss 1.91", 0, number)
    for text in (
        torchrun(-number, f"Signal {number} (SIG) received by PID 81"),
        horovodrun(-number),
        horovodrun(128 + number),
    ):
        found = find("step 40 loss 1.91\n" + text)
        assert (found.rule, found.action, found.blame) == (alone.rule, alone.action, alone.blame)
        assert found.role is FailureRole.ROOT
        assert found.line.endswith((f"{number}", f"{number} (pid: 81)", f"{128 + number}"))


def test_a_child_that_the_kernel_killed_for_memory_gets_more_memory() -> None:
    facts = ("yarnam: the kernel killed a process of this container for want of memory",)
    evidence = ProcessEvidence(1, 0, tuple(torchrun(-9).splitlines()), facts=facts)
    found = process_finding(evidence, SHIPPED_RULES)
    assert (found.failure, found.action) == (C.CPU_OUT_OF_MEMORY, RetryAction.MORE_MEMORY)


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("[ERROR] [launch.py:325] ['python'] exits with return code = -9", C.KILLED),
        ("[ERROR] [launch.py:325] ['p'] exits with return code = -7", C.LIMIT_EXCEEDED),
        ("mpirun noticed that process rank 1 with PID 9 on node n exited on signal 9 (Killed).",
         C.KILLED),
        ("mpirun noticed that process rank 1 with PID 9 on node n exited on signal 11 (Segm).",
         C.INVALID_MEMORY_ACCESS),
        ("YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)", C.KILLED),
        (spawned("signal SIGKILL"), C.KILLED),
    ],
)  # fmt: skip
def test_signals_in_the_words_of_other_launchers(text: str, failure: FailureClass) -> None:
    assert find(text).failure is failure


def test_processes_that_failed_after_the_first_do_not_count() -> None:
    later = "[1]:\n  rank      : 3\n  exitcode  : -9 (pid: 83)\n  traceback : Signal 9 (SIGKILL) x"
    found = find(child("KeyError: 'lr'") + torchrun(1, more=later))
    assert found.failure is C.SEMANTIC_ERROR


def test_a_child_decides_by_its_exit_code_too() -> None:
    assert find(torchrun(193)).failure is C.DECLARED_TRANSIENT
    assert find(child("KeyError: 'lr'") + torchrun(194)).failure is C.DECLARED_PERMANENT
    own = FailureRule("mine", C.TRACEBACK, RetryAction.FREE,
                      Blame.INFRA, exit_codes=(42,))  # fmt: skip
    assert find(torchrun(42), 1, 0, own).rule == "mine"
    assert find(torchrun(43), 1, 0, own).rule != "mine"
    assert find(torchrun(42), 1, 0, replace(own, exit_codes=(1,))).rule == "mine"


def test_an_aborted_child_may_have_found_a_peer_gone() -> None:
    """As NCCL does it."""
    assert find(torchrun(-6)).role is FailureRole.CONFIRMATION
    assert find(child("KeyError: 'lr'") + torchrun(-6)).failure is C.SEMANTIC_ERROR


def test_the_error_file_of_record_counts_more_than_the_table() -> None:
    evidence = ProcessEvidence(1, 0, tuple(torchrun().splitlines()), error_file=("KeyError: 'lr'",))
    assert process_finding(evidence, SHIPPED_RULES).failure is C.SEMANTIC_ERROR


HYDRA = """\
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 81 RUNNING AT gpu-a
=   EXIT CODE: {code}
===================================================================================
"""
OPEN_MPI = """\
Primary job  terminated normally, but 1 process returned a non-zero exit code.
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[4021,1],1]
  Exit code:    3
"""


@pytest.mark.parametrize(
    ("text", "code", "signal"),
    [
        (torchrun(-9), 0, 9),
        (torchrun(137), 137, 0),
        (torchrun(2), 2, 0),
        (horovodrun(-11), 0, 11),
        (OPEN_MPI, 3, 0),
        ("mpirun noticed that process rank 1 with PID 9 on node n exited on signal 9 (Killed).",
         0, 9),
        (HYDRA.format(code=7), 7, 0),
        (HYDRA.format(code=9)
         + "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)", 0, 9),
        ("srun: error: gpu-a: task 1: Exited with exit code 2", 2, 0),
        ("srun: error: gpu-a: tasks 0-1: Killed", 0, 9),
        ("srun: error: gpu-a: task 3: Segmentation fault (core dumped)", 0, 11),
        ("srun: error: gpu-a: task 3: Out Of Memory", 0, 9),
        ("[ERROR] [launch.py:325:sigkill_handler] ['p'] exits with return code = -9", 0, 9),
        ("[ERROR] [launch.py:325:sigkill_handler] ['p'] exits with return code = 3", 3, 0),
        ("run.sh: line 3:    81 Killed                  python3 fit.py", 0, 9),
        ("/job/run.sh: line 12: 81 Segmentation fault      (core dumped) python3 fit.py", 0, 11),
        ("subprocess.CalledProcessError: Command '['p']' died with <Signals.SIGKILL: 9>.", 0, 9),
        ("subprocess.CalledProcessError: Command '['p']' returned non-zero exit status 3.", 3, 0),
        (spawned("signal SIGSEGV"), 0, 11),
    ],
)  # fmt: skip
def test_how_the_launchers_process_ended(text: str, code: int, signal: int) -> None:
    lines = tuple(f"step 1 loss 2.0\n{text}".splitlines())
    evidence = ProcessEvidence(1, 0, lines)
    found = child_status(evidence, zones_of(evidence))
    assert found is not None
    assert (found.code, found.signal) == (code, signal)
    killed = ProcessEvidence(0, 15, lines)
    assert child_status(killed, zones_of(killed)) is None, "the launcher's own end counts"


@pytest.mark.parametrize(
    "text",
    [
        "step 40 loss 1.91",
        child("KeyError: 'lr'"),
        "Exit code: none",
        "run.sh: line 3: fit: command not found",
        "srun: error: gpu-a: task 3: Launch failed",
        "Killed 3 idle workers",
        "worker 81 Killed",
    ],
)
def test_other_words_name_no_process_of_a_launcher(text: str) -> None:
    evidence = ProcessEvidence(1, 0, tuple(text.splitlines()))
    assert child_status(evidence, zones_of(evidence)) is None

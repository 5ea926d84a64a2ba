"""Why one process failed, from what it left."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import Any

import pytest

from hdfs_utils.checkpoints import Token
from hdfs_utils.checkpoints.commit.fence import Fence
from hdfs_utils.errors import Fenced
from tests.fakes.files import MemoryFiles
from yarnam.core.failures.evidence_zones import ProcessEvidence, own_traceback
from yarnam.core.failures.process_failure import (
    container_finding,
    process_finding,
)
from yarnam.core.failures.shipped_rules import SHIPPED_RULES as RULES
from yarnam.core.model.outcomes import (
    FailureClass,
    FailureRole,
    FailureRule,
    Finding,
    Origin,
    RetryAction,
    Stream,
)
from yarnam.errors import Blame

C = FailureClass

IMPORT_ERROR = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    import torchvison
ModuleNotFoundError: No module named 'torchvison'
"""

OUT_OF_MEMORY = """\
Traceback (most recent call last):
  File "train.py", line 8, in <module>
    x = numpy.ones((1 << 40,))
numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 TiB for an array with shape (2,)
"""


def find(text: str = "", code: int = 1, signal: int = 0, **more: Any) -> Finding:
    log = tuple(text.splitlines())
    return process_finding(ProcessEvidence(code, signal, log, **more), RULES)


ONE_LINE = [
    ("RuntimeError: Failed to bind to address 127.0.0.1:5000", C.PORT_IN_USE),
    ("bind failed: Permission denied", C.PERMISSION_ERROR),
    ("lib.ColumnNotFoundError: The following columns were not found", C.SEMANTIC_ERROR),
    ("/usr/bin/ld: cannot find -lcudart: No such file or directory", C.LIBRARY_NOT_LOADED),
    ("make: *** [Makefile:2: all] Killed", C.KILLED),
    ("make: *** [Makefile:2: all] Segmentation fault (core dumped)", C.INVALID_MEMORY_ACCESS),
    ("curl: (7) Failed to connect to h port 1: Couldn't connect to server", C.COMMUNICATION_ERROR),
    ("TypeError: Cannot read properties of undefined (reading 'push')", C.SEMANTIC_ERROR),
    ('can\'t read "rate": no such variable', C.SEMANTIC_ERROR),
    ("dataclasses.FrozenInstanceError: cannot assign to field 'rate'", C.SEMANTIC_ERROR),
    ("can't find package yaml_reader 2.0", C.IMPORT_ERROR),
    ("Makefile:2: *** missing separator (did you mean TAB?).  Stop.", C.SYNTAX_ERROR),
    ("mawk: line 1: missing ) near }", C.SYNTAX_ERROR),
    ("xml.etree.ElementTree.ParseError: syntax error: line 1, column 0", C.INCORRECT_INPUTS),
    ("OSError: [Errno 98] Address already in use", C.PORT_IN_USE),
    ("train.py: error: unrecognized arguments: --epocs", C.SEMANTIC_ERROR),
    ("OSError: [Errno 28] No space left on device: 'out.bin'", C.DISK_FULL),
    ("PermissionError: [Errno 13] Permission denied: '/data/x'", C.PERMISSION_ERROR),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'a'", C.INCORRECT_INPUTS),
    (
        "ImportError: lib.so: cannot open shared object file: No such file",
        C.LIBRARY_NOT_LOADED,
    ),
    ("ImportError: cannot import name 'x' from 'y'", C.IMPORT_ERROR),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", C.GPU_ECC_ERROR),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        C.GPU_OUT_OF_MEMORY,
    ),
    ("RuntimeError: CUDA error: device-side assert triggered", C.SEMANTIC_ERROR),
    ("RuntimeError: No CUDA GPUs are available", C.CUDA_INIT_FAILED),
    ("RuntimeError: The NVIDIA driver on your system is too old (found", C.CUDA_VERSION_MISMATCH),
    ("RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer", C.PEER_LOST),
    ("torch.distributed.DistStoreError: wait timeout after 60000ms", C.PEER_LOST),
    ("ConnectionResetError: [Errno 104] Connection reset by peer", C.PEER_LOST),
    ("SyntaxError: invalid syntax", C.SYNTAX_ERROR),
    ("FloatingPointError: loss is nan at step 7", C.DIVERGED),
    ("MemoryError", C.CPU_OUT_OF_MEMORY),
    ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff", C.INCORRECT_INPUTS),
    ("hdfs_utils.errors.Unavailable: the NameNode is in safe mode", C.CHECKPOINT_ERROR),
    ("ValueError: operands could not be broadcast together with shapes", C.SEMANTIC_ERROR),
    ("OSError: [Errno 24] Too many open files", C.LIMIT_EXCEEDED),
    ("ValueError: Loss is NaN", C.DIVERGED),
    ("subprocess.CalledProcessError: Command 'x' died with <Signals.SIGKILL: 9>.", C.KILLED),
    ("OSError: Cannot save file into a non-existent directory: 'runs'", C.OUTPUT_ERROR),
    ("ValueError: cannot mmap an empty file", C.INCORRECT_INPUTS),
    ("ConnectionRefusedError: [Errno 111] Connection refused", C.COMMUNICATION_ERROR),
    ("FileExistsError: [Errno 17] File exists: 'out'", C.OUTPUT_ERROR),
    ("urllib.error.HTTPError: HTTP Error 404: Not Found", C.INCORRECT_INPUTS),
    ("socket.gaierror: [Errno -2] Name or service not known", C.COMMUNICATION_ERROR),
    ("ValueError: Input X contains NaN.", C.INCORRECT_INPUTS),
    ("OSError: [Errno 8] Exec format error: 'train'", C.COMMAND_NOT_FOUND),
    ("sqlite3.OperationalError: database or disk is full", C.DISK_FULL),
    ("pydantic_core.ValidationError: 1 validation error for Settings", C.SEMANTIC_ERROR),
    ("Error: Invalid value for '--rate': 'fast' is not a valid float.", C.SEMANTIC_ERROR),
    ("jinja2.exceptions.UndefinedError: no 'role'", C.SEMANTIC_ERROR),
    ("ValueError: loss contains NaN values", C.DIVERGED),
    ("ValueError: day is out of range for month, at position 1", C.INCORRECT_INPUTS),
    ("sqlite3.OperationalError: database is locked", C.OUTPUT_ERROR),
    (
        "loky.TerminatedWorkerError: segmentation fault or memory. Exit codes: {SIGKILL(-9)}",
        C.KILLED,
    ),
    ("RuntimeError: decoder ended with exit code -11", C.INVALID_MEMORY_ACCESS),
    ("RuntimeError: decoder ended with exit code -6", C.CORE_DUMP),
    ("ProcessRaisedException: process 1 terminated with signal SIGKILL", C.KILLED),
    ("UnboundLocalError: cannot access local variable 'mean' where", C.SEMANTIC_ERROR),
]


OTHER_LANGUAGES = [
    ("terminate called after throwing an instance of 'std::out_of_range'", C.SEMANTIC_ERROR),
    ("  what():  stoi", C.INCORRECT_INPUTS),
    ("  what():  Resource temporarily unavailable", C.LIMIT_EXCEEDED),
    ("free(): double free detected in tcache 2", C.INVALID_MEMORY_ACCESS),
    ("step: step.cc:2: int main(): Assertion `count == 8' failed.", C.CORE_DUMP),
    ('Exception in thread "main" java.lang.NullPointerException', C.SEMANTIC_ERROR),
    ("Caused by: java.lang.ClassNotFoundException: org.example.Train", C.IMPORT_ERROR),
    ("java.lang.OutOfMemoryError: Java heap space", C.CPU_OUT_OF_MEMORY),
    ("java.lang.OutOfMemoryError: unable to create native thread", C.LIMIT_EXCEEDED),
    ("java.nio.file.NoSuchFileException: /data/vocabulary.txt", C.INCORRECT_INPUTS),
    ("java.net.BindException: Address already in use", C.PORT_IN_USE),
    ("Error: Cannot find module 'csv-parse'", C.IMPORT_ERROR),
    ("SyntaxError: Unterminated string in JSON at position 23", C.INCORRECT_INPUTS),
    ("Error: listen EADDRINUSE: address already in use 127.0.0.1:80", C.PORT_IN_USE),
    ("Can't locate Text/Fast.pm in @INC (you may need to install it)", C.IMPORT_ERROR),
    ("panic: runtime error: index out of range [4] with length 1", C.SEMANTIC_ERROR),
    ("called `Option::unwrap()` on a `None` value", C.SEMANTIC_ERROR),
    ("make: *** No rule to make target 'features.npy'.  Stop.", C.INCORRECT_INPUTS),
    ("bash: line 1: SITE_DATA_ROOT: unbound variable", C.SEMANTIC_ERROR),
    ("bash: fork: retry: Resource temporarily unavailable", C.LIMIT_EXCEEDED),
    ("curl: (6) Could not resolve host: weights.invalid", C.COMMUNICATION_ERROR),
    ("curl: (22) The requested URL returned error: 404", C.INCORRECT_INPUTS),
    ('ERROR:  column "labels" does not exist', C.SEMANTIC_ERROR),
    ("RESOURCE_EXHAUSTED: Out of memory allocating 68719476736 bytes.", C.CPU_OUT_OF_MEMORY),
    (
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
        C.GPU_OUT_OF_MEMORY,
    ),
]


@pytest.mark.parametrize(("line", "failure"), OTHER_LANGUAGES)
def test_a_line_of_any_program_names_the_class(line: str, failure: FailureClass) -> None:
    log = ("step 3 loss 0.250", line, "")
    found = process_finding(ProcessEvidence(code=1, log=log), RULES)
    assert found.failure is failure, found


@pytest.mark.parametrize(("line", "failure"), ONE_LINE)
def test_the_line_that_ends_a_traceback_names_the_class(line: str, failure: FailureClass) -> None:
    found = find(f'Traceback (most recent call last):\n  File "x", line 1\n    f()\n{line}\n')
    assert found.failure is failure
    assert found.line == line


ENDS = [
    (0, 9, C.KILLED, RetryAction.RETRY),
    (137, 0, C.KILLED, RetryAction.RETRY),
    (0, 15, C.KILLED, RetryAction.RETRY),
    (0, 11, C.INVALID_MEMORY_ACCESS, RetryAction.ALLOWED),
    (139, 0, C.INVALID_MEMORY_ACCESS, RetryAction.ALLOWED),
    (0, 6, C.CORE_DUMP, RetryAction.ALLOWED),
    (256 - 9, 0, C.KILLED, RetryAction.RETRY),
    (256 - 11, 0, C.INVALID_MEMORY_ACCESS, RetryAction.ALLOWED),
    (255, 0, C.UNKNOWN, RetryAction.ALLOWED),
    (0, 24, C.LIMIT_EXCEEDED, RetryAction.NEVER),
    (0, 25, C.LIMIT_EXCEEDED, RetryAction.NEVER),
    (193, 0, C.DECLARED_TRANSIENT, RetryAction.FREE),
    (194, 0, C.DECLARED_PERMANENT, RetryAction.NEVER),
    (3, 0, C.UNKNOWN, RetryAction.ALLOWED),
]


@pytest.mark.parametrize(("code", "signal", "failure", "action"), ENDS)
def test_an_exit_status_alone(
    code: int, signal: int, failure: FailureClass, action: RetryAction
) -> None:
    found = find("epoch 1 loss 0.3", code, signal)
    assert (found.failure, found.action) == (failure, action)


def test_a_full_quota_is_waited_for() -> None:
    found = find("hdfs_utils.errors.QuotaExceeded: The DiskSpace quota of /jobs is exceeded")
    assert (found.failure, found.action) == (C.DISK_FULL, RetryAction.FREE)


def test_an_hdfs_that_is_away_for_long_does_not_use_up_the_restarts() -> None:
    found = find("hdfs_utils.errors.Unavailable: Operation category READ is not supported")
    assert found.action is RetryAction.FREE


def test_a_declared_end_counts_more_than_what_the_log_says() -> None:
    assert find(IMPORT_ERROR, code=193).failure is C.DECLARED_TRANSIENT


def test_a_kill_by_the_kernel_for_want_of_memory_is_known_by_the_agent() -> None:
    fact = "yarnam: the kernel killed a process of this container for want of memory"
    found = find("", 0, 9, facts=(fact,))
    assert (found.failure, found.action) == (C.CPU_OUT_OF_MEMORY, RetryAction.MORE_MEMORY)


def test_what_was_survived_does_not_count() -> None:
    early = "FileNotFoundError: [Errno 2] No such file or directory: 'cache'\n"
    found = find(early + "training\n" * 100 + OUT_OF_MEMORY)
    assert found.failure is C.CPU_OUT_OF_MEMORY


def test_what_the_source_in_a_traceback_says_has_not_happened() -> None:
    text = IMPORT_ERROR.replace("import torchvison", "import x  # else: CUDA out of memory")
    assert find(text).failure is C.IMPORT_ERROR


def test_the_first_of_chained_exceptions_is_seen() -> None:
    chained = (
        OUT_OF_MEMORY
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + 'Traceback (most recent call last):\n  File "t.py"\n    f()\nRuntimeError: cannot save\n'
    )
    assert find(chained).failure is C.CPU_OUT_OF_MEMORY


CHILD = """\
Process SyncManager-1:
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/process.py", line 314, in _bootstrap
    self.run()
OSError: [Errno 98] Address already in use
"""

PARENT = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    manager.start()
EOFError
"""


def test_a_child_says_why_its_parent_found_it_gone() -> None:
    found = find(CHILD + PARENT)
    assert (found.failure, found.role) == (C.PORT_IN_USE, FailureRole.ROOT)
    assert any(one.startswith("socket-peer (last traceback): EOFError") for one in found.ruled_out)


def test_why_the_workers_of_a_pool_could_not_start() -> None:
    child = "Exception in initializer:\n" + IMPORT_ERROR
    parent = PARENT.replace("EOFError", "BrokenProcessPool: A child process terminated abruptly")
    assert find(child + parent).failure is C.IMPORT_ERROR
    assert find(parent).failure is C.KILLED


def test_a_peer_that_is_gone_is_not_explained_by_what_was_survived() -> None:
    """No child printed the first traceback; or the child found a peer gone as well."""
    assert find(OUT_OF_MEMORY + PARENT).failure is C.PEER_LOST
    also = CHILD.replace("OSError: [Errno 98] Address already in use", "ConnectionResetError")
    assert find(also + PARENT).failure is C.PEER_LOST


def test_what_a_parent_died_of_itself_counts_more_than_what_its_child_said() -> None:
    assert find(CHILD + OUT_OF_MEMORY).failure is C.CPU_OUT_OF_MEMORY


GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "train.py", line 9, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "train.py", line 3, in read
    |     return open(name)  # or MemoryError
    | FileNotFoundError: [Errno 2] No such file or directory: 'shard-0'
    +------------------------------------
"""


def test_an_exception_within_a_group_is_seen() -> None:
    found = find(GROUP)
    assert (found.failure, found.line[:17]) == (C.INCORRECT_INPUTS, "FileNotFoundError")


RAISED = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    step()
  File "{}", line 9, in inner
    raise
{}
"""


def test_a_file_that_ends_early_is_no_connection_that_does() -> None:
    assert find(RAISED.format("fastavro/_read.pyx", "EOFError")).failure is C.INCORRECT_INPUTS
    assert find(RAISED.format("/usr/lib/x.py", "EOFError")).failure is C.PEER_LOST


def test_a_value_that_an_enumeration_lacks_is_no_damaged_input() -> None:
    line = "ValueError: 'adamw' is not a valid Optimizer"
    assert find(RAISED.format("/usr/lib/enum.py", line)).failure is C.SEMANTIC_ERROR
    assert find(RAISED.format("photo.py", line)).failure is C.INCORRECT_INPUTS


FAILED = "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1."


def test_a_command_that_failed_says_why_just_before() -> None:
    parent = PARENT.replace("EOFError", FAILED)
    assert find(IMPORT_ERROR + parent).failure is C.IMPORT_ERROR
    said = "tar: shard-7.tar: Cannot open: No such file or directory\n"
    assert find(said + parent).failure is C.INCORRECT_INPUTS
    assert find(said + "step\n" * 50 + parent).failure is C.TRACEBACK
    killed = parent.replace("status 1.", "status 137.")
    assert find(said + killed).failure is C.KILLED


SERVICE = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    track(loss)
  File "/env/lib/python3.11/site-packages/{}/client.py", line 9, in ask
    raise
ConnectionResetError: [Errno 104] Connection reset by peer
"""


def test_a_service_that_went_away_is_no_peer_of_the_gang() -> None:
    found = find(SERVICE.format("redis"))
    assert (found.failure, found.role) == (C.COMMUNICATION_ERROR, FailureRole.ROOT)
    assert find(SERVICE.format("torch")).failure is C.PEER_LOST


def test_torchruns_words_on_an_aborted_child_are_a_confirmation() -> None:
    """NCCL aborts the processes that find a peer gone."""
    text = "ChildFailedError: train.py FAILED\n  exitcode: -6 (pid: 99)"
    found = find("Traceback (most recent call last):\n" + text)
    assert found.role is FailureRole.CONFIRMATION


def test_what_a_server_thread_prints_later_has_not_ended_the_process() -> None:
    later = "ERROR:grpc._server:Exception calling application: \n" + IMPORT_ERROR.replace(
        "ModuleNotFoundError: No module named 'torchvison'", "threading.BrokenBarrierError"
    )
    assert find(OUT_OF_MEMORY + later).failure is C.CPU_OUT_OF_MEMORY
    assert find(later).role is FailureRole.CASCADE


def test_ranks_before_the_lines_do_not_matter() -> None:
    text = "".join(f"[rank3]: {line}\n" for line in IMPORT_ERROR.splitlines())
    assert find(text).failure is C.IMPORT_ERROR


def test_the_error_file_counts_more_than_the_log() -> None:
    noise = "ConnectionResetError: [Errno 104] Connection reset by peer\n"
    found = find(noise, error_file=("ValueError: operands could not be broadcast together",))
    assert (found.failure, found.role) == (C.SEMANTIC_ERROR, FailureRole.ROOT)


def test_a_broken_connection_is_a_symptom() -> None:
    found = find("Traceback (most recent call last):\nConnectionResetError: [Errno 104] gone\n")
    assert found.role is FailureRole.CASCADE


def test_what_else_matched_is_told() -> None:
    found = find("MemoryError\nConnectionResetError: gone\n")
    assert any(one.startswith("socket-peer (last lines): Conn") for one in found.ruled_out)


OWN = FailureRule(
    "flaky", C.COMMUNICATION_ERROR, RetryAction.FREE, Blame.INFRA, patterns=("No module named",)
)


def test_the_jobs_own_rules_come_first() -> None:
    evidence = ProcessEvidence(1, 0, tuple(IMPORT_ERROR.splitlines()))
    assert process_finding(evidence, RULES, (OWN,)).rule == "flaky"
    other = replace(OWN, exit_codes=(7,))
    assert process_finding(evidence, RULES, (other,)).failure is C.IMPORT_ERROR


DIAGNOSTICS = [
    ("Container [pid=1,containerID=c] is running 1B beyond the 'PHYSICAL' memory limit.",
     C.CPU_OUT_OF_MEMORY),
    ("x is running beyond virtual memory limits. Current usage: 1 GB", C.CPU_OUT_OF_MEMORY),
    ("Container preempted by scheduler", C.PREEMPTED),
    ("Container released on a *lost* node", C.NODE_LOST),
    ("Failed to download resource { { hdfs://nn/x, 1, FILE, null },pending", C.COMMUNICATION_ERROR),
    ("java.io.FileNotFoundException: File does not exist: hdfs://nn/x", C.INCORRECT_INPUTS),
]  # fmt: skip


@pytest.mark.parametrize(("text", "failure"), DIAGNOSTICS)
def test_yarns_words(text: str, failure: FailureClass) -> None:
    found = container_finding(f"[2026-01-01 00:00:00.000]\n{text}\n", RULES)
    assert found is not None
    assert found.failure is failure


def test_yarns_words_that_say_nothing() -> None:
    assert container_finding("Container exited with a non-zero exit code 1", RULES) is None


def written(*streams: Stream | None) -> tuple[Origin | None, ...]:
    return tuple(Origin(stream, 100.0 + number) for number, stream in enumerate(streams))


OUT, ERR = Stream.STDOUT, Stream.STDERR


def test_what_stdout_held_back_until_the_end_is_not_the_reason() -> None:
    """Its buffer is written after the traceback, whenever it was filled."""
    text = IMPORT_ERROR + "retrying: OSError: [Errno 28] No space left on device"
    assert find(text).failure is C.DISK_FULL
    found = find(text, origins=written(ERR, ERR, ERR, ERR, OUT))
    assert found.failure is C.IMPORT_ERROR
    assert found.origin == Origin(ERR, 103.0)


def test_a_traceback_on_stdout_is_read_with_all_that_follows() -> None:
    found = find(IMPORT_ERROR, origins=written(OUT, OUT, OUT, OUT))
    assert (found.failure, found.origin) == (C.IMPORT_ERROR, Origin(OUT, 103.0))


def test_stderr_counts_more_than_stdout_in_the_last_lines() -> None:
    text = "not enough memory for the cache: without it\nOSError: [Errno 98] Address already in use"
    assert find(text).failure is C.CPU_OUT_OF_MEMORY
    found = find(text, origins=written(OUT, ERR))
    assert (found.failure, found.origin) == (C.PORT_IN_USE, Origin(ERR, 101.0))
    assert found.ruled_out == (
        "out-of-memory (last lines): not enough memory for the cache: without it",
    )


def test_the_time_of_a_line_whose_stream_is_not_known() -> None:
    found = find("OSError: [Errno 98] Address already in use", origins=written(None))
    assert found.origin == Origin(None, 100.0)


def test_what_the_agent_saw_has_no_stream() -> None:
    facts = ("yarnam: the kernel killed a process of this container for want of memory",)
    found = find("step 1", 0, 9, facts=facts, origins=written(OUT))
    assert (found.failure, found.origin) == (C.CPU_OUT_OF_MEMORY, None)


def test_what_a_living_process_has_raised_is_its_last_traceback_alone() -> None:
    """Not what faulthandler wrote when it was asked where it is, nor what it printed before."""
    dump = ("Current thread 0x1 (most recent call first):", '  File "/x/json/decoder.py", line 3')
    lines = ("MemoryError: survived", *IMPORT_ERROR.splitlines(), *dump)
    origins = tuple(Origin(Stream.STDERR, float(number)) for number in range(len(lines)))
    found = own_traceback(ProcessEvidence(1, log=lines, origins=origins))
    assert found is not None
    own, origin = found
    assert not any("json" in line for line in own.log)
    assert origin == Origin(Stream.STDERR, 1.0)
    assert process_finding(own, RULES).failure is C.IMPORT_ERROR


def test_a_living_process_may_have_failed_by_its_child() -> None:
    lines = (*IMPORT_ERROR.splitlines(), *CALLED.splitlines())
    found = own_traceback(ProcessEvidence(1, log=lines))
    assert found is not None
    assert process_finding(found[0], RULES).failure is C.IMPORT_ERROR


CALLED = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    subprocess.run(["eval.py"], check=True)
subprocess.CalledProcessError: Command '['eval.py']' returned non-zero exit status 1.
"""


def test_what_a_living_process_has_survived_for_long_does_not_count() -> None:
    lines = (*IMPORT_ERROR.splitlines(), *("step" for _ in range(300)))
    assert own_traceback(ProcessEvidence(1, log=lines)) is None


def test_a_living_process_without_a_traceback_has_raised_nothing() -> None:
    assert own_traceback(ProcessEvidence(1, log=("MemoryError: survived",))) is None
    told = ProcessEvidence(1, error_file=("MemoryError",), error_at_s=7.0)
    assert own_traceback(told) == (told, None)


def test_a_job_whose_checkpoints_another_job_took_is_not_started_again() -> None:
    """As the library raises it: the line names the other job."""
    fs = MemoryFiles()
    mine, other = Token("application_1_0007", (1,)), Token("application_1_0008", (1,))
    fence = Fence.claim(fs, "/c", mine)
    Fence.claim(fs, "/c", other)
    with pytest.raises(Fenced) as caught:
        fence.check()
    text = "".join(traceback.format_exception(caught.value))
    found = find(text)
    assert (found.failure, found.action) == (C.CHECKPOINT_TAKEN, RetryAction.NEVER)
    assert (found.blame, found.role) == (Blame.USER, FailureRole.ROOT)
    assert "application_1_0008:1" in found.line
    of_own = text.replace("FencedByAnother", "Fenced")
    assert find(of_own).failure is C.PEER_LOST

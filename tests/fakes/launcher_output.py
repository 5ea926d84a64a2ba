"""What launchers print, in their own words, when a process of theirs has failed."""

from __future__ import annotations

TORCH = "torch/distributed/elastic/multiprocessing/api.py"


def torchrun(
    exitcode: int = 1, traceback: str = "To enable traceback see: x", more: str = ""
) -> str:
    """torch 2.4, without ``@record``."""
    return f"""\
E1127 10:00:00.1 77 {TORCH}:900] failed (exitcode: {exitcode}) local_rank: 1 (pid: 81) of binary: p
Traceback (most recent call last):
  File "/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/env/lib/python3.12/site-packages/torch/distributed/launcher/api.py", line 280, in launch
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
fit.py FAILED
------------------------------------------------------------
Failures:
{more or "  <NO_OTHER_FAILURES>"}
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-27_10:00:00
  host      : gpu-a
  rank      : 1 (local_rank: 1)
  exitcode  : {exitcode} (pid: 81)
  error_file: <N/A>
  traceback : {traceback}
============================================================
"""


def horovodrun(exitcode: int = 1) -> str:
    told = "Horovod detected that one or more processes exited with non-zero status, thus causing"
    return f"""\
Process 1 exit with status code {exitcode}.
Traceback (most recent call last):
  File "/env/bin/horovodrun", line 8, in <module>
    sys.exit(run_commandline())
RuntimeError: {told} the job to be terminated. The first process to do so was:
Process name: 1
Exit code: {exitcode}
"""


def accelerate(exitcode: int = 1) -> str:
    """accelerate without torchrun."""
    return f"""\
Traceback (most recent call last):
  File "/env/bin/accelerate", line 8, in <module>
    sys.exit(main())
  File "/env/lib/python3.10/site-packages/accelerate/commands/launch.py", line 580, in simple_launcher
    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)
subprocess.CalledProcessError: Command '['/env/bin/python', 'fit.py']' returned non-zero exit status {exitcode}.
"""  # noqa: E501


def deepspeed(exitcode: int = 1) -> str:
    return f"""\
[2024-11-27 10:00:00,345] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4127
[2024-11-27 10:00:00,346] [ERROR] [launch.py:325:sigkill_handler] ['/env/bin/python', '-u', 'fit.py', '--local_rank=0'] exits with return code = {exitcode}
"""  # noqa: E501


def mpirun(exitcode: int = 1) -> str:
    """Open MPI 4."""
    bar = "-" * 74
    return f"""\
{bar}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{bar}
{bar}
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[4021,1],1]
  Exit code:    {exitcode}
{bar}
"""

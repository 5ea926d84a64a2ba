"""Runs a gang as the agents and the AM do: one failed process ends the others, and the findings
of all of them give the first cause."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from yarnam.agent.launch.failure_examination import FailedRun, examine
from yarnam.agent.launch.log_evidence import log_evidence
from yarnam.agent.launch.output_streams import OutputStreams
from yarnam.core.failures.evidence_zones import ProcessEvidence, own_traceback
from yarnam.core.failures.first_failure import FailedProcess, in_order_of_cause
from yarnam.core.failures.process_failure import UNKNOWN, process_finding
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.outcomes import Finding

CODE = Path(__file__).parents[1]
LIMIT_S = 600.0
STOP_S = 2.0
"""From the first failure to the stop of the others, as in a job."""
GRACE_S = 5.0
QUIET_S = 20.0
"""A gang that prints nothing for so long hangs, if a rank has raised something."""


@dataclass(frozen=True)
class GangCase:
    """``name`` of the fault; the rank that has it, and when."""

    fault: str
    collective: str
    size: int
    rank: int
    step: int


@dataclass(frozen=True)
class GangEnd:
    """What was found: the first rank and its finding; how many processes ended how."""

    rank: int
    finding: Finding


def run_gang(case: GangCase, folder: Path) -> GangEnd:
    """Start it, wait for its failure, stop the rest, and find the first cause."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs = [folder / f"{rank}.log" for rank in range(case.size)]
    ranks = [_start(case, rank, port, logs[rank]) for rank in range(case.size)]
    ended: dict[int, tuple[float, bool]] = {}
    first_s, deadline_s, asked = None, time.time() + LIMIT_S, False
    while len(ended) < case.size:
        now_s = time.time()
        for rank, process in enumerate(ranks):
            if rank not in ended and process.poll() is not None:
                ended[rank] = (now_s, asked)
                first_s = first_s or now_s
        if not asked and ((first_s and now_s > first_s + STOP_S) or now_s > deadline_s):
            asked = True
            deadline_s = now_s + GRACE_S
            for process in ranks:
                process.terminate()
        elif not asked and not first_s and (hung := _hung(logs, now_s)) is not None:
            for process in ranks:
                process.kill()
                process.wait()
            return hung
        elif asked and now_s > deadline_s:
            for process in ranks:
                process.kill()
        time.sleep(0.01)
    return _judge(ranks, logs, ended)


def _hung(logs: list[Path], now_s: float) -> GangEnd | None:
    """As the ApplicationMaster judges a gang that hangs: by what a living rank has raised; None:
    the gang goes on, or none has raised anything."""
    if now_s - max(log.stat().st_mtime for log in logs) < QUIET_S:
        return None
    failed = []
    for rank, log in enumerate(logs):
        lines = tuple(line.text for line in log_evidence(log))
        found = own_traceback(ProcessEvidence(1, log=lines))
        if found is not None:
            finding = process_finding(found[0], SHIPPED_RULES)
            failed.append(FailedProcess(rank, rank, log.stat().st_mtime, finding))
    first = next(iter(in_order_of_cause(failed)), None)
    return None if first is None else GangEnd(first.rank, first.finding or UNKNOWN)


def _start(case: GangCase, rank: int, port: int, log: Path) -> subprocess.Popen[bytes]:
    env = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(case.size),
        "PORT": str(port),
        "FAULT": case.fault,
        "FAULT_RANK": str(case.rank),
        "FAULT_STEP": str(case.step),
        "COLLECTIVE": case.collective,
        "GANG_CODE": str(CODE),
        "JAX_PLATFORMS": "cpu",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, str(Path(__file__).with_name("rank.py"))]
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, env=env)


def _judge(
    ranks: list[subprocess.Popen[bytes]], logs: list[Path], ended: dict[int, tuple[float, bool]]
) -> GangEnd:
    failed = []
    for rank, process in enumerate(ranks):
        status = process.returncode
        code, number = max(0, status), max(0, -status)
        at_s, was_stopped = ended[rank]
        if status == 0:
            continue
        if was_stopped and number in (signal.SIGKILL, signal.SIGTERM):
            code, number = 1, 0  # as the agent: it may have failed before
        finding = examine(FailedRun(logs[rank], OutputStreams(), code, number), (), ()).finding
        failed.append(FailedProcess(rank, rank, at_s, finding, was_stopped=was_stopped))
    first = next(iter(in_order_of_cause(failed)), None)
    if first is None or first.finding is None:
        return GangEnd(-1, UNKNOWN)  # none of them had failed when the limit was over
    return GangEnd(first.rank, first.finding)

"""What yarnam itself costs: memory of AM and agents with 16 tasks, CPU of ``--help``, and how soon
a dead agent is noticed and an impossible job refused. Each figure is printed as a ratio to its
limit; resident memory is the kernel's VmHWM (peak), CPU is the kernel's account of the process.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import BIN
from yarnam.adapters.yarn.addresses import rm_web_urls
from yarnam.core.model.resources import JVM_MIB

pytestmark = [pytest.mark.benchmark, pytest.mark.yarn, pytest.mark.timeout(900)]

QUEUE = "root.research"
TASKS = 16
AM_LIMIT_MB = 100.0
AGENT_LIMIT_MB = 60.0
HELP_LIMIT_S = 0.25
NOTICED_LIMIT_S = 10.0
REFUSED_LIMIT_S = 5.0
HEARTBEATS_LIMIT = 0.5
WAIT_S = 180.0

SPEC = """\
version: 1
name: {name}
queue: {queue}
command: [sleep, "600"]
roles:
  worker: {{tasks: {tasks}, gpus: {gpus}, memory: 512MiB, vcores: 1}}
"""


def show(what: str, figure: float, limit: float, unit: str) -> None:
    print(f"  {what:58s} {figure:7.2f} {unit:3s} of {limit:g}: ratio {figure / limit:.2f}")


def yarnam(env: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "yarnam"), *words]
    return subprocess.run(
        command, env=dict(env), check=False, capture_output=True, text=True, timeout=WAIT_S
    )


def processes(module: str, application: str) -> list[int]:
    """Process ids of the containers' Python processes that run ``module`` for this job."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                environ = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            number = application.removeprefix("application_")
            if module in command and "CONTAINER_ID=container_" in environ and number in environ:
                found.append(int(entry.name))
    return found


def peak_mb(pid: int) -> float:
    return _memory_mb(pid, "VmHWM")


def resident_mb(pid: int) -> float:
    """Now."""
    return _memory_mb(pid, "VmRSS")


def _memory_mb(pid: int, kind: str) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    match = re.search(rf"{kind}:\s+(\d+) kB", text)
    assert match, text
    return int(match[1]) / 1024


def heartbeats_per_s(env: Mapping[str, str]) -> float:
    """Of all AMs on the cluster, by the ResourceManager's own count."""

    def count() -> int:
        query = "qry=Hadoop:service=ResourceManager,name=RpcDetailedActivityForPort*"
        url = f"{rm_web_urls(env['HADOOP_CONF_DIR'])[0]}/jmx?{query}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            return sum(bean.get("AllocateNumOps", 0) for bean in json.load(reply)["beans"])

    first, began = count(), time.monotonic()
    time.sleep(15)
    return (count() - first) / (time.monotonic() - began)


def until(condition: Callable[[], bool], what: str) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < WAIT_S, f"not within {WAIT_S} s: {what}"
        time.sleep(0.05)
    return time.monotonic() - began


def test_memory_and_dead_agents(
    cluster_env: Mapping[str, str], tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.format(name=unique_name("footprint"), queue=QUEUE, tasks=TASKS, gpus=1))
    done = yarnam(cluster_env, "submit", str(spec), "--detach")
    assert done.returncode == 0, done.stderr
    job = re.search(r"application_\d+_\d+", done.stdout)
    assert job, done.stdout
    try:
        until(lambda: "RUNNING: " in yarnam(cluster_env, "status", job[0]).stdout, "running")
        time.sleep(8)  # some heartbeats at full size; the start's are over
        print(f"\nfootprint with {TASKS} tasks")
        (am,) = processes("yarnam.cli.containers.am_process", job[0])
        show("AM's Python process, peak resident", peak_mb(am), AM_LIMIT_MB, "MB")
        skein = processes("com.anaconda.skein.ApplicationMaster", job[0])
        (java,) = [pid for pid in skein if Path(f"/proc/{pid}/exe").resolve().name == "java"]
        show("Skein's Java process, peak resident", peak_mb(java), JVM_MIB, "MB")
        show("heartbeats of a running job", heartbeats_per_s(cluster_env), HEARTBEATS_LIMIT, "/s")
        agents = processes("yarnam.cli.containers.agent_process", job[0])
        # Two per task: the agent, and its small keeper, forked before anything heavy is loaded.
        assert len(agents) == 2 * TASKS, agents
        worst = max(peak_mb(pid) for pid in agents)
        show("largest agent process, peak resident", worst, AGENT_LIMIT_MB, "MB")

        victim = max(agents, key=peak_mb)
        os.kill(victim, signal.SIGKILL)
        noticed = until(
            lambda: "RUNNING: " not in yarnam(cluster_env, "status", job[0]).stdout, "noticed"
        )
        show("a killed agent is noticed", noticed, NOTICED_LIMIT_S, "s")
    finally:
        yarnam(cluster_env, "kill", job[0])


@pytest.mark.parametrize(
    ("what", "queue", "gpus", "extra", "code"),
    [
        ("more GPUs than any node has", QUEUE, 64, "", 91),
        ("unknown queue", "root.nowhere", 1, "", 65),
        ("missing input path", QUEUE, 1, "data: {inputs: [{name: x, path: /no/such}]}\n", 65),
    ],
)
def test_refusals(
    what: str, queue: str, gpus: int, extra: str, code: int,
    cluster_env: Mapping[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.format(name="refused", queue=queue, tasks=1, gpus=gpus) + extra)
    began = time.monotonic()
    done = yarnam(cluster_env, "submit", str(spec), "--detach")
    took = time.monotonic() - began
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    print()
    show(f"refused: {what}", took, REFUSED_LIMIT_S, "s")


def test_help(cluster_env: Mapping[str, str]) -> None:
    yarnam(cluster_env, "--help")  # compiled files and page cache
    costs = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert yarnam(cluster_env, "--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print()
    show("yarnam --help, median CPU", sorted(costs)[2], HELP_LIMIT_S, "s")

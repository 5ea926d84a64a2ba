"""Fixtures for all tests: above all the real Hadoop cluster that they share, one in each worker.

The cluster is brought up when the first test asks for it, and taken down at the end, when nothing
of any job may be left on it. Workers (``pytest -n 2``) have nothing in common: each has its own
daemons on its own loopback network, and its own state. ``YARNAM_TEST_CLUSTER`` names a cluster that
is up already and stays up: ``YARNAM_TEST_CLUSTER=dev`` (see ``yarnam cluster up --name dev``), or
``env`` for the one that ``eval $(yarnam cluster env)`` put into the environment.
"""

from __future__ import annotations

import faulthandler
import os
import shlex
import signal
import subprocess
import sys
import time
import unittest
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from yarnam.adapters.http_identity import HttpIdentity
    from yarnam.cluster import EmbeddedCluster

BIN = Path(sys.executable).parent

NEEDS_CLUSTER = {"yarn", "hdfs", "zookeeper"}
CLUSTER_FIXTURES = {"cluster", "cluster_env", "no_leftovers"}

SETTLE_S = 30.0
"""Containers that were given back are gone from the RM's records after the NodeManager's next
heartbeats (1 s each) and its own grace for processes (250 ms, then SIGKILL); with a margin for two
busy cores."""


SHAPE_VARIABLE = "YARNAM_TEST_SHAPE"
"""More options of ``yarnam cluster up`` for the tests' cluster: ``--scheduler capacity``, say."""

EXAMPLES = 0.3
"""How many of its examples a property tries, unless ``YARNAM_EXAMPLES`` says otherwise: a third of
them in every run, several times as many in the second tier (`make long`)."""

# A red CI is the change's fault, never the dice's: there each property sees the same examples every
# time. Everywhere else they are new ones.
# No example has a deadline anywhere: machines are shared.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
hypothesis.settings.register_profile("anywhere", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "anywhere")


# Some tests fork to become another user. gRPC, which others have loaded by then, stays out of that.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

STUCK_S = 180.0
"""After its limit (pytest-timeout's, raised in the main thread) a test may still take down what it
started. Who has not come back by then never will: a thread holds Python's global lock, or a join
has no end. The process then ends with the stacks of all its threads on stderr."""

BEGIN_WITHIN_S = float(os.environ.get("YARNAM_BEGIN_WITHIN_S", "inf"))
"""Tests whose turn comes later than this (seconds after the run began) do not run, and are reported
so: `.ci/run` runs as much of `make long` as fits, in an order of each commit's own."""

DURATIONS = "yarnam/durations"
"""In pytest's cache: seconds of each file of tests when it last ran."""

_took_s: dict[str, float] = {}
_real_stderr = pytest.StashKey[int]()
_began_s = time.monotonic()


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C reaches the commands that tests start, even where a shell started the tests in the
    background: it has SIGINT ignored then, which children inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_real_stderr] = os.dup(2)  # nothing is captured yet


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Ends the process where a test can be ended by nothing else."""
    mark = item.get_closest_marker("timeout")
    limit_s = float(mark.args[0]) if mark is not None else float(item.config.getini("timeout"))
    stderr = item.config.stash[_real_stderr]
    faulthandler.dump_traceback_later(limit_s + STUCK_S, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures: a cluster takes half a minute."""
    if time.monotonic() - _began_s > BEGIN_WITHIN_S:
        pytest.skip(f"NOT RUN: no time left (after {BEGIN_WITHIN_S:.0f} s no test begins)")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How long each file takes, for ``make near``. Workers pass their reports on."""
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        file = report.nodeid.partition("::")[0]
        _took_s[file] = _took_s.get(file, 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    cache = session.config.cache
    if cache is not None and not os.environ.get("PYTEST_XDIST_WORKER"):
        known = cache.get(DURATIONS, {})
        cache.set(DURATIONS, {**known, **{file: round(s, 2) for file, s in _took_s.items()}})


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Takes down what a worker left up that broke off (see ``STUCK_S``) or was interrupted."""
    is_controller = hasattr(config.option, "numprocesses") and config.option.numprocesses
    factory = getattr(config, "_tmp_path_factory", None)
    if not is_controller or factory is None:
        return
    left = factory.getbasetemp().glob("popen-*/*/yarnam/clusters/[!.]*")
    for root in {path.resolve() for path in left}:  # pytest links to the newest of its folders
        environ = {**os.environ, "XDG_STATE_HOME": str(root.parents[2])}
        down = [str(BIN / "yarnam"), "cluster", "down", "--name", root.name]
        subprocess.run(down, env=environ, check=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make unit` leaves out what is marked: a test of the cluster without a mark would boot it."""
    factor = float(os.environ.get("YARNAM_EXAMPLES", EXAMPLES))
    scaled: set[object] = set()
    for item in items:
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            _scale_examples(item, factor, scaled)
        uses_cluster = CLUSTER_FIXTURES & set(getattr(item, "fixturenames", ()))
        marks = {mark.name for mark in item.iter_markers()}
        if uses_cluster and not NEEDS_CLUSTER & marks:
            wanted = ", ".join(sorted(NEEDS_CLUSTER))
            raise pytest.UsageError(f"{item.nodeid} uses the cluster: mark it with one of {wanted}")


def _scale_examples(item: pytest.Item, factor: float, scaled: set[object]) -> None:
    """``factor`` times as many examples as the test asks for, and time for them. ``scaled``: the
    tests that have had it, as those with parameters are one function."""
    test = getattr(item, "obj")  # noqa: B009  # pytest.Item does not declare it
    # A state machine has its settings on the class, a function on itself.
    holder, name = getattr(test, "__func__", test), "_hypothesis_internal_use_settings"
    if issubclass(case := getattr(item, "cls", None) or object, unittest.TestCase):
        holder, name = case, "settings"
    if factor > 1:
        item.add_marker(pytest.mark.timeout(300 * factor))
    if holder in scaled:
        return
    scaled.add(holder)
    own = getattr(holder, name, None) or hypothesis.settings.default
    chosen = hypothesis.settings(own, max_examples=max(1, round(own.max_examples * factor)))
    if factor > 1:
        chosen = hypothesis.settings(chosen, deadline=None)
    setattr(holder, name, chosen)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Four nodes on two racks with eight simulated GPUs each."""
    from yarnam.cluster import EmbeddedCluster
    from yarnam.cluster.cluster_paths import clusters_dir

    chosen = os.environ.get("YARNAM_TEST_CLUSTER", "")
    if chosen:
        if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
            raise pytest.UsageError("YARNAM_TEST_CLUSTER is one cluster, for one worker: -n 0")
        name = os.environ["YARNAM_CLUSTER"] if chosen == "env" else chosen
        running = EmbeddedCluster(name=name)
        running.ready_plan()  # or an error that says how to bring it up
        yield running
        return
    environ = {
        **os.environ,
        # The nodes' python3 has to be the one that runs the tests: jobs import the same packages.
        "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)]),
        # Its state goes with the other temporary files of the tests; downloads stay shared.
        "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state")),
    }
    name = f"test-{os.getpid()}"
    shape = ["--nodes", "4", "--racks", "2", "--gpus", "simulated", "--gpus-per-node", "8"]
    shape += shlex.split(os.environ.get(SHAPE_VARIABLE, ""))
    # By the command, not in this process: it would be the daemons' parent, and a daemon that a
    # test kills would stay as its zombie.
    yarnam = [str(BIN / "yarnam"), "cluster"]
    try:
        subprocess.run([*yarnam, "up", "--name", name, *shape], env=environ, check=True)
        started = EmbeddedCluster(name=name, state_root=clusters_dir(environ))
        for variable, value in started.environ().items():
            if variable.startswith("KRB5"):  # of a secure one: this process asks too
                os.environ[variable] = value
        yield started
        left = wait_until_idle(started)
    finally:
        subprocess.run([*yarnam, "down", "--name", name], env=environ, check=True)
    assert not left, f"left on the cluster after all tests: {left}"


def identity(cluster: EmbeddedCluster) -> HttpIdentity:
    """Who asks the cluster's web servers."""
    from yarnam.adapters.http_identity import HttpIdentity

    return HttpIdentity(is_kerberos=cluster.plan.shape.secure, conf_dir=str(cluster.conf_dir))


@pytest.fixture(scope="session")
def cluster_env(cluster: EmbeddedCluster) -> dict[str, str]:
    """The environment in which ``yarnam``, ``hdfs``, ``yarn`` and Skein find the cluster."""
    return cluster.environ()


@pytest.fixture
def no_leftovers(cluster: EmbeddedCluster) -> Iterator[None]:
    """Fails a test after which a container, a GPU or a job is still held."""
    yield
    if not os.environ.get("YARNAM_TEST_CLUSTER"):  # others may be at work on a shared one
        left = wait_until_idle(cluster)
        assert not left, f"left on the cluster: {left}"


@pytest.fixture
def unique_name() -> Callable[[str], str]:
    """Names of jobs, directories and the like that no other test uses."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:8]}"


def wait_until_idle(cluster: EmbeddedCluster, limit_s: float = SETTLE_S) -> list[str]:
    """What is still held after at most so long; empty when nothing is."""
    deadline = time.monotonic() + limit_s
    while (left := leftovers(cluster)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def leftovers(cluster: EmbeddedCluster) -> list[str]:
    """Living jobs and held resources by the ResourceManager's records, and processes on this
    machine that a container started."""
    daemons = {cluster.daemon(name).pid for name in cluster.plan.daemons}
    strays = [process.pid for process in cluster.processes() if process.pid not in daemons]
    left = [f"process {pid}: {_command_line(pid)}" for pid in strays]
    answer = identity(cluster).get(f"{cluster.rm_url}/ws/v1/cluster/apps", timeout_s=10)
    apps = (answer.json().get("apps") or {}).get("app") or []
    ended = {"FINISHED", "FAILED", "KILLED"}
    left += [f"{app['id']} is {app['state']}" for app in apps if app["state"] not in ended]
    left += [
        f"{node.name} holds {node.containers} containers, {node.gpus_used} GPUs"
        for node in cluster.status().nodes
        if node.containers or node.gpus_used
    ]
    return left


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    except OSError:
        return "(gone)"

"""Starting daemons: a failure quotes the end of the daemon's log."""

from __future__ import annotations

import pytest

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.daemons.daemon_processes import end
from yarnam.cluster.daemons.daemon_startup import (
    DaemonFailed,
    DaemonStartup,
    daemon_failure,
    error_excerpt,
    full_name,
)
from yarnam.cluster.reporters import SilentReporter
from yarnam.errors import Cancelled


def with_java(plan: ClusterPlan, script: str) -> ClusterPlan:
    """A plan whose every JVM is this shell script."""
    java = plan.java_home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return plan


def test_a_daemon_that_dies_is_told_with_its_last_words(plan: ClusterPlan) -> None:
    boot = DaemonStartup(with_java(plan, "echo disk is on fire; exit 3"), SilentReporter())
    boot.start("rm")
    with pytest.raises(DaemonFailed) as failure:
        boot.wait(["rm"])
    assert "ResourceManager (rm) exited with code 3" in failure.value.message
    assert "disk is on fire" in failure.value.message
    assert str(plan.paths.log("rm")) in failure.value.hint
    assert not failure.value.port_taken


def test_a_signal_is_named(plan: ClusterPlan) -> None:
    boot = DaemonStartup(with_java(plan, "kill -9 $$"), SilentReporter())
    boot.start("nn")
    with pytest.raises(DaemonFailed, match="was killed by signal 9"):
        boot.wait(["nn"])


def test_a_taken_port_is_recognised(plan: ClusterPlan) -> None:
    words = "java.net.BindException: Problem binding to [127.9.0.1:8032] Address already in use"
    boot = DaemonStartup(with_java(plan, f"echo '{words}'; exit 1"), SilentReporter())
    boot.start("rm")
    with pytest.raises(DaemonFailed) as failure:
        boot.wait(["rm"])
    assert failure.value.port_taken


def test_waiting_can_be_given_up(plan: ClusterPlan) -> None:
    polls = iter([None, None, Cancelled("enough")])

    def check() -> None:
        found = next(polls)
        if found is not None:
            raise found

    boot = DaemonStartup(with_java(plan, "exec sleep 60"), SilentReporter(), check)
    boot.start("rm")
    try:
        with pytest.raises(Cancelled, match="enough"):
            boot.wait(["rm"])
    finally:
        kill_recorded(plan, "rm")


def test_a_daemon_that_never_gets_ready_is_a_named_failure(
    plan: ClusterPlan,
) -> None:
    boot = DaemonStartup(
        with_java(plan, "echo still loading; exec sleep 60"), SilentReporter(), ready_limit_s=0.5
    )
    boot.start("rm")
    try:
        with pytest.raises(DaemonFailed) as failure:
            boot.wait(["rm"])
    finally:
        kill_recorded(plan, "rm")
    assert "was not ready after" in failure.value.message
    assert "Connection refused" in failure.value.message
    assert "still loading" in failure.value.message


def kill_recorded(plan: ClusterPlan, daemon: str) -> None:
    from yarnam.cluster.daemons.daemon_processes import read_record

    identity = read_record(plan.paths.process_record(daemon))
    assert identity is not None
    assert end([identity], 0, 5) == []


def test_the_log_of_an_earlier_run_is_not_quoted(plan: ClusterPlan) -> None:
    plan.paths.logs.mkdir(parents=True)
    plan.paths.log("rm").write_text("old news\n")
    boot = DaemonStartup(with_java(plan, "exit 1"), SilentReporter())
    boot.start("rm")
    with pytest.raises(DaemonFailed) as failure:
        boot.wait(["rm"])
    assert "old news" not in failure.value.message
    assert "(nothing)" in failure.value.message


def test_stack_frames_and_banners_are_dropped(plan: ClusterPlan) -> None:
    plan.paths.logs.mkdir(parents=True)
    frames = "\tat org.x.Y.z(Y.java:1)\n" * 30
    banner = "SHUTDOWN_MSG: \n/" + "*" * 60 + "\nSHUTDOWN_MSG: bye\n" + "*" * 60 + "/\n"
    plan.paths.log("rm").write_text(f"Caused by: bad queue\n{frames}\t... 9 more\n{banner}")
    told = daemon_failure(plan, "rm", "exited").message
    assert "Caused by: bad queue" in told
    assert "org.x.Y.z" not in told
    assert "SHUTDOWN" not in told


def test_the_reason_is_found_before_a_long_farewell() -> None:
    reason = "Caused by: invalid resource definition"
    told = error_excerpt(["INFO all is well", reason, *(f"INFO closing {n}" for n in range(100))])
    assert told[0] == reason
    assert told[-1] == "INFO closing 99"
    assert len(told) == 11


def test_names_are_spelt_out() -> None:
    assert full_name("nm3") == "NodeManager 3"
    assert full_name("zk") == "ZooKeeper"

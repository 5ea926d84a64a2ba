"""Skein's driver: how its start fails, that nothing of it stays, and what YARN's words become."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from yarnam.adapters.skein.driver import (
    _EXCEPTION_NAME,
    SkeinLauncher,
    driver_environment,
    exception_text,
)
from yarnam.adapters.skein.driver_process import DriverProcess
from yarnam.core.model.job_spec import AmSpec
from yarnam.errors import BadConfig, BadSpec, NoPermission, Unavailable

YARN = "#!/bin/sh\necho /conf:/a.jar:/b.jar\n"

AM = AmSpec(attempts_interval_s=60.0)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(script)
    path.chmod(0o755)


def launcher(folder: Path) -> SkeinLauncher:
    return SkeinLauncher({"PATH": str(folder), "HOME": str(folder)})


def test_no_yarn_command(tools: Path) -> None:
    with pytest.raises(BadConfig, match="'yarn' is not on the PATH"):
        launcher(tools).wait()


def test_no_java(tools: Path) -> None:
    tool(tools, "yarn", YARN)
    with pytest.raises(BadConfig, match="there is no Java"):
        launcher(tools).wait()


def test_a_yarn_command_that_fails_is_quoted(tools: Path) -> None:
    tool(tools, "yarn", "#!/bin/sh\necho JAVA_HOME is not set >&2\nexit 1\n")
    with pytest.raises(BadConfig, match="JAVA_HOME is not set"):
        launcher(tools).wait()


def test_a_driver_that_dies_leaves_its_last_words(tools: Path) -> None:
    tool(tools, "yarn", YARN)
    tool(tools, "java", "#!/bin/sh\necho no class def found\nexit 4\n")
    with pytest.raises(Unavailable, match="ended with code 4") as caught:
        launcher(tools).wait()
    assert "no class def found" in caught.value.hint


def test_a_start_under_way_is_stopped_at_once(tools: Path) -> None:
    tool(tools, "yarn", YARN)
    tool(tools, "java", f"#!/bin/sh\necho $$ > {tools}/pid\nexec /bin/sleep 60\n")
    starting = launcher(tools)
    starting.start()
    pid_file = tools / "pid"
    deadline = time.monotonic() + 20
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    began = time.monotonic()
    starting.close()
    assert time.monotonic() - began < 2.0
    # The child may write its number before its parent knows of it; then the parent stops it.
    while Path(f"/proc/{int(pid_file.read_text())}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with pytest.raises(Unavailable):
        starting.wait()


def test_closing_before_the_process_exists_stops_it_when_it_does(tools: Path) -> None:
    tool(tools, "yarn", f"#!/bin/sh\n/bin/sleep 0.5\necho /conf:/a.jar\ntouch {tools}/asked\n")
    tool(tools, "java", f"#!/bin/sh\necho $$ > {tools}/pid\nexec /bin/sleep 60\n")
    starting = launcher(tools)
    starting.start()
    starting.close()
    assert starting._thread is not None
    starting._thread.join(20)
    assert not starting._thread.is_alive()
    pid_file = tools / "pid"
    if pid_file.exists() and pid_file.read_text().strip():
        assert not Path(f"/proc/{int(pid_file.read_text())}").exists()


DENIED = """Failed to submit application, exception:
org.apache.hadoop.security.AccessControlException: User root does not have permission to submit \
application_1_2 to queue root.locked denied by ACL for queue root.locked
\tat org.apache.hadoop.yarn.ipc.RPCUtil.getRemoteException(RPCUtil.java:40)
Caused by: org.apache.hadoop.security.AccessControlException: User root does not
\t... 14 more
"""


def test_a_java_exception_in_short() -> None:
    assert exception_text(DENIED) == (
        "User root does not have permission to submit application_1_2 to queue root.locked "
        "denied by ACL for queue root.locked"
    )
    assert exception_text("plain words") == "plain words"
    nested = "java.io.IOException: java.lang.Error: a.b.C: x.Exception: why"
    assert exception_text(nested) == "a.b.C: why"


def test_no_words_of_yarn_take_long() -> None:
    """40 kB of names took 15 s, and four times that for twice as much."""
    for text in ("a." * 1_000_000, "a" * 1_000_000, "a.B" * 1_000_000, "a.Error" * 1_000_000):
        assert len(exception_text(text)) <= 8000
    # and each part for itself, since a text may be cut elsewhere some day
    for text in ("a." * 100_000, "a" * 100_000, "a.B" * 100_000, "A" * 100_000):
        assert not _EXCEPTION_NAME.search(text)


class Refusal(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        (grpc.StatusCode.INTERNAL, DENIED, NoPermission),
        (grpc.StatusCode.INTERNAL, "Application rejected: unknown queue: root.x", BadSpec),
        (grpc.StatusCode.UNAVAILABLE, "Connection refused", Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", Unavailable),
        (grpc.StatusCode.INTERNAL, "", Unavailable),
    ],
)
def test_what_yarn_says_at_submit(
    tools: Path, code: grpc.StatusCode, details: str, kind: type[Exception]
) -> None:
    import skein

    def submit(*_: Any, **__: Any) -> None:
        raise Refusal(code, details)

    ready = launcher(tools)
    ready._wait = lambda: SimpleNamespace(submit=submit)  # type: ignore[method-assign]
    spec = skein.ApplicationSpec(master=skein.Master(script="true"))
    with pytest.raises(kind):
        ready.submit(spec, AM)


def test_the_drivers_environment_names_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/elsewhere")
    environ = driver_environment("/conf", "you")
    assert environ["HADOOP_CONF_DIR"] == "/conf"
    assert environ["HADOOP_USER_NAME"] == "you"
    assert environ["PATH"] == os.environ["PATH"]
    assert "HADOOP_USER_NAME" not in driver_environment("/conf", "", {})


CALLERS = """
import os, socket, struct, sys, time
def call(said):
    made = socket.create_connection(("127.0.0.1", int(os.environ["SKEIN_CALLBACK_PORT"])))
    made.sendall(said)
    return made
silent = [call(b"") for _ in range(3)]
half = call(struct.pack("!i", 1)[:2])
call(b"").close()
driver = call(struct.pack("!i", 4711)[:3])
time.sleep(0.1)
driver.sendall(struct.pack("!i", 4711)[3:])
sys.stdin.read()
"""


def test_silent_callers_do_not_keep_the_driver_from_being_heard(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(CALLERS)
    driver = DriverProcess([sys.executable, str(script)], "jar", {}, "", b"", b"")
    try:
        assert driver.await_port(20.0) == 4711
    finally:
        driver.stop()

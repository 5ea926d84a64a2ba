"""Skein's driver: the Java process through which an application is submitted.

``skein.Client`` would start it too, but from the environment of this process, without a limit and
without a way to stop in between.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yarnam._light_imports import on_first_use
from yarnam.adapters.skein.driver_process import DriverProcess
from yarnam.core.model.ids import ApplicationId
from yarnam.core.model.job_spec import AmSpec
from yarnam.errors import BadConfig, BadSpec, NoPermission, Unavailable, YarnamError
from yarnam.wire.tls import rpc_failure

with on_first_use():  # not before the JVM is on its way: it takes as long again
    import grpc
    import skein

    from yarnam.adapters.skein import am_client, proto
    from yarnam.wire import certificates

START_LIMIT_S = 60.0
"""A JVM on a loaded machine takes ten; ``yarn classpath`` of a large site some more."""

SUBMIT_LIMIT_S = 120.0
"""Skein uploads its jar and writes one file per service, serially, to HDFS."""

JAVA_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xmx256m",
    # Hadoop's own classes from this machine's own disk: checking their bytecode again takes a
    # seventh of the start (1.40 instead of 1.59 s of CPU, Java 17). Java 13 and later want the
    # first option before the second, older ones take it as well.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""The driver lives for seconds: start fast, stay small."""

SUBMIT_VARIABLE = "YARNAM_SUBMIT"
"""``driver``: Skein's driver submits, whatever the site. ``rest``, the default: it does so where it
has to."""

CERTIFICATE_DAYS = 365
"""As Skein's own: no job trains for longer."""

_SKEIN_TLS_NAME = "skein-internal"
"""What Skein's Python half expects in the driver's certificate."""


class SkeinLauncher:
    """Starts the driver on ``start`` (or at the first need) and keeps it until ``close``."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """``environ`` must name the cluster: HADOOP_CONF_DIR, PATH with ``yarn``, JAVA_HOME."""
        self._environ = dict(environ)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._process: DriverProcess | None = None
        self._channel: grpc.Channel | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        with self._lock:
            if self._thread is None:
                # A daemon: a refused submit must not wait for the JVM it no longer needs.
                self._thread = threading.Thread(target=self._run, name="skein-driver", daemon=True)
                self._thread.start()

    def wait(self) -> str:
        began = time.monotonic()
        self._wait()
        return f"Skein's driver starts ({time.monotonic() - began:.1f} s)"

    def new_security(self) -> Any:
        return new_security()

    def allot(self) -> bool:
        """The driver gets the id itself, and outlives this process for a while."""
        return False

    def submit(
        self, application_spec: Any, am: AmSpec, *, keep_unknown: bool = False
    ) -> ApplicationId:
        # Skein's driver cannot tell YARN an interval: here all attempts count for ever. And it
        # removes an application's files after every error, as far as it comes.
        driver = self._wait()
        request = proto.messages.ApplicationSpec.FromString(
            application_spec.to_protobuf().SerializeToString()
        )
        try:
            answer = driver.submit(request, timeout=SUBMIT_LIMIT_S)
        except grpc.RpcError as error:
            raise _submit_error(error) from error
        return ApplicationId(answer.id)

    def accepted_queue(self) -> str:
        return ""

    def tokens_end_s(self) -> float | None:
        """Its driver collects them itself."""
        return None

    def close(self) -> None:
        self._closed.set()
        self._let_go()

    def _let_go(self) -> None:
        with self._lock:
            channel, self._channel = self._channel, None
            process, self._process = self._process, None
        if channel is not None:
            channel.close()
        if process is not None:
            process.stop()

    def _wait(self) -> Any:
        """The driver's stub."""
        self.start()
        assert self._thread is not None
        self._thread.join(START_LIMIT_S + 5.0)
        if self._failure is not None:
            raise self._failure
        if self._channel is None:
            raise Unavailable(f"Skein's driver did not start within {START_LIMIT_S:.0f} s")
        return proto.DriverStub(self._channel)

    def _run(self) -> None:
        try:
            self._start_driver()
        except YarnamError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - carried to the caller's thread
            self._failure = Unavailable(f"Skein's driver did not start: {error}")
            self._failure.__cause__ = error
        if self._closed.is_set() or self._failure is not None:
            self._let_go()

    def _start_driver(self) -> None:
        jar = skein_jar()
        class_path = _yarn_class_path(self._environ)
        certificate, key = skein_credentials()
        process = DriverProcess(
            _java(self._environ), str(jar), self._environ, class_path, certificate, key
        )
        with self._lock:
            self._process = process
        port = process.await_port(START_LIMIT_S, self._closed.is_set)
        # Skein's own client has no deadlines.
        if not self._closed.is_set():
            self._channel = am_client.skein_channel(f"127.0.0.1:{port}", certificate, key)


def skein_jar() -> Path:
    """The jar of the installed package, found without importing it. Raises BadConfig."""
    found = importlib.util.find_spec("skein")
    if found is None or found.origin is None:
        raise BadConfig("the package skein is not installed", hint="Reinstall yarnam with pip.")
    return Path(found.origin).parent / "java" / "skein.jar"


def skein_credentials() -> tuple[bytes, bytes]:
    """Certificate and key in PEM for the connections of one application, as Skein's own
    ``Security.new_credentials`` makes them, but quicker: a P-256 key instead of 2048 bits of RSA.
    """
    start = dt.datetime.now(dt.timezone.utc) - dt.timedelta(days=1)  # for clocks that are behind
    return certificates.self_signed(_SKEIN_TLS_NAME, start, CERTIFICATE_DAYS + 1)


def new_security() -> Any:
    """``skein.Security`` for one application."""
    certificate, key = skein_credentials()
    return skein.Security(cert_bytes=certificate, key_bytes=key)


def _java(environ: Mapping[str, str]) -> Sequence[str]:
    java = f"{environ['JAVA_HOME']}/bin/java" if environ.get("JAVA_HOME") else "java"
    found = shutil.which(java, path=environ.get("PATH"))
    if found is None:
        raise BadConfig(
            f"there is no Java at '{java}'",
            hint="Skein's driver needs Java 8 or newer: set JAVA_HOME or put java on the PATH.",
        )
    command = [found, "-Dskein.log.level=WARN", *JAVA_OPTIONS]
    if home := environ.get("HADOOP_HOME"):
        native = Path(home) / "lib" / "native"
        if native.is_dir():
            command.append(f"-Djava.library.path={native}")
    command += environ.get("SKEIN_DRIVER_JAVA_OPTIONS", "").split()
    return command


def _yarn_class_path(environ: Mapping[str, str]) -> str:
    yarn = shutil.which("yarn", path=environ.get("PATH"))
    if yarn is None:
        raise BadConfig(
            "the command 'yarn' is not on the PATH",
            hint="Put Hadoop's bin directory on the PATH (Skein asks it for the class path).",
        )
    try:
        done = subprocess.run(
            [yarn, "classpath", "--glob"],
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=START_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = (getattr(error, "stderr", "") or str(error)).strip()
        raise BadConfig(
            f"'{yarn} classpath --glob' failed: {detail}",
            hint="Check JAVA_HOME, HADOOP_HOME and HADOOP_CONF_DIR.",
        ) from error
    return done.stdout.strip()


def _submit_error(error: grpc.RpcError) -> YarnamError:
    """What YARN or Skein said, as one of ours. The Java exception's text is all there is."""
    text = (error.details() or "").strip() or rpc_failure(error)
    if (refused := refusal(text)) is not None:
        return refused
    said = exception_text(text)
    if error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
        return Unavailable(f"Skein's driver did not answer: {rpc_failure(error)}")
    return Unavailable(
        f"YARN did not take the application: {said}",
        hint="'yarnam doctor' checks the parts one by one.",
    )


def refusal(java_text: str) -> YarnamError | None:
    """What YARN's words mean, where they mean that this user or this queue will not do."""
    said, lowered = exception_text(java_text), java_text.lower()
    if any(mark in lowered for mark in _REFUSALS):
        return NoPermission(
            f"YARN refused the application: {said}",
            hint="Ask for SUBMIT access to the queue, or name another one.",
        )
    if any(mark in lowered for mark in _BAD_QUEUES):
        return BadSpec(f"YARN refused the queue: {said}", hint="'yarnam doctor' lists the queues.")
    return None


_REFUSALS = ("accesscontrolexception", "permission denied", "cannot submit", "denied by acl")
_BAD_QUEUES = ("unknown queue", "not a leaf queue", "unknown to scheduler")
# Begins where a dotted name does, and its parts are bounded: so no text takes long.
_EXCEPTION_NAME = re.compile(
    r"(?<![\w.])(?:[a-z]\w{0,99}\.){1,20}[A-Z]\w{0,99}(?:(?<=Exception)|(?<=Error)): "
)
_MAX_SAID = 8000
"""Characters of YARN's text that are looked at: it may quote what somebody else wrote."""


def exception_text(java_text: str) -> str:
    """A Java exception's text without its stack and class names: the part that tells."""
    java_text = java_text[:_MAX_SAID]
    lines = [line.strip() for line in java_text.splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", "...", "Caused by:"))]
    if len(told) > 1 and told[0].endswith("exception:"):
        told = told[1:]  # "Failed to submit application, exception:"
    return _EXCEPTION_NAME.sub("", " ".join(told)) or java_text.strip()


def driver_environment(
    conf_dir: str | Path, user: str = "", environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """An environment (default: this process's) pointed at one cluster. ``user`` is who to be
    under simple authentication, where that is not who we are anyway."""
    pointed = {**(os.environ if environ is None else environ), "HADOOP_CONF_DIR": str(conf_dir)}
    if user:
        pointed["HADOOP_USER_NAME"] = user
    return pointed


def is_driver_wanted(environ: Mapping[str, str]) -> bool:
    """Whether Skein's driver has to submit, by the user's choice. Raises BadConfig."""
    way = environ.get(SUBMIT_VARIABLE, "").lower()
    if way not in ("", "rest", "driver"):
        raise BadConfig(
            f"{SUBMIT_VARIABLE}={way} is not a way to submit", hint="Set rest or driver."
        )
    return way == "driver"

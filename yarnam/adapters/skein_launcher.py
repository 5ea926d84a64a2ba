"""Skein's driver: the Java process through which an application is submitted.

``skein.Client`` would start it too, but from the environment of this process, without a limit and
without a way to stop in between. The start here keeps to Skein's own protocol (core.py,
``_start_driver``): certificate, key and a callback port in the environment, the driver's port as
four bytes on that callback. The driver ends by itself when its standard input closes, so not even
a killed client leaves it behind.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yarnam.errors import BadConfig, BadSpec, NoPermission, Unavailable, YarnamError
from yarnam.model.ids import ApplicationId

if TYPE_CHECKING:
    # Loaded while the JVM starts.
    import grpc

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

WAY_VARIABLE = "YARNAM_SUBMIT"
"""``driver``: Skein's driver submits, whatever the site. ``rest``, the default: it does so where it
has to."""

CERTIFICATE_DAYS = 365
"""As Skein's own: no job trains for longer."""

_SKEIN_TLS_NAME = "skein-internal"
"""What Skein's Python half expects in the driver's certificate."""
_DRIVER_CLASS = "com.anaconda.skein.Driver"
_LOG_TAIL_LINES = 12


class SkeinLauncher:
    """Starts the driver on ``start`` (or at the first need) and keeps it until ``close``."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """``environ`` must name the cluster: HADOOP_CONF_DIR, PATH with ``yarn``, JAVA_HOME."""
        self._environ = dict(environ)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
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

    def submit(self, application_spec: Any) -> ApplicationId:
        import grpc

        from yarnam.adapters.skein_proto import messages

        driver = self._wait()
        request = messages.ApplicationSpec.FromString(
            application_spec.to_protobuf().SerializeToString()
        )
        try:
            answer = driver.submit(request, timeout=SUBMIT_LIMIT_S)
        except grpc.RpcError as error:
            raise _submit_error(error) from error
        return ApplicationId(answer.id)

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
            _stop(process)

    def _wait(self) -> Any:
        """The driver's stub."""
        self.start()
        assert self._thread is not None
        self._thread.join(START_LIMIT_S + 5.0)
        if self._failure is not None:
            raise self._failure
        if self._channel is None:
            raise Unavailable(f"Skein's driver did not start within {START_LIMIT_S:.0f} s")
        from yarnam.adapters.skein_proto import DriverStub

        return DriverStub(self._channel)

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
        # Nothing of Skein's is imported before the JVM is on its way: that takes as long again.
        found = importlib.util.find_spec("skein")
        if found is None or found.origin is None:
            raise BadConfig("the package skein is not installed", hint="Reinstall yarnam with pip.")
        jar = Path(found.origin).parent / "java" / "skein.jar"
        class_path = _yarn_class_path(self._environ)
        certificate, key = _skein_credentials()
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as callback,
            tempfile.TemporaryFile() as log,
        ):
            callback.bind(("127.0.0.1", 0))
            callback.listen(1)
            environ = {
                **self._environ,
                "SKEIN_CERTIFICATE": certificate.decode(),
                "SKEIN_KEY": key.decode(),
                "SKEIN_CALLBACK_PORT": str(callback.getsockname()[1]),
                "CLASSPATH": f"{jar}:{class_path}",
            }
            process = subprocess.Popen(
                _command(self._environ, jar),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environ,
                start_new_session=True,  # Ctrl-C on the terminal is for us to handle
            )
            with self._lock:
                self._process = process
            try:
                port = self._await_port(process, callback)
            except Unavailable as error:
                log.seek(0)
                raise Unavailable(error.message, hint=_log_tail(log.read())) from None
        # Skein's own client has no deadlines.
        from yarnam.adapters.skein_am import skein_channel

        if not self._closed.is_set():
            self._channel = skein_channel(f"127.0.0.1:{port}", certificate, key)

    def _await_port(self, process: subprocess.Popen[bytes], callback: socket.socket) -> int:
        deadline = time.monotonic() + START_LIMIT_S
        while not self._closed.is_set():
            if process.poll() is not None:
                raise Unavailable(f"Skein's driver ended with code {process.returncode}")
            if time.monotonic() > deadline:
                raise Unavailable(f"Skein's driver did not start within {START_LIMIT_S:.0f} s")
            if select.select([callback], [], [], 0.2)[0]:
                connection = callback.accept()[0]
                with connection, connection.makefile("rb") as stream:
                    data = stream.read(4)
                if len(data) == 4:
                    return int(struct.unpack("!i", data)[0])
        raise Unavailable("Skein's driver was stopped while it started")


def _skein_credentials() -> tuple[bytes, bytes]:
    """Certificate and key (PEM) for one driver or one application, as Skein's own
    ``Security.new_credentials`` makes them, but quickly, also for each who greets its server: a
    P-256 key instead of 2048 bits of RSA. Without importing Skein."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _SKEIN_TLS_NAME)])
    now = dt.datetime.now(dt.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=CERTIFICATE_DAYS))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def new_security() -> Any:
    """``skein.Security`` for one application."""
    import skein

    certificate, key = _skein_credentials()
    return skein.Security(cert_bytes=certificate, key_bytes=key)


def _command(environ: Mapping[str, str], jar: Path) -> Sequence[str]:
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
    return [*command, _DRIVER_CLASS, "--jar", str(jar)]


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
    from grpc import StatusCode

    text = (error.details() or "").strip() or error.code().name
    if (refused := refusal(text)) is not None:
        return refused
    said = in_short(text)
    if error.code() in {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED}:
        return Unavailable(f"Skein's driver did not answer: {said}")
    return Unavailable(
        f"YARN did not take the application: {said}",
        hint="'yarnam doctor' checks the parts one by one.",
    )


def refusal(java_text: str) -> YarnamError | None:
    """What YARN's words mean, where they mean that this user or this queue will not do."""
    said, lowered = in_short(java_text), java_text.lower()
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
_EXCEPTION_NAME = re.compile(r"\b(?:[a-z][\w]*\.)+[A-Z]\w*(?:Exception|Error): ")


def in_short(java_text: str) -> str:
    """A Java exception's text without its stack and class names: the part that tells."""
    lines = [line.strip() for line in java_text.splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", "...", "Caused by:"))]
    if len(told) > 1 and told[0].endswith("exception:"):
        told = told[1:]  # "Failed to submit application, exception:"
    return _EXCEPTION_NAME.sub("", " ".join(told)) or java_text.strip()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """At once: the driver keeps nothing that it would have to put away."""
    process.kill()
    process.wait()
    if process.stdin is not None:
        try:
            process.stdin.close()
        except OSError:
            pass


def _log_tail(log: bytes) -> str:
    lines = log.decode(errors="replace").splitlines()
    return "\n".join(lines[-_LOG_TAIL_LINES:])


def driver_environment(
    conf_dir: str | Path, user: str = "", environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """An environment (default: this process's) pointed at one cluster. ``user`` is who to be
    under simple authentication, where that is not who we are anyway."""
    pointed = {**(os.environ if environ is None else environ), "HADOOP_CONF_DIR": str(conf_dir)}
    if user:
        pointed["HADOOP_USER_NAME"] = user
    return pointed


def is_driver_wanted(settings: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether Skein's driver has to submit: by the site's authentication, or by the user's wish.
    Raises BadConfig."""
    way = environ.get(WAY_VARIABLE, "").lower()
    if way not in ("", "rest", "driver"):
        raise BadConfig(f"{WAY_VARIABLE}={way} is no way to submit", hint="Say rest or driver.")
    if way == "driver":
        return True
    return settings.get("hadoop.security.authentication", "simple") != "simple"

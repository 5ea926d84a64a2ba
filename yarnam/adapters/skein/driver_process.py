"""Skein's driver as a child process, by Skein's own protocol (core.py, ``_start_driver``).

Certificate, key and a callback port go into its environment; it answers with its own port, as four
bytes on that callback. It ends on its own when its standard input closes, so that not even a killed
client leaves it behind."""

from __future__ import annotations

import select
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from yarnam.errors import Unavailable

DRIVER_CLASS = "com.anaconda.skein.Driver"
_LOG_TAIL_LINES = 12


class DriverProcess:
    """Starts the driver; ``stop`` ends it.

    Args:
        java: the command up to the driver's class.
        jar: Skein's jar.
        environ: the driver's environment, without what is Skein's.
        class_path: Hadoop's classes.
        certificate, key: PEM, of both ends of the connection.

    Raises Unavailable when Java cannot be started.
    """

    def __init__(
        self,
        java: Sequence[str],
        jar: str,
        environ: Mapping[str, str],
        class_path: str,
        certificate: bytes,
        key: bytes,
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self._callback = socket.create_server(("127.0.0.1", 0), backlog=1)
        try:
            self._process = subprocess.Popen(
                [*java, DRIVER_CLASS, "--jar", jar],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                env={
                    **environ,
                    "SKEIN_CERTIFICATE": certificate.decode(),
                    "SKEIN_KEY": key.decode(),
                    "SKEIN_CALLBACK_PORT": str(self._callback.getsockname()[1]),
                    "CLASSPATH": f"{jar}:{class_path}",
                },
                start_new_session=True,  # Ctrl-C on the terminal is for us to handle
            )
        except OSError as error:
            self._callback.close()
            self._log.close()
            raise Unavailable(f"cannot start Skein's driver: {error}") from error

    def await_port(self, limit_s: float, is_stopped: Callable[[], bool] = lambda: False) -> int:
        """The port where it serves. Raises Unavailable, with the end of its log."""
        deadline = time.monotonic() + limit_s
        while not is_stopped():
            if self._process.poll() is not None:
                raise self._failed(f"ended with code {self._process.returncode}")
            if time.monotonic() > deadline:
                raise self._failed(f"did not start within {limit_s:.0f} s")
            if select.select([self._callback], [], [], 0.2)[0]:
                connection = self._callback.accept()[0]
                with connection, connection.makefile("rb") as stream:
                    data = stream.read(4)
                if len(data) == 4:
                    self._callback.close()
                    return int(struct.unpack("!i", data)[0])
        raise self._failed("was stopped while it started")

    def _failed(self, what: str) -> Unavailable:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        return Unavailable(f"Skein's driver {what}", hint="\n".join(lines[-_LOG_TAIL_LINES:]))

    def stop(self) -> None:
        """Kill the driver, which has nothing to save. Idempotent."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._callback.close()
        self._log.close()

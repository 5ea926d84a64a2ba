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
from contextlib import closing, suppress

from yarnam.errors import Unavailable

DRIVER_CLASS = "com.anaconda.skein.Driver"
_LOG_TAIL_LINES = 12


_MOST_CALLERS = 64
_PORT = struct.Struct("!i")


class _Callers:
    """Those that have called back. Any user of this machine can: whoever is silent, or goes, must
    not keep the driver from being heard."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._said: dict[socket.socket, bytes] = {}

    def port(self, wait_s: float) -> int | None:
        """The number that one of them has sent by then."""
        ready = select.select([self._listener, *self._said], [], [], wait_s)[0]
        for caller in ready:
            if caller is self._listener:
                self._take()
                continue
            try:
                more = caller.recv(_PORT.size - len(self._said[caller]))
            except OSError:
                more = b""
            said = self._said.pop(caller) + more
            if len(said) == _PORT.size:
                caller.close()
                return int(_PORT.unpack(said)[0])
            if more:
                self._said[caller] = said
            else:
                caller.close()
        return None

    def _take(self) -> None:
        with suppress(OSError):
            caller = self._listener.accept()[0]
            caller.setblocking(False)
            self._said[caller] = b""
            if len(self._said) > _MOST_CALLERS:
                oldest = next(iter(self._said))
                del self._said[oldest]
                oldest.close()

    def close(self) -> None:
        for caller in self._said:
            caller.close()
        self._listener.close()


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
        self._callback = socket.create_server(("127.0.0.1", 0), backlog=_MOST_CALLERS)
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
        with closing(_Callers(self._callback)) as callers:
            return self._await_port(callers, deadline, limit_s, is_stopped)

    def _await_port(
        self,
        callers: _Callers,
        deadline: float,
        limit_s: float,
        is_stopped: Callable[[], bool],
    ) -> int:
        while not is_stopped():
            if self._process.poll() is not None:
                raise self._failed(f"ended with code {self._process.returncode}")
            if time.monotonic() > deadline:
                raise self._failed(f"did not start within {limit_s:.0f} s")
            port = callers.port(0.2)
            if port is not None:
                return port
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

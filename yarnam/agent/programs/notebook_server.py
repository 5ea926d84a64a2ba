"""Runs a notebook's server, and says how long nobody has used it.

The server listens on the container's loopback alone. Its secret is in a file that only the job's
user can read, not among its arguments, its variables or those of its kernels, which would end up in
a saved cell's output. Its address is in no log with the secret.

A program of its own, which imports nothing of yarnam: ``notebook_server.py SERVER PROGRAM
ARGUMENTS``.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yarnam.agent.programs.strangers import warn
else:
    sys.path.append(str(Path(__file__).parent))  # an isolated interpreter leaves it out
    from strangers import warn

ENV_TOKEN, ENV_PORT = "YARNAM_NOTEBOOK_TOKEN", "YARNAM_PORT_NOTEBOOK"
ENV_SDK = "YARNAM_SDK"
FILES = "notebooks"
PRIVATE = ".yarnam-notebook"
"""The directory of the server's own files, in the container's."""
HOST = "127.0.0.1"

POLL_S = 5.0
"""Between two questions to the server."""
ASK_S = 3.0
"""For one answer."""
LISTEN_S = 300.0
"""For the server to listen: JupyterLab starts in seconds, and in minutes on a cold, busy disk."""
MAX_BYTES = 1 << 20
MAX_KERNELS = 1000
IDLE_METRIC = "notebook_idle_s"

Facts = Mapping[str, Any]


# ---- what the servers say ------------------------------------------------------------------------


def jupyter_used_at_s(status: Any, kernels: Any, now_s: float) -> float:
    """When somebody last used JupyterLab, by its ``/api/status`` and ``/api/kernels``. Raises
    ValueError: the answers make no sense."""
    if not isinstance(status, dict) or not isinstance(kernels, list):
        raise ValueError("the server's answer is not that of Jupyter")
    used = [_seconds(status.get("last_activity"))]
    for kernel in kernels[:MAX_KERNELS]:
        if not isinstance(kernel, dict):
            raise ValueError("the server's answer is not that of Jupyter")
        # A kernel that starts, or restarts, is about to be used.
        is_idle = kernel.get("execution_state") in ("idle", "dead")
        if not is_idle or kernel.get("connections"):
            return now_s
        used.append(_seconds(kernel.get("last_activity")))
    return min(now_s, max(used))


def _seconds(text: Any) -> float:
    # Python 3.10 reads no Z.
    if not isinstance(text, str) or len(text) > 40:
        raise ValueError("a time is not a text")
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def vscode_used_at_s(health: Any, now_s: float) -> float:
    """When a browser was last connected to code-server, by its ``/healthz``. Raises ValueError."""
    beat_ms = health.get("lastHeartbeat") if isinstance(health, dict) else None
    if isinstance(beat_ms, bool) or not isinstance(beat_ms, (int, float)):
        raise ValueError("the server's answer is not that of code-server")
    return min(now_s, beat_ms / 1000.0)


def _ask(port: int, path: str, token: str) -> Any:
    """Raises OSError, HTTPException, ValueError."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ASK_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"token {token}"})
        answer = connection.getresponse()
        data = answer.read(MAX_BYTES + 1)
        if answer.status != http.HTTPStatus.OK or len(data) > MAX_BYTES:
            raise ValueError(f"{path.partition('?')[0]}: status {answer.status}")
        return json.loads(data)
    except (RecursionError, OverflowError) as error:
        raise ValueError("the server's answer is not that of a notebook") from error
    finally:
        connection.close()


def _jupyter(port: int, token: str) -> float:
    quiet = "?no_track_activity=1"
    status = _ask(port, f"/api/status{quiet}", token)
    return jupyter_used_at_s(status, _ask(port, f"/api/kernels{quiet}", token), time.time())


def _vscode(port: int, token: str) -> float:
    return vscode_used_at_s(_ask(port, "/healthz", token), time.time())


# ---- the servers ---------------------------------------------------------------------------------


def jupyter_settings(port: int, token: str, work: Path) -> dict[str, Any]:
    """``jupyter_server_config.json``."""
    return {
        "ServerApp": {
            "ip": HOST,
            "port": port,
            "port_retries": 0,
            "open_browser": False,
            "allow_root": True,
            "root_dir": str(work / FILES),
        },
        "IdentityProvider": {"token": token},
    }


def vscode_settings(port: int, token: str) -> dict[str, Any]:
    """``config.yaml``; JSON is YAML."""
    return {"bind-addr": f"{HOST}:{port}", "auth": "password", "password": token, "cert": False}


def prepare(
    server: str, port: int, token: str, private: Path, environ: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Write the server's settings. Returns its further arguments and its variables."""
    private.mkdir(mode=0o700, exist_ok=True)
    work = Path.cwd()
    (work / FILES).mkdir(exist_ok=True)
    env = dict(environ)
    env.pop(ENV_TOKEN, None)
    # Reports of a cell are not those of a training.
    with suppress(ValueError):
        env[ENV_SDK] = json.dumps({**json.loads(env.get(ENV_SDK, "{}")), "metrics_socket": ""})
    if server == "code-server":
        settings = private / "config.yaml"
        _write(settings, vscode_settings(port, token))
        data = str(private / "data")
        return ("--config", str(settings), "--user-data-dir", data, str(work / FILES)), env
    _write(private / "jupyter_server_config.json", jupyter_settings(port, token, work))
    for name in ("CONFIG", "DATA", "RUNTIME"):
        env[f"JUPYTER_{name}_DIR"] = str(private if name == "CONFIG" else private / name.lower())
    env.setdefault("IPYTHONDIR", str(private / "ipython"))
    return (), env


def _write(path: Path, content: dict[str, Any]) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)


# ---- while it runs -------------------------------------------------------------------------------


class Reporter:
    """Sends to the agent how long nobody has used the server."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = ""
        with suppress(ValueError, AttributeError):
            address = json.loads(environ.get(ENV_SDK, "{}")).get("metrics_socket") or ""
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def send(self, idle_s: float) -> None:
        report = {
            "at_s": time.time(),
            "local_rank": 0,
            "step": None,
            "total_steps": None,
            "values": {IDLE_METRIC: round(max(0.0, idle_s), 1)},
        }
        with suppress(OSError):  # full, or the agent is away
            self._socket.sendto(json.dumps(report).encode(), socket.MSG_DONTWAIT, self._address)


def watch(
    child: subprocess.Popen[bytes], used_at_s: Callable[[], float], report: Callable[[float], None]
) -> bool:
    """Report until the server has ended; whether it has ever answered. One that answers no more is
    used by nobody."""
    last_s = time.time()
    limit_s = time.monotonic() + LISTEN_S
    has_listened = False
    while True:
        try:
            last_s = max(last_s, used_at_s())
            has_listened = True
        except (OSError, ValueError, OverflowError, http.client.HTTPException):
            if not has_listened and time.monotonic() > limit_s:
                warn(f"the server does not answer after {LISTEN_S:g} s: it is ended")
                child.terminate()
        if has_listened:
            report(time.time() - last_s)
        try:
            child.wait(POLL_S if has_listened else 1.0)
        except subprocess.TimeoutExpired:
            continue
        return has_listened


def main(arguments: Sequence[str]) -> int:
    server, program, *rest = arguments
    token, port = os.environ.get(ENV_TOKEN, ""), int(os.environ[ENV_PORT])
    if not token:
        warn("the notebook has no secret: submit the job again")
        return 1
    private = Path(os.environ["YARNAM_STOP_FILE"]).parent / PRIVATE
    more, env = prepare(server, port, token, private, os.environ)
    child = subprocess.Popen([program, *rest, *more], env=env, stdin=subprocess.DEVNULL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: child.terminate())
    ask = _vscode if server == "code-server" else _jupyter
    has_listened = watch(child, lambda: ask(port, token), Reporter(os.environ).send)
    status = child.returncode
    if status and not has_listened and server == "jupyterlab":
        warn(
            "JupyterLab did not start. If it is not in the job's environment, add `jupyterlab` to "
            "the file of environment.requirements."
        )
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``yarnam notebook``: JupyterLab, or VS Code, on GPUs of the cluster."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.control.port_forward_command import until_ctrl_c
from yarnam.cli.options import json_option, open_client, queue_option
from yarnam.cli.rendering.console import print_json_line, print_line, print_lines, print_note
from yarnam.cli.rendering.live_status import ending, show
from yarnam.cli.rendering.transfer_progress import transfer_progress
from yarnam.cli.signals import INTERRUPTED, Terminated
from yarnam.core.model.job_status import JobState
from yarnam.core.model.session_parts import SessionKind
from yarnam.errors import ExitCode, PathTaken, Unavailable, UsageError, YarnamError

if TYPE_CHECKING:
    from yarnam.client import Client, Job
    from yarnam.client.monitor.sessions.notebook_access import NotebookServer
    from yarnam.client.monitor.sessions.task_choice import ChosenTask
    from yarnam.core.model.job_spec import JobSpec
    from yarnam.core.model.job_status import JobStatus
    from yarnam.ports.task_sessions import TaskSession

with on_first_use():
    from yarnam.client.monitor.sessions import notebook_access, port_forwarding, task_choice
    from yarnam.web.http import local_peers

NAME = "notebook"
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
PAUSE_S = 1.0
"""Before it looks again for a notebook whose session has ended."""
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


@click.command("notebook")
@click.argument("target", metavar="[SPEC|JOB]", required=False)
@click.option("--gpus", type=click.IntRange(0), help="GPUs of the notebook. Default: none.")
@click.option(
    "--environment",
    metavar="PATH",
    help="Requirements file, packed environment or venv with JupyterLab. Default: JupyterLab alone",
)
@click.option("--vscode", is_flag=True, help="Run code-server (VS Code) instead of JupyterLab.")
@queue_option
@click.option("-n", "--name", help="Name of the job, and of its files. Default: notebook.")
@click.option(
    "-p", "--port", type=click.IntRange(0, 65535), default=0, show_default=True,
    help="Listen on this port of 127.0.0.1; 0: any free one.",
)  # fmt: skip
@click.option("--keep", is_flag=True, help="Leave the job running at Ctrl-C.")
@click.option("--browser/--no-browser", default=True, help="Open a browser if there is a display.")
@click.option("--with-token", is_flag=True, help="With --json: print the address with its token.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    target: str | None,
    gpus: int | None,
    environment: str | None,
    vscode: bool,
    queue: str | None,
    name: str | None,
    port: int,
    keep: bool,
    browser: bool,
    with_token: bool,
    as_json: bool,
) -> int:
    """Work in JupyterLab or VS Code on the cluster, in a browser of this machine.

    Starts the job of a SPEC with a `notebook` section, or one of these options, waits until it
    runs, and forwards its port to 127.0.0.1. Ctrl-C ends the job, unless --keep; its files stay.
    With a JOB that runs, it opens that one again, and Ctrl-C leaves it running.
    """
    is_spec = target is None or Path(target).is_file()
    options = {"--gpus": gpus, "--environment": environment, "--vscode": vscode}
    if target is not None:
        if not is_spec:
            options |= {"--queue": queue, "--name": name}
        for option, value in options.items():
            if value:
                what = "spec says that" if is_spec else "job has that already"
                raise UsageError(f"{option}: the {what}", hint=f"Leave out {option}.")
    port = port_forwarding.free_port(port)
    with ExitStack() as stack:
        client = stack.enter_context(open_client(ctx, **_progress(as_json=as_json)))
        if is_spec:
            job = _submitted(client, target, gpus, environment, queue, name, vscode=vscode)
            print_note(f"Submitted {job.id}")
        else:
            assert target is not None
            job = client.job(target)
        view = _NotebookView(job, port, as_json=as_json, with_token=with_token, browser=browser)
        ends_it = is_spec and not keep
        try:
            return view.follow(ends_it=ends_it)
        except (YarnamError, Terminated):
            _print_way_back(job)
            raise
        except KeyboardInterrupt:
            print_note("")
        if not ends_it:
            _print_way_back(job)
            return INTERRUPTED
        print_note("Ending the job; the files are kept for the next notebook of this name.")
        job.kill("its user ended the notebook")
        return INTERRUPTED


def _print_way_back(job: Job) -> None:
    print_note(
        f"The job continues. To open it: yarnam notebook {job.id}; to end it: yarnam kill {job.id}"
    )


def _progress(*, as_json: bool) -> dict[str, Any]:
    if as_json:
        return {}
    return {
        "on_progress": lambda text: print_note(f"{text} …"),
        "open_progress": lambda label: transfer_progress(label, is_silent=False),
    }


def _submitted(
    client: Client,
    spec: str | None,
    gpus: int | None,
    environment: str | None,
    queue: str | None,
    name: str | None,
    *,
    vscode: bool,
) -> Job:
    with own_spec(gpus, environment, queue, vscode=vscode) as own:
        job: JobSpec = client.parse(own if spec is None else spec, queue=queue, name=name)
        notebook_access.require_notebook(job, spec or NAME)
        try:
            return client.submit(job)
        except PathTaken as error:
            if not error.application:
                raise
            hint = (
                f"If that is your notebook, open it again: yarnam notebook {error.application}. "
                "For another one beside it, give it another --name."
            )
            raise PathTaken(
                error.message, hint=hint, spec_key=error.spec_key, application=error.application
            ) from error


@contextmanager
def own_spec(
    gpus: int | None, environment: str | None, queue: str | None, *, vscode: bool
) -> Iterator[dict[str, Any]]:
    """The spec that the options make; its files live as long as the block. Raises UsageError."""
    with tempfile.TemporaryDirectory(prefix="yarnam-notebook-") as scratch:
        spec: dict[str, Any] = {"version": 1, "name": NAME, "queue": queue or ""}
        spec["notebook"] = {"server": "code-server" if vscode else "jupyterlab"}
        if gpus:
            spec["gpus"] = gpus
        if environment is not None:
            spec["environment"] = {_kind_of(environment): os.path.abspath(environment)}  # noqa: PTH100
        elif not vscode:
            requirements = Path(scratch) / "requirements.txt"
            requirements.write_text("jupyterlab\n")
            spec["environment"] = {"requirements": str(requirements)}
        yield spec


def _kind_of(environment: str) -> str:
    if Path(environment).is_dir():
        return "venv"
    return "archive" if environment.endswith(ARCHIVES) else "requirements"


class _NotebookView:
    """Follows one notebook until it ends: waits for it, and forwards its port while it runs."""

    def __init__(
        self, job: Job, port: int, *, as_json: bool, with_token: bool, browser: bool
    ) -> None:
        self._job = job
        self._port = port
        self._as_json = as_json
        self._with_token = with_token
        self._browser = browser
        self._is_opened = False

    def follow(self, *, ends_it: bool) -> int:
        """The exit code of its verdict. Raises what a refused session raises."""
        kind = notebook_access.require_notebook(self._job.record().job, self._job.id)
        hint = "Ctrl-C ends the job" if ends_it else "Ctrl-C leaves the job running"
        while True:
            last = show(self._job.id, self._until_there(), as_json=self._as_json, hint=hint)
            if last is None or last.state.is_final:
                return self._end(last)
            try:
                self._serve(kind, task_choice.choose_task(last, None, None), hint)
            except (Unavailable, UsageError) as error:
                if isinstance(error, UsageError) and self._is_running():
                    raise
                # It starts again elsewhere, or has ended: its status says which.
                print_note(f"{error.message}; waiting for the notebook")
                time.sleep(PAUSE_S)

    def _is_running(self) -> bool:
        return self._job.status().state is JobState.RUNNING

    def _until_there(self) -> Iterator[JobStatus]:
        for status in self._job.watch():
            yield status
            if notebook_access.is_there(status) and not status.state.is_final:
                return

    def _end(self, last: JobStatus | None) -> int:
        if last is None or last.verdict is None:
            return int(ExitCode.INTERNAL)
        if not self._as_json:
            print_lines(ending(last))
        return last.verdict.exit_code

    def _serve(self, kind: str, chosen: ChosenTask, hint: str) -> None:
        session = self._job.open_session(chosen, command=notebook_access.COMMAND)
        server = notebook_access.read_server(kind, chosen.name, session)

        def open_session(remote: tuple[int, ...]) -> TaskSession:
            return self._job.open_session(chosen, SessionKind.FORWARD, ports=remote)

        def connect(forward: str, port: int) -> TaskSession:
            return self._job.open_session(chosen, SessionKind.CONNECT, forward=forward, port=port)

        pair = port_forwarding.PortPair(self._port, server.port)
        # Until the server listens it refuses connections: no need to say so each time.
        forward = port_forwarding.PortForward(
            [pair], open_session, connect, local_peers.is_own_peer, lambda _: None
        )
        is_over = threading.Event()
        with ExitStack() as stack:
            stack.callback(is_over.set)

            def print_when_there() -> None:
                try:
                    notebook_access.await_listening(self._port, is_over.is_set)
                except Unavailable as error:
                    print_note(error.message)
                    return
                if not is_over.is_set():
                    self._print_address(server, chosen, hint, stack)

            # Meanwhile the session may end.
            thread = threading.Thread(target=print_when_there, name="notebook", daemon=True)
            if until_ctrl_c(forward, thread.start) == INTERRUPTED:
                raise KeyboardInterrupt

    def _print_address(
        self, server: NotebookServer, chosen: ChosenTask, hint: str, stack: ExitStack
    ) -> None:
        local = f"{port_forwarding.LOOPBACK}:{self._port}"
        url = server.url(self._port)
        if self._as_json:
            facts = {"application": self._job.id, "local": local, "task": chosen.name}
            facts |= {"server": server.kind}
            if self._with_token:
                facts |= {"url": url, "token": server.token}
            print_json_line(facts)
            return
        self._is_opened = self._is_opened or (self._browser and open_browser(url, stack))
        shown = f"http://{local}/ is open in your browser; --no-browser prints its address"
        print_line(shown if self._is_opened else url)
        if server.kind == "code-server":
            print_line(f"password: {server.token}")
        print_note(f"{hint}. To open it again: yarnam notebook {self._job.id}")


def open_browser(url: str, stack: ExitStack) -> bool:
    """Whether a browser opens. It gets a file that leads to the address: every user of this machine
    sees the arguments of a process."""
    if not any(os.environ.get(name) for name in DISPLAYS):
        return False
    descriptor, path = tempfile.mkstemp(prefix="yarnam-notebook-", suffix=".html")
    stack.callback(_remove, path)
    with os.fdopen(descriptor, "w") as file:
        file.write(f'<meta http-equiv="refresh" content="0; url={escape(url)}">\n')
    return webbrowser.open(Path(path).as_uri())


def _remove(path: str) -> None:
    with suppress(OSError):
        Path(path).unlink()

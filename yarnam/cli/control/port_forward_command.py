"""``yarnam port-forward``: ports of this machine that lead to servers in a task."""

from __future__ import annotations

import threading
from collections.abc import Callable

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import print_json_line, print_line, print_note
from yarnam.cli.signals import INTERRUPTED, Terminated
from yarnam.core.model.session_parts import SessionKind
from yarnam.errors import UsageError
from yarnam.ports.task_sessions import TaskSession

with on_first_use():
    from yarnam.client.monitor.sessions import port_forwarding, task_choice
    from yarnam.web.http import local_peers


@click.command("port-forward")
@job_argument
@click.argument("ports", metavar="[LOCAL:]REMOTE...", nargs=-1)
@click.option("--task", help="The task, such as worker-1. Default: that of rank 0.")
@click.option("-r", "--rank", type=click.IntRange(0), help="The task of this global rank.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    job: str,
    ports: tuple[str, ...],
    task: str | None,
    rank: int | None,
    as_json: bool,
) -> int:
    """Forward ports of this machine to a task of a running job, until Ctrl-C.

    LOCAL listens on 127.0.0.1, for your own programs alone; `:REMOTE` takes any free port. REMOTE
    is a TCP port of the task's container on its loopback, as of Jupyter or a profiler.
    """
    if not ports:
        raise UsageError("no port is named", hint="Give LOCAL:REMOTE, such as 8080:80.")
    pairs = [port_forwarding.parse_pair(text) for text in ports]
    with open_client(ctx) as client:
        handle = client.job(job)
        chosen = task_choice.choose_task(handle.status(), task, rank)

        def open_session(remote: tuple[int, ...]) -> TaskSession:
            return handle.open_session(chosen, SessionKind.FORWARD, ports=remote)

        def connect(forward: str, port: int) -> TaskSession:
            return handle.open_session(chosen, SessionKind.CONNECT, forward=forward, port=port)

        forward = port_forwarding.PortForward(
            pairs, open_session, connect, local_peers.is_own_peer, print_note
        )

        def print_ports() -> None:
            for pair in forward.ports:
                local = f"{port_forwarding.LOOPBACK}:{pair.local}"
                if as_json:
                    facts = {"local": local, "task": chosen.name, "remote": pair.remote}
                    print_json_line(facts)
                else:
                    print_line(f"{local} -> {chosen.name}:{pair.remote}")

        return until_ctrl_c(forward, print_ports)


def until_ctrl_c(forward: port_forwarding.PortForward, on_opened: Callable[[], None]) -> int:
    """Forward until Ctrl-C, or until the session in the task ends: raises Unavailable then."""
    failed: list[BaseException] = []
    done = threading.Event()

    def serve() -> None:
        try:
            forward.run(on_opened)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=serve, name="port-forward", daemon=True).start()
    try:
        done.wait()
    except Terminated:
        raise
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        forward.close()
    if failed:
        raise failed[0]
    return 0

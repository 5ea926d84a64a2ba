"""``yarnam cluster``: a real Hadoop cluster on this machine."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.rendering.console import (
    has_colour,
    print_document,
    print_json,
    print_json_line,
    print_line,
    print_lines,
    print_note,
    print_table,
)
from yarnam.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster
    from yarnam.cluster.cluster_status import ClusterStatus, DaemonStatus, NodeStatus
    from yarnam.cluster.reporters import Reporter

with on_first_use():
    from yarnam import cluster as yarnam_cluster
    from yarnam.cluster import cluster_paths, cluster_plan, reporters, terminal_display
    from yarnam.cluster import shape as cluster_shape
    from yarnam.cluster.daemons import daemon_processes
    from yarnam.cluster.hadoop import shims

_FOLLOW_S = 0.3

_name = click.option(
    "--name", default="local", show_default=True, metavar="NAME", help="Name of the cluster."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """Run a real Hadoop cluster (HDFS, YARN, ZooKeeper) on this machine.

    Each daemon is a process, each NodeManager has a loopback address of its own; no root, no
    Docker. Java and the jars are fetched once and cached.
    """


# The name under which this module's contract knows it.
cluster = command


@command.command()
@_name
@click.option(
    "--shape",
    "shape_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read the shape from this YAML file; options override it.",
)
@click.option("--nodes", type=int, help="NodeManagers. [default: 4]")
@click.option("--racks", type=int, help="Racks to spread the nodes over. [default: 2]")
@click.option("--gpus-per-node", type=int, help="GPUs of each node. [default: 8, or the real ones]")
@click.option(
    "--gpus",
    type=click.Choice(["auto", "simulated", "real"]),
    help="Real or simulated GPUs; auto: real ones if there are any and no number is given. "
    "[default: auto]",
)
@click.option("--gpu-model", metavar="MODEL", help="GPU model that the nodes announce.")
@click.option("--memory-mib", type=int, help="Memory YARN counts per node. [default: 65536]")
@click.option("--vcores", type=int, help="Virtual cores per node. [default: 64]")
@click.option("--datanodes", type=int, help="DataNodes. [default: 1]")
@click.option("--replication", type=int, help="HDFS replication. [default: 1]")
@click.option(
    "--scheduler",
    type=click.Choice(["fair", "capacity"]),
    help="Fair Scheduler or Capacity Scheduler. [default: fair]",
)
@click.option("--queues", metavar="FILE", help="The scheduler's file of queues.")
@click.option(
    "--nm-expiry-s", type=int, help="Seconds after which a silent node is lost. [default: 10]"
)
@click.option(
    "--heartbeat-ms", type=int, help="NodeManager heartbeat in milliseconds. [default: 1000]"
)
@click.option(
    "--secure/--no-secure",
    default=None,
    help="With Kerberos: a KDC, and everybody has to have a ticket. [default: without]",
)
@click.option("--hadoop", metavar="VERSION", help="Hadoop's version. [default: 3.4.1]")
@click.option("--resourcemanagers", type=int, help="1 or 2, one of them active. [default: 1]")
@click.option("--zookeeper/--no-zookeeper", default=None, help="[default: with ZooKeeper]")
@click.option(
    "--shared-machine", is_flag=True, help="Start it even if other people use this machine."
)
@click.option("--quiet", is_flag=True, help="Print errors only.")
@_json
def up(
    name: str,
    shape_file: Path | None,
    shared_machine: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Start a cluster and wait until it takes jobs.

    While it is up, every user of this machine can run programs as you through it, unless it is
    secure. Where other people use the machine, it is refused unless you give --shared-machine.
    """
    shape = _shape(shape_file, options)
    started = time.monotonic()
    with _ends_cleanly(), _reporter(quiet or as_json) as reporter:
        target = yarnam_cluster.EmbeddedCluster(
            shape, name=name, reporter=reporter, shared_machine=shared_machine
        )
        result = target.up()
    if as_json:
        print_json({"result": result, **target.status().to_json()})
        return
    if quiet:
        return
    option = "" if name == "local" else f" --name {name}"
    seconds = time.monotonic() - started
    words = {
        "started": f"is up after {seconds:.1f} s",
        "already up": "is already up",
        "repaired": "is repaired",
    }
    print_line(f"cluster '{name}' {words[result]}: {_summary(target)}")
    print_line(f'use it:       eval "$(yarnam cluster env{option})"')
    print_line(f"inspect it:   yarnam cluster status{option}    {target.rm_url}/cluster")
    print_line(f"take it down: yarnam cluster down{option}")


def _shape(file: Path | None, options: dict[str, Any]) -> cluster_shape.ClusterShape:
    shape = cluster_shape.read_shape(file) if file else cluster_shape.ClusterShape()
    given = {key: value for key, value in options.items() if value is not None}
    shape = replace(shape, **given)
    return cluster_shape.with_absolute_queues(shape, Path.cwd()) if "queues" in given else shape


def _summary(target: EmbeddedCluster) -> str:
    nodes = target.nodes
    gpus = sum(node.gpus for node in nodes)
    kind = "simulated GPUs" if any(node.simulated for node in nodes) else "GPUs"
    racks = len({node.rack for node in nodes})
    return f"{_count(len(nodes), 'node')} on {_count(racks, 'rack')}, {gpus} {kind}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@contextlib.contextmanager
def _reporter(quiet: bool) -> Iterator[Reporter]:
    if quiet:
        yield reporters.SilentReporter()
    elif has_colour(sys.stderr):
        with terminal_display.TerminalReporter() as display:
            yield display
    else:
        yield reporters.PlainReporter()


@contextlib.contextmanager
def _ends_cleanly() -> Iterator[None]:
    """Let the first Ctrl-C, SIGTERM or hang-up end the work in order, and ignore what follows. A
    second Ctrl-C in the middle of the clean-up would leave processes behind."""
    seen: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        if not seen:
            seen.append(number)
            print_note("interrupted: taking the cluster down")
            raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@command.command()
@_name
@click.option("--keep-data", is_flag=True, help="Keep the HDFS data for the next `up`.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
@_json
def down(name: str, keep_data: bool, quiet: bool, as_json: bool) -> None:
    """Stop every process of a cluster, containers included, and delete its folder."""
    reporter = reporters.SilentReporter() if quiet or as_json else reporters.PlainReporter()
    was_there = yarnam_cluster.EmbeddedCluster(name=name, reporter=reporter).down(
        keep_data=keep_data
    )
    kept = " (HDFS data kept)" if keep_data else ""
    text = f"cluster '{name}' is down{kept}" if was_there else f"no cluster '{name}'"
    if as_json or not quiet:
        _print_result(as_json, text, name=name, was_there=was_there, kept_data=keep_data)


@command.command()
@_name
@_json
def status(name: str, as_json: bool) -> int:
    """Show daemons, nodes, memory and HDFS; fail if something is wrong."""
    found = yarnam_cluster.EmbeddedCluster(name=name).status()
    if as_json:
        print_json(found.to_json())
    else:
        _print_status(found)
    return int(ExitCode.OK if found.is_healthy else ExitCode.UNAVAILABLE)


def _print_status(found: ClusterStatus) -> None:
    state = "healthy" if found.is_healthy else found.phase
    print_line(f"cluster '{found.name}': {state}, Hadoop {found.hadoop_version}")
    print_line(f"  ResourceManager  {found.rm_url}")
    print_line(f"  HDFS             {found.namenode_uri} ({found.hdfs})")
    if found.zookeeper:
        print_line(f"  ZooKeeper        {found.zookeeper}")
    print_line(f"  configuration    {found.conf_dir}")
    daemons = [
        (daemon.name, daemon.state, str(daemon.pid or "-"), daemon.address, _memory(daemon))
        for daemon in found.daemons
    ]
    daemons.append(("all", "", "", "", f"{found.resident_mib:.0f} MiB"))
    print_table(("DAEMON", "STATE", "PID", "ADDRESS", "MEMORY"), daemons)
    headers = ("NODE", "STATE", "RACK", "ADDRESS", "GPUS IN USE", "MODEL", "CONTAINERS")
    print_table(headers, [_node_row(node) for node in found.nodes])
    for problem in found.problems:
        print_line(f"problem: {problem}")
    for warning in found.warnings:
        print_line(f"warning: {warning}")


def _memory(daemon: DaemonStatus) -> str:
    return "-" if daemon.resident_mib is None else f"{daemon.resident_mib:.0f} MiB"


def _node_row(node: NodeStatus) -> tuple[str, ...]:
    gpus = f"{node.gpus_used} of {node.gpus}{' simulated' if node.simulated else ''}"
    model, containers = node.gpu_model or "-", str(node.containers)
    return (node.name, node.state, node.rack, node.address, gpus, model, containers)


@command.command()
@_name
@click.option("--user", default="", metavar="USER", help="Of a secure cluster: you, or alice.")
@_json
def env(name: str, user: str, as_json: bool) -> None:
    """Print shell variables for using a cluster: eval "$(yarnam cluster env)"."""
    target = yarnam_cluster.EmbeddedCluster(name=name)
    if as_json:
        print_json(target.env(user))
    else:
        print_document(shims.shell_exports(target.plan, user))


@command.command()
@_name
@_json
@click.argument("daemon", required=False)
@click.option("-n", "--lines", default=50, show_default=True, type=click.IntRange(1))
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines.")
def logs(name: str, as_json: bool, daemon: str | None, lines: int, follow: bool) -> None:
    """Print the log of a daemon, or list the logs of all."""
    target = yarnam_cluster.EmbeddedCluster(name=name)
    if daemon is None:
        paths = {each: str(target.paths.log(each)) for each in target.record().plan.daemons}
        if as_json:
            print_json(paths)
        else:
            print_lines(f"{each:<6} {path}" for each, path in paths.items())
        return
    log = target.daemon(daemon).log
    # Output of a JVM from before its logging works counts as its log.
    out, found = (
        daemon_processes.read_tail(target.paths.out(daemon), lines),
        daemon_processes.read_tail(log, lines),
    )
    for line in [*out.lines, *found.lines][-lines:]:
        _print_log_line(daemon, line, as_json)
    if follow:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(log, found.position, daemon, as_json)


def _print_log_line(daemon: str, line: str, as_json: bool) -> None:
    if as_json:
        print_json_line({"daemon": daemon, "line": line})
    else:
        print_line(line)


def _follow(path: Path, position: int, daemon: str, as_json: bool) -> None:
    """Print whole lines as they come."""
    rest = b""
    while True:
        size = path.stat().st_size if path.exists() else 0
        if size < position:
            # Rolled over, or begun anew by a restart.
            position, rest = 0, b""
        if size > position:
            with path.open("rb") as file:
                file.seek(position)
                content = file.read()
            position += len(content)
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                _print_log_line(daemon, line.decode("utf-8", errors="replace"), as_json)
        time.sleep(_FOLLOW_S)


@command.command()
@_name
@_json
@click.argument("daemon")
def restart(name: str, as_json: bool, daemon: str) -> None:
    """Restart a daemon; containers keep running."""
    with _reporter(as_json) as reporter:
        target = yarnam_cluster.EmbeddedCluster(name=name, reporter=reporter).daemon(daemon)
        target.restart()
    _print_result(as_json, f"{daemon} is up again", daemon=daemon, pid=target.pid)


@command.command()
@_name
@_json
@click.argument("daemon")
def stop(name: str, as_json: bool, daemon: str) -> None:
    """Stop a daemon with SIGTERM."""
    yarnam_cluster.EmbeddedCluster(name=name).daemon(daemon).stop()
    _print_result(as_json, f"{daemon} is stopped", daemon=daemon, pid=None)


@command.command()
@_name
@_json
@click.argument("daemon")
def start(name: str, as_json: bool, daemon: str) -> None:
    """Start a daemon that was stopped or killed."""
    with _reporter(as_json) as reporter:
        target = yarnam_cluster.EmbeddedCluster(name=name, reporter=reporter).daemon(daemon)
        target.start()
    _print_result(as_json, f"{daemon} is up", daemon=daemon, pid=target.pid)


@command.command()
@_name
@_json
@click.argument("daemon")
@click.option("--signal", "signal_name", default="KILL", show_default=True, metavar="SIGNAL")
def kill(name: str, as_json: bool, daemon: str, signal_name: str) -> None:
    """Send a signal to a daemon, to inject a fault (STOP freezes it, CONT resumes it)."""
    wanted = signal_name.upper().removeprefix("SIG")
    try:
        number = signal.Signals[f"SIG{wanted}"]
    except KeyError as error:
        raise UsageError(
            f"there is no signal '{signal_name}'", hint="KILL, TERM, STOP, CONT, HUP ..."
        ) from error
    target = yarnam_cluster.EmbeddedCluster(name=name).daemon(daemon)
    target.kill(number)
    _print_result(as_json, f"sent {number.name} to {daemon}", daemon=daemon, pid=target.pid)


def _print_result(as_json: bool, text: str, **facts: object) -> None:
    if as_json:
        print_json(facts)
    else:
        print_line(text)


@command.command("list")
@_json
def list_clusters(as_json: bool) -> None:
    """List this user's clusters."""
    base = cluster_paths.clusters_dir()
    rows = []
    for path in sorted(base.glob("*/cluster.json")):
        found = cluster_plan.load_cluster(cluster_paths.ClusterPaths(base, path.parent.name))
        if found is not None:
            rows.append({"name": found.plan.name, "phase": found.phase, "rm": found.plan.rm_url})
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            print_line(f"{row['name']:<16} {row['phase']:<9} {row['rm']}")

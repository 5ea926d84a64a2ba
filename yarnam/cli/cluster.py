"""``yarnam cluster``: a real Hadoop cluster on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from yarnam.cluster import ClusterShape, EmbeddedCluster
    from yarnam.cluster.progress import Reporter
    from yarnam.cluster.status import ClusterStatus

_FOLLOW_S = 0.3

_name = click.option(
    "--name", default="local", show_default=True, metavar="NAME", help="Which cluster."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """Run a real Hadoop (HDFS, YARN, ZooKeeper) on this machine.

    Real daemons, each NodeManager with a loopback address of its own; no root, no Docker. Java and
    the jars are fetched once and kept in the cache.
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
    help="YAML file with the same keys as the options (and more); options win.",
)
@click.option("--nodes", type=int, help="NodeManagers. [default: 4]")
@click.option("--racks", type=int, help="Racks the nodes are spread over. [default: 2]")
@click.option("--gpus-per-node", type=int, help="GPUs of each node. [default: 8, or real ones]")
@click.option(
    "--gpus",
    type=click.Choice(["auto", "simulated", "real"]),
    help="auto takes the machine's own where there are any and no number is given. [default: auto]",
)
@click.option("--gpu-model", metavar="MODEL", help="Model name that the nodes announce.")
@click.option("--memory-mib", type=int, help="Memory YARN counts per node. [default: 65536]")
@click.option("--vcores", type=int, help="Virtual cores per node. [default: 64]")
@click.option("--datanodes", type=int, help="DataNodes. [default: 1]")
@click.option("--replication", type=int, help="HDFS replication. [default: 1]")
@click.option("--queues", metavar="FILE", help="Fair Scheduler allocation file.")
@click.option("--nm-expiry-s", type=int, help="A silent node is lost after this. [default: 10]")
@click.option("--heartbeat-ms", type=int, help="NodeManagers' heartbeat. [default: 1000]")
@click.option("--zookeeper/--no-zookeeper", default=None, help="[default: with ZooKeeper]")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@_json
def up(name: str, shape_file: Path | None, quiet: bool, as_json: bool, **options: Any) -> None:
    """Start the cluster; return when it can take a job."""
    from yarnam.cluster import EmbeddedCluster

    shape = _shape(shape_file, options)
    started = time.monotonic()
    with _ends_cleanly(), _reporter(quiet or as_json) as reporter:
        target = EmbeddedCluster(shape, name=name, reporter=reporter)
        result = target.up()
    if as_json:
        click.echo(json.dumps({"result": result, **target.status().to_json()}, indent=2))
        return
    if quiet:
        return
    option = "" if name == "local" else f" --name {name}"
    seconds = time.monotonic() - started
    words = {
        "started": f"is up after {seconds:.1f} s",
        "already up": "is up already",
        "repaired": "is whole again",
    }
    click.echo(f"cluster '{name}' {words[result]}: {_summary(target)}")
    click.echo(f'use it:       eval "$(yarnam cluster env{option})"')
    click.echo(f"look at it:   yarnam cluster status{option}    {target.rm_url}/cluster")
    click.echo(f"take it down: yarnam cluster down{option}")


def _shape(file: Path | None, options: dict[str, Any]) -> ClusterShape:
    from dataclasses import replace

    from yarnam.cluster.shape import ClusterShape, read_shape, with_absolute_queues

    shape = read_shape(file) if file else ClusterShape()
    given = {key: value for key, value in options.items() if value is not None}
    shape = replace(shape, **given)
    return with_absolute_queues(shape, Path.cwd()) if "queues" in given else shape


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
    from yarnam.cluster.progress import PlainLines, Silent

    if quiet:
        yield Silent()
    elif sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        from yarnam.cluster.display import TerminalDisplay

        with TerminalDisplay() as display:
            yield display
    else:
        yield PlainLines()


@contextlib.contextmanager
def _ends_cleanly() -> Iterator[None]:
    """Let the first Ctrl-C, SIGTERM or hang-up end the work in order, and ignore what follows.

    A second Ctrl-C in the middle of the clean-up would leave processes behind.
    """
    seen: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        if not seen:
            seen.append(number)
            click.echo("interrupted: taking the cluster down", err=True)
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
@click.option("--keep-data", is_flag=True, help="Keep HDFS for the next `up`.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@_json
def down(name: str, keep_data: bool, quiet: bool, as_json: bool) -> None:
    """End every process of the cluster, containers included, and remove its folder."""
    from yarnam.cluster import EmbeddedCluster
    from yarnam.cluster.progress import PlainLines, Silent

    reporter = Silent() if quiet or as_json else PlainLines()
    was_there = EmbeddedCluster(name=name, reporter=reporter).down(keep_data=keep_data)
    kept = " (HDFS data kept)" if keep_data else ""
    text = f"cluster '{name}' is down{kept}" if was_there else f"no cluster '{name}'"
    if as_json or not quiet:
        _tell(as_json, text, name=name, was_there=was_there, kept_data=keep_data)


@command.command()
@_name
@_json
def status(name: str, as_json: bool) -> int:
    """Show daemons, nodes, memory and HDFS; fails when something is wrong."""
    from yarnam.cluster import EmbeddedCluster
    from yarnam.errors import ExitCode

    found = EmbeddedCluster(name=name).status()
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        _print_status(found)
    return int(ExitCode.OK if found.is_healthy else ExitCode.UNAVAILABLE)


def _print_status(found: ClusterStatus) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    state = "healthy" if found.is_healthy else found.phase
    console.print(f"cluster '{found.name}': {state}, Hadoop {found.hadoop_version}")
    console.print(f"  ResourceManager  {found.rm_url}")
    console.print(f"  HDFS             {found.namenode_uri} ({found.hdfs})")
    if found.zookeeper:
        console.print(f"  ZooKeeper        {found.zookeeper}")
    console.print(f"  configuration    {found.conf_dir}", soft_wrap=True)
    daemons = Table(box=None, pad_edge=False)
    for title in ("daemon", "state", "pid", "address", "memory"):
        daemons.add_column(title, justify="right" if title in ("pid", "memory") else "left")
    for daemon in found.daemons:
        memory = f"{daemon.resident_mib:.0f} MiB" if daemon.resident_mib is not None else "-"
        daemons.add_row(daemon.name, daemon.state, str(daemon.pid or "-"), daemon.address, memory)
    daemons.add_row("all", "", "", "", f"{found.resident_mib:.0f} MiB")
    console.print(daemons)
    nodes = Table(box=None, pad_edge=False)
    for title in ("node", "state", "rack", "address", "GPUs in use", "model", "containers"):
        nodes.add_column(title)
    for node in found.nodes:
        gpus = f"{node.gpus_used} of {node.gpus}{' simulated' if node.simulated else ''}"
        nodes.add_row(
            node.name, node.state, node.rack, node.address, gpus, node.gpu_model or "-",
            str(node.containers),
        )  # fmt: skip
    console.print(nodes)
    for problem in found.problems:
        console.print(f"problem: {problem}")


@command.command()
@_name
@_json
def env(name: str, as_json: bool) -> None:
    """Print what a shell needs to work with the cluster: eval "$(yarnam cluster env)"."""
    from yarnam.cluster import EmbeddedCluster
    from yarnam.cluster.shims import shell_exports

    target = EmbeddedCluster(name=name)
    click.echo(json.dumps(target.env(), indent=2) if as_json else shell_exports(target.plan))


@command.command()
@_name
@_json
@click.argument("daemon", required=False)
@click.option("-n", "--lines", default=50, show_default=True, type=click.IntRange(1))
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is written.")
def logs(name: str, as_json: bool, daemon: str | None, lines: int, follow: bool) -> None:
    """Print the log of one daemon, or name the logs of all."""
    from yarnam.cluster import EmbeddedCluster
    from yarnam.cluster.processes import read_tail

    target = EmbeddedCluster(name=name)
    if daemon is None:
        paths = {each: str(target.places.log(each)) for each in target.record().plan.daemons}
        rows = [f"{each:<6} {path}" for each, path in paths.items()]
        click.echo(json.dumps(paths, indent=2) if as_json else "\n".join(rows))
        return
    log = target.daemon(daemon).log
    # What a JVM prints before its logging works counts as its log.
    out, found = read_tail(target.places.out(daemon), lines), read_tail(log, lines)
    for line in [*out.lines, *found.lines][-lines:]:
        click.echo(json.dumps({"daemon": daemon, "line": line}) if as_json else line)
    if follow:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(log, found.position, daemon if as_json else None)


def _follow(path: Path, position: int, daemon: str | None) -> None:
    """Print whole lines as they come; as JSON where the daemon is named."""
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
                text = line.decode("utf-8", errors="replace")
                click.echo(json.dumps({"daemon": daemon, "line": text}) if daemon else text)
        time.sleep(_FOLLOW_S)


@command.command()
@_name
@_json
@click.argument("daemon")
def restart(name: str, as_json: bool, daemon: str) -> None:
    """Stop one daemon in good order and start it again; containers stay."""
    from yarnam.cluster import EmbeddedCluster

    with _reporter(as_json) as reporter:
        target = EmbeddedCluster(name=name, reporter=reporter).daemon(daemon)
        target.restart()
    _tell(as_json, f"{daemon} is up again", daemon=daemon, pid=target.pid)


@command.command()
@_name
@_json
@click.argument("daemon")
def stop(name: str, as_json: bool, daemon: str) -> None:
    """Stop one daemon in good order."""
    from yarnam.cluster import EmbeddedCluster

    EmbeddedCluster(name=name).daemon(daemon).stop()
    _tell(as_json, f"{daemon} is stopped", daemon=daemon, pid=None)


@command.command()
@_name
@_json
@click.argument("daemon")
def start(name: str, as_json: bool, daemon: str) -> None:
    """Start one daemon that was stopped or killed."""
    from yarnam.cluster import EmbeddedCluster

    with _reporter(as_json) as reporter:
        target = EmbeddedCluster(name=name, reporter=reporter).daemon(daemon)
        target.start()
    _tell(as_json, f"{daemon} is up", daemon=daemon, pid=target.pid)


@command.command()
@_name
@_json
@click.argument("daemon")
@click.option("--signal", "signal_name", default="KILL", show_default=True, metavar="SIGNAL")
def kill(name: str, as_json: bool, daemon: str, signal_name: str) -> None:
    """Send one daemon a signal, to see what happens then (STOP freezes, CONT thaws)."""
    from yarnam.cluster import EmbeddedCluster
    from yarnam.errors import UsageError

    wanted = signal_name.upper().removeprefix("SIG")
    try:
        number = signal.Signals[f"SIG{wanted}"]
    except KeyError as error:
        raise UsageError(
            f"there is no signal '{signal_name}'", hint="KILL, TERM, STOP, CONT, HUP ..."
        ) from error
    target = EmbeddedCluster(name=name).daemon(daemon)
    target.kill(number)
    _tell(as_json, f"sent {number.name} to {daemon}", daemon=daemon, pid=target.pid)


def _tell(as_json: bool, text: str, **facts: object) -> None:
    click.echo(json.dumps(facts) if as_json else text)


@command.command("list")
@_json
def list_clusters(as_json: bool) -> None:
    """List this user's clusters."""
    from yarnam.cluster.places import ClusterPlaces, clusters_dir
    from yarnam.cluster.record import read

    base = clusters_dir()
    rows = []
    for path in sorted(base.glob("*/cluster.json")):
        found = read(ClusterPlaces(base, path.parent.name))
        if found is not None:
            rows.append({"name": found.plan.name, "phase": found.phase, "rm": found.plan.rm_url})
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        for row in rows:
            click.echo(f"{row['name']:<16} {row['phase']:<9} {row['rm']}")

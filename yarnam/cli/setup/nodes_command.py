"""``yarnam nodes``: the nodes of the cluster, and a snapshot of them for planning elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client, seconds_of
from yarnam.cli.queues.closing_commands import show_order
from yarnam.cli.rendering.console import print_json, print_line, print_note, print_table
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node

with on_first_use():
    from yarnam.client.planning import snapshot_file
    from yarnam.client.queues import maintenance
    from yarnam.wire import codec


@click.group("nodes", invoke_without_command=True)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Write nodes and queues to FILE, for `yarnam plan --snapshot`.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, save: str | None, as_json: bool) -> None:
    """List the nodes of the cluster with their resources, GPU models and labels.

    Nothing is free on a node that does not run or is cordoned; WHY is YARN's own reason, or the
    administrator's.
    """
    if ctx.invoked_subcommand is not None:
        return
    with open_client(ctx) as client:
        snapshot = client.nodes()
    if save is not None:
        snapshot_file.save_snapshot(snapshot, save)
        print_note(f"Wrote {save}: {len(snapshot.nodes)} nodes, {len(snapshot.queues)} queues")
    if as_json:
        print_json([_as_plain(node) for node in snapshot.nodes])
    elif save is None:
        _print(snapshot)


def _as_plain(node: Node) -> dict[str, Any]:
    plain: dict[str, Any] = codec.to_plain(node)
    return {**plain, "free": codec.to_plain(node.available)}


def _print(snapshot: ClusterSnapshot) -> None:
    if not snapshot.nodes:
        print_note("The cluster has no nodes.")
        return
    headers = ("NODE", "RACK", "STATE", "GPUS FREE", "GPU MODEL", "MEMORY FREE", "VCORES FREE",
               "LABELS")  # fmt: skip
    nodes = sorted(snapshot.nodes, key=lambda node: (node.rack, node.node_id))
    has_reasons = any(node.health for node in nodes)
    rows = [(*_row(node), *((node.health or "-",) if has_reasons else ())) for node in nodes]
    print_table((*headers, "WHY") if has_reasons else headers, rows)
    usable = [node for node in snapshot.nodes if node.is_usable]
    total, free = Resources(), Resources()
    for node in usable:
        total, free = total.plus(node.total), free.plus(node.free)
    idle = sum(node.used == Resources() for node in usable)
    print_line(
        f"{len(usable)} of {len(nodes)} nodes running, {idle} idle; "
        f"{free.gpus} of {total.gpus} GPUs free"
    )
    away = [node for node in nodes if not node.is_usable]
    if gpus := sum(node.total.gpus for node in away):
        states = Counter(node.state.value for node in away)
        named = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
        print_line(f"{gpus} GPUs are on nodes that do not run or are closed: {named}")


def _row(node: Node) -> tuple[str, ...]:
    free, total = node.available, node.total
    return (
        node.node_id,
        node.rack,
        node.state.value,
        f"{free.gpus} of {total.gpus}" if total.gpus else "-",
        node.gpu_model or "-",
        f"{_gib(free.memory_mib)} of {_gib(total.memory_mib)} GiB",
        f"{free.vcores} of {total.vcores}",
        ", ".join(node.labels) or "-",
    )


def _gib(memory_mib: int) -> str:
    return f"{memory_mib / 1024:.0f}" if memory_mib % 1024 == 0 else f"{memory_mib / 1024:.1f}"


# ---- closed to gangs -----------------------------------------------------------------------------

node_argument = click.argument("node", metavar="NODE")
reason_option = click.option("--reason", default="", help="Shown to those who wait for the node.")


@command.command()
@node_argument
@reason_option
@json_option
@click.pass_context
def cordon(ctx: click.Context, node: str, reason: str, as_json: bool) -> None:
    """Keep gangs off a node; those that run there continue.

    For administrators of the queue root. NODE is its name in `yarnam nodes`. YARN knows nothing of
    it: other applications and ApplicationMasters may still go there.
    """
    with open_client(ctx) as client:
        show_order(maintenance.Maintenance(client.site).cordon(node, reason), as_json=as_json)


@command.command()
@node_argument
@json_option
@click.pass_context
def uncordon(ctx: click.Context, node: str, as_json: bool) -> None:
    """Let gangs use a node again that was cordoned or drained."""
    with open_client(ctx) as client:
        show_order(maintenance.Maintenance(client.site).uncordon(node), as_json=as_json)


@command.command()
@node_argument
@click.option(
    "--deadline",
    required=True,
    metavar="DURATION",
    help="How long the gangs there may still run, such as 30min.",
)
@reason_option
@json_option
@click.pass_context
def drain(ctx: click.Context, node: str, deadline: str, reason: str, as_json: bool) -> None:
    """Cordon a node, and have the gangs on it save and leave by a deadline.

    They stop as before a preemption, with time for a checkpoint, and are acquired again elsewhere
    for free. Jobs that end before the deadline are not disturbed. Nothing else happens to the node.
    """
    limit_s = seconds_of(deadline, "--deadline")
    with open_client(ctx) as client:
        found = maintenance.Maintenance(client.site).drain(node, limit_s, reason)
        show_order(found, as_json=as_json)


@command.command()
@node_argument
@json_option
@click.pass_context
def undrain(ctx: click.Context, node: str, as_json: bool) -> None:
    """Take back a drain. A node that was cordoned before stays cordoned."""
    with open_client(ctx) as client:
        show_order(maintenance.Maintenance(client.site).undrain(node), as_json=as_json)

"""``yarnam policy``: which of a queue's jobs run, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import GroupWithFormer, job_argument, json_option, open_client
from yarnam.cli.rendering.console import print_json, print_line, print_lines, print_note
from yarnam.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

with on_first_use():
    from yarnam.cli.queues import policy_text
    from yarnam.client.planning import policy_runs
    from yarnam.client.queues import cells_now

MOST_DIGITS = 6
"""Digits of a number of nodes."""

NOT_PROTECTED = (
    "whoever reaches the ZooKeeper may change this: its jobs and its administrators are one to it. "
    "To keep it for administrators: yarnam docs policies"
)


@click.group(
    "policy",
    cls=GroupWithFormer,
    former={"what-if": "It is `yarnam policy cells` now, with the same options."},
)
def command() -> None:
    """Choose which of a queue's jobs run first."""


@command.command("ls")
@json_option
@click.pass_context
def list_policies(ctx: click.Context, as_json: bool) -> None:
    """List the policies, and the queues for which one is chosen."""
    with open_client(ctx) as client:
        chosen = client.policies.all()
    if as_json:
        print_json(policy_text.list_as_plain(chosen))
    else:
        print_lines(policy_text.list_lines(chosen))


@command.command()
@click.argument("queue", metavar="QUEUE")
@json_option
@click.pass_context
def show(ctx: click.Context, queue: str, as_json: bool) -> None:
    """Show the policy of a queue, with all its settings.

    QUEUE is a full name, as in root.research.
    """
    with open_client(ctx) as client:
        found = client.policies.of(queue)
    if as_json:
        print_json(policy_text.as_plain(queue, found))
    else:
        print_lines(policy_text.policy_lines(queue, found))


@command.command("set")
@click.argument("queue", metavar="QUEUE")
@click.argument("name", metavar="NAME")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--version",
    type=click.IntRange(min=0),
    help="Only if the queue's policy is still of this version, as `show` prints it.",
)
@json_option
@click.pass_context
def set_policy(
    ctx: click.Context,
    queue: str,
    name: str,
    settings: tuple[str, ...],
    version: int | None,
    as_json: bool,
) -> None:
    """Choose the policy of a queue.

    Settings that are not given have their defaults. Jobs that wait or run go by it from their next
    look on, within seconds; smallest-first is what they do where nothing is chosen. KEY=@FILE takes
    the numbers of a list from a file.
    """
    given = _settings(settings)
    with open_client(ctx) as client:
        choice = client.policies.choose(queue, name, given, version=version)
    if as_json:
        print_json(policy_text.as_plain(queue, choice.now))
    else:
        print_line(f"{queue}: {policy_text.words(choice.now)}, version {choice.now.version}")
        if choice.before.version:
            print_line(f"before: {policy_text.words(choice.before)}")
        if choice.from_past:
            print_line(f"not given: {choice.from_past}")
    if not choice.is_protected:
        print_note(NOT_PROTECTED)


@command.command()
@job_argument
@json_option
@click.pass_context
def explain(ctx: click.Context, job: str, as_json: bool) -> None:
    """Show what the policy of its queue has decided for a job, and why."""
    with open_client(ctx) as client:
        handle = client.job(job)
        status = handle.status()
    if as_json:
        print_json(policy_text.explained_as_plain(status))
    else:
        print_lines(policy_text.explained_lines(status))


@command.command("cells")
@click.argument("queue", metavar="[QUEUE]", default="")
@click.option(
    "--quota",
    "quotas",
    multiple=True,
    metavar="QUEUE=NODES",
    help="Whole nodes of a queue, in place of what YARN guarantees it; repeat for several.",
)
@json_option
@click.pass_context
def cells(ctx: click.Context, queue: str, quotas: tuple[str, ...], as_json: bool) -> None:
    """Show which queues could have the whole nodes of their quota now.

    A quota is what YARN guarantees the queue (minResources, or its capacity), in whole nodes of the
    cluster's usual size. A node is whole for a queue if nobody else uses a GPU of it. What jobs
    hold on which node is taken from their tickets; the rest of what is in use is shown as unknown.
    """
    given = _quotas(quotas)
    with open_client(ctx) as client:
        found = cells_now.cells_now(client.site, given, queue)
    if found.trouble:
        print_note(f"whose the GPUs in use are is not known: {found.trouble}")
    if as_json:
        print_json(policy_text.cells_as_plain(found.cells))
    else:
        print_lines(policy_text.cells_lines(found.cells))


def _quotas(texts: Sequence[str]) -> dict[str, int]:
    given = _pairs(texts, "quota", "queue=nodes")
    for name, nodes in given.items():
        if not nodes.isdecimal() or len(nodes) > MOST_DIGITS:
            text = f"{name}={nodes}"
            raise UsageError(f"{text[:60]!a} is not a quota", hint="Give it as queue=nodes.")
    return {name: int(nodes) for name, nodes in given.items()}


def _settings(texts: Sequence[str]) -> dict[str, str]:
    given = _pairs(texts, "setting", "key=value")
    return {
        key: policy_runs.numbers_of(value[1:]) if value.startswith("@") else value
        for key, value in given.items()
    }


def _pairs(texts: Sequence[str], what: str, form: str) -> dict[str, str]:
    """Each text in two. Raises UsageError."""
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{text[:60]!a} is no {what}", hint=f"Give it as {form}.")
        if name in given:
            raise UsageError(f"the {what} {name[:60]!a} is given twice")
        given[name] = value
    return given

"""``yarnam queues what-if``: the past under another allocation file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.history.history_options import chosen, note_gaps
from yarnam.cli.options import json_option, open_client, picture_option
from yarnam.cli.queues.queues_change_commands import cluster_option
from yarnam.cli.rendering.console import live_console, print_json, print_lines, print_note
from yarnam.client.data.output_file import write_output
from yarnam.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yarnam.core.model.snapshot import Node
    from yarnam.core.queues.allocations import Allocations
    from yarnam.sim.what_if.replay import PastJob

with on_first_use():
    from rich import progress

    from yarnam.adapters.yarn import addresses, allocation_xml
    from yarnam.cli.rendering import what_if_text
    from yarnam.client import site as client_site
    from yarnam.client.planning import snapshot_file
    from yarnam.client.planning.traces import trace_file
    from yarnam.client.queues import lint_file, queue_view
    from yarnam.client.queues import what_if as what_if_runs


@click.command("what-if")
@click.option("--allocation", required=True, metavar="FILE", help="The other allocation file.")
@click.option(
    "--baseline",
    default="",
    metavar="FILE",
    help="Compare with this file. Default: the one that the site's configuration names.",
)
@click.option(
    "--trace",
    default="",
    metavar="FILE",
    help="Take the jobs from a trace: JSON of `yarnam history export -f philly` or of Philly.",
)
@click.option(
    "-u", "--user", default="*", show_default=True, help="From the history: jobs of this user."
)
@click.option(
    "--since",
    metavar="WHEN",
    help="From the history: jobs that ended since then: a date, or an age such as 30d.",
)
@click.option("--until", metavar="WHEN", help="From the history: jobs that ended before then.")
@cluster_option
@click.option(
    "--site",
    default="",
    metavar="DIR",
    help="Take the settings of the ResourceManager from DIR. Default: ask it.",
)
@picture_option
@click.option("--seed", type=int, default=7, show_default=True, help="Random seed.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    allocation: str,
    baseline: str,
    trace: str,
    user: str,
    since: str | None,
    until: str | None,
    cluster: str,
    site: str,
    picture: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Show how the jobs of the past would have fared with another allocation file.

    Simulates the recorded jobs (see `yarnam history`), or those of a trace, with the file that YARN
    reads now and with FILE: the same submissions, sizes and run times, on idle nodes. Prints for
    each queue the waits, the share of the GPU time, GPU hours and how many gangs were preempted.

    Needs no cluster with --trace, --baseline, --cluster and --site.
    """
    after = allocation_xml.load_allocations(allocation)
    inputs = _Inputs(ctx, cluster, site)
    before, before_name = inputs.baseline(baseline)
    nodes, settings = inputs.nodes(), inputs.settings()
    if trace:
        past: Sequence[PastJob] = trace_file.read_trace(
            trace, what_if_runs.half_of_a_gpus_part(nodes)
        )
    else:
        past = inputs.history(user, since, until)
    with _progress(2 * len(past)) as on_end:
        found = what_if_runs.what_if(past, nodes, before, after, settings, seed=seed, on_end=on_end)
    name = Path(allocation).name
    if picture is not None:
        _write(picture, what_if_text.what_if_svg(found, before_name, name))
    if as_json:
        print_json(what_if_text.what_if_plain(found))
    else:
        print_lines(what_if_text.what_if_lines(found, before_name, name))


class _Inputs:
    """The inputs of the simulation: from files where the options name them, else from the
    cluster."""

    def __init__(self, ctx: click.Context, cluster: str, site: str) -> None:
        self._ctx = ctx
        self._cluster = cluster
        self._site = site

    def baseline(self, path: str) -> tuple[Allocations, str]:
        if path:
            return allocation_xml.load_allocations(path), Path(path).name
        with open_client(self._ctx) as client:
            found = queue_view.allocation_file(client.site)
        if not found.exists():
            raise UsageError(
                f"the ResourceManager's allocation file, {found}, is not on this machine",
                hint="Name a copy of it: --baseline FILE",
            )
        return allocation_xml.load_allocations(found), "the file of now"

    def nodes(self) -> Sequence[Node]:
        if self._cluster:
            return snapshot_file.read_snapshot(self._cluster).nodes
        with open_client(self._ctx) as client:
            return client.nodes().nodes

    def settings(self) -> Mapping[str, str]:
        if self._site:
            client_site.check_conf_dir(Path(self._site), "--site")
            return addresses.read_settings(self._site, *lint_file.SITE_FILES)
        with open_client(self._ctx) as client:
            return client.site.rm.settings()

    def history(self, user: str, since: str | None, until: str | None) -> Sequence[PastJob]:
        with open_client(self._ctx) as client:
            listing = client.history.jobs(chosen("", None, "", since, until), user)
            note_gaps(listing)
            jobs = map(what_if_runs.past_job, client.history.records(listing.rows))
            return [job for job in jobs if job is not None]


@contextmanager
def _progress(jobs: int) -> Iterator[Callable[[], None]]:
    """Calls count simulated jobs; a bar on a terminal, on standard error."""
    bar = progress.Progress(
        progress.TextColumn("Simulating"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("jobs"),
        progress.TimeRemainingColumn(),
        console=live_console(on_stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=jobs)
        yield lambda: bar.advance(task)


def _write(path: str, text: str) -> None:
    write_output(path, text)
    print_note(f"Picture written to {path}.")

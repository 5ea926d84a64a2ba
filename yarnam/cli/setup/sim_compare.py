"""``yarnam sim compare``: scheduling policies over one trace of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import former_option, json_option, picture_option
from yarnam.cli.rendering.console import (
    live_console,
    print_json,
    print_line,
    print_lines,
    print_note,
)
from yarnam.client.data.output_file import write_output
from yarnam.core.model.printable import duration

if TYPE_CHECKING:
    from yarnam.client.planning.traces.trace_reading import Trace
    from yarnam.sim.ideal.ideal_report import IdealRow
    from yarnam.sim.ideal.ideal_settings import IdealSettings
    from yarnam.sim.ideal.policy_comparison import PolicyFigures
    from yarnam.sim.ideal.trace_job import TraceJob

with on_first_use():
    from rich import progress

    from yarnam.cli.rendering import sim_text
    from yarnam.client.planning import policy_runs
    from yarnam.client.planning.traces import trace_reading
    from yarnam.core.policies import gpu_nodes
    from yarnam.sim.ideal import ideal_settings, policy_comparison, yarn_trace_run

DEFAULTS = ("smallest-first", "fifo", "fifo-backfill", "srtf", "tiresias")

COUNT = click.IntRange(min=1)


@click.command("compare")
@click.option("--trace", required=True, metavar="FILE", help="The jobs.")
@click.option(
    "--format",
    "kind",
    default="csv",
    show_default=True,
    metavar="NAME",
    help="csv, philly, history, helios, alibaba or swf.",
)
@former_option(
    "--rates", "Convert a trace of Gavel with tools/convert_trace.py, which takes --rates."
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    default=DEFAULTS,
    show_default=True,
    metavar="NAME[:KEY=VALUE,...]",
    help="A policy and its settings; repeat for several. Write lists as 1+2+3 or @FILE.",
)
@click.option(
    "--cluster", default="", metavar="FILE", help="The nodes, by `yarnam nodes --save FILE`."
)
@click.option("--nodes", type=COUNT, default=None, help="Number of nodes that are all alike.")
@click.option("--gpus", type=COUNT, default=8, show_default=True, help="GPUs per node.")
@click.option(
    "--model",
    "models",
    type=click.Choice(["ideal", "yarn"]),
    multiple=True,
    default=("ideal",),
    show_default=True,
    help="The world; yarn: the model of YARN. Repeat for both.",
)
@click.option(
    "--placement",
    type=click.Choice(["count", "first", "pack", "spread"]),
    default="first",
    show_default=True,
    help="How gangs are placed; count: GPUs are only counted.",
)
@click.option(
    "--free-moves",
    is_flag=True,
    help="Gangs that run move to other nodes at no cost, as in Muri's simulator.",
)
@click.option(
    "--ties",
    type=click.Choice(["together", "one-by-one"]),
    default="together",
    show_default=True,
    help="Events of one instant: decide once after all, or after each, as batch simulators do.",
)
@click.option(
    "--overhead",
    type=click.Choice(["none", "restart", "every-event"]),
    default="restart",
    show_default=True,
    help="When a start costs time; every-event: as in Muri's simulator.",
)
@click.option(
    "--pause-cost",
    type=click.FloatRange(0.0, 86400.0),
    default=30.0,
    show_default=True,
    help="Seconds that each start costs a gang before it trains.",
)
@click.option(
    "--pause-costs",
    default="",
    metavar="FILE",
    help="The same by model and GPUs: a CSV with model,gpus,start_s. Others cost --pause-cost.",
)
@click.option(
    "--run-times",
    type=click.Choice(["true", "declared", "nothing"]),
    default="true",
    show_default=True,
    help="What policies know of run times.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Print means and 95 % confidence intervals over this many slightly changed traces.",
)
@click.option("--seed", type=int, default=7, show_default=True, help="The first random seed.")
@picture_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a row for each job and policy: Parquet, or JSON lines if FILE ends in .jsonl.",
)
@json_option
def command(
    trace: str,
    kind: str,
    policies: tuple[str, ...],
    cluster: str,
    nodes: int | None,
    gpus: int,
    models: tuple[str, ...],
    placement: str,
    free_moves: bool,
    ties: str,
    overhead: str,
    pause_cost: float,
    pause_costs: str,
    run_times: str,
    seeds: int,
    seed: int,
    picture: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Compare scheduling policies over a trace of jobs.

    Runs each policy over the same jobs. In the ideal model a gang starts the moment that the policy
    says so. With `--model yarn` each job runs yarnam's gang machine and planner on a model of YARN,
    and suspends, resumes and changes its size by its own row of the policy's schedule; with the
    first seed only. Prints job completion times (JCT, from submission to end), waits, the
    mean bounded slowdown, the time until the last job has ended, and the share of the GPU time that
    was used.

    Needs no cluster.
    """
    if "yarn" in models and (free_moves or pause_costs or ties != "together"):
        raise click.UsageError(
            "--free-moves, --pause-costs and --ties are of the ideal model alone"
        )
    shape = _shape(cluster, nodes, gpus)
    found = trace_reading.fitting(
        trace_reading.read_jobs(trace, kind), sum(each for each, _ in shape)
    )
    _note_left_out(found, sum(each for each, _ in shape))
    settings = ideal_settings.IdealSettings(
        policy="",
        gpus=sum(gpus for gpus, _ in shape),
        settings={},
        nodes=() if placement == "count" else tuple(shape),
        packing=gpu_nodes.Packing(placement if placement != "count" else "first"),
        moves_freely=free_moves,
        overhead=ideal_settings.Overhead(overhead),
        overhead_of=_start_cost(pause_costs, pause_cost),
        instant=ideal_settings.Instant(ties),
        run_times=ideal_settings.RunTimes(run_times),
    )
    runs = [(text, _with_policy(settings, text)) for text in dict.fromkeys(policies)]
    rows: dict[str, list[IdealRow]] = defaultdict(list)
    traces = ("ideal" in models) * (1 + seeds * (seeds > 1)) + ("yarn" in models)
    results: list[PolicyFigures] = []
    with _progress(len(runs) * traces * len(found.jobs)) as (advance, on_time):

        def ended(name: str, row: IdealRow) -> None:
            advance()
            if output is not None:
                rows[name].append(row)

        if "ideal" in models:
            results += policy_comparison.compare(
                found.jobs, runs, range(seed, seed + seeds), ended, on_time
            )
        if "yarn" in models:
            alike = shape if not cluster else ()
            results += _on_yarn(found, runs, alike, seed, pause_cost, ended, on_time)
    title = f"{len(found.jobs):,} jobs of {Path(trace).name} on {sum(e for e, _ in shape):,} GPUs"
    if output is not None:
        print_note(f"Rows written to {output}: {policy_runs.write_rows(output, rows)}.")
    if picture is not None:
        _write(picture, sim_text.policy_svg(results, title))
    if as_json:
        print_json(sim_text.policy_plain(results))
        return
    print_line(title + (f"; mean of {seeds} seeds ± 95 %" if seeds > 1 else ""))
    print_lines(sim_text.policy_lines(results))


def _shape(cluster: str, nodes: int | None, gpus: int) -> Sequence[tuple[int, int]]:
    if cluster:
        if nodes is not None:
            raise click.UsageError("--cluster and --nodes exclude each other")
        return policy_runs.nodes_of_file(cluster)
    if nodes is None:
        raise click.UsageError("name the cluster: --nodes N --gpus G, or --cluster FILE")
    return ((gpus, 0),) * nodes


def _start_cost(path: str, otherwise_s: float) -> Callable[[TraceJob], float]:
    costs = policy_runs.start_costs_of(path) if path else {}
    return lambda job: costs.get((job.model, job.gpus), otherwise_s)


def _with_policy(settings: IdealSettings, text: str) -> IdealSettings:
    name, chosen = policy_runs.named_policy(text)
    if chosen.get("samples") == ():
        print_note(f"{text}: no samples are given, so attained service alone decides.")
    return replace(settings, policy=name, settings=chosen)


def _on_yarn(
    found: Trace,
    runs: Sequence[tuple[str, IdealSettings]],
    shape: Sequence[tuple[int, int]],
    seed: int,
    pause_cost: float,
    on_row: Callable[[str, IdealRow], None],
    on_time: Callable[[float], None],
) -> Iterator[PolicyFigures]:
    if not shape:
        raise click.UsageError("--model yarn needs nodes that are all alike: --nodes N --gpus G")
    rm = yarn_trace_run.rm_of(len(shape), shape[0][0])
    for text, settings in runs:
        name = f"{text}, yarn"
        costs = settings.overhead is not ideal_settings.Overhead.NONE
        yield yarn_trace_run.run_on_yarn(
            found.jobs, rm, settings.policy, settings.settings, seed=seed, name=name,
            on_row=partial(on_row, name), run_times=settings.run_times,
            start_cost_s=pause_cost if costs else 0.0, on_time=on_time,
        )  # fmt: skip


def _note_left_out(found: Trace, gpus: int) -> None:
    for many, why in (
        (found.never_ran, "never ran"),
        (found.without_gpus, "have no GPUs"),
        (found.too_large, f"need more than the cluster's {gpus:,} GPUs"),
    ):
        if many:
            print_note(f"Left out: {many:,} jobs that {why}.")


@contextmanager
def _progress(jobs: int) -> Iterator[tuple[Callable[[], None], Callable[[float], None]]]:
    """Calls for each job that has ended in the simulation and for its virtual time; a bar on a
    terminal, on standard error."""
    bar = progress.Progress(
        progress.TextColumn("Simulating"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("jobs"),
        progress.TextColumn("{task.description}"),
        progress.TimeRemainingColumn(),
        console=live_console(on_stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=jobs)

        def on_time(now_s: float) -> None:
            bar.update(task, description=f"{duration(now_s)} simulated")

        yield lambda: bar.advance(task), on_time


def _write(path: str, text: str) -> None:
    write_output(path, text)
    print_note(f"Picture written to {path}.")

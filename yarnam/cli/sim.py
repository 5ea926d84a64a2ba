"""``yarnam sim``: how jobs would wait on a cluster, in virtual time."""

from __future__ import annotations

from dataclasses import asdict

import click

from yarnam.cli.options import json_option
from yarnam.cli.output import print_json

MODES = ("tickets", "jitter", "hold", "hbox")

SHARE = click.FloatRange(0.0, 1.0)
COUNT = click.IntRange(min=1)
NUMBER = click.IntRange(min=0)
RECOVERING = {"tickets", "jitter"}
"""The others' launchers have no recovery that could be simulated."""


@click.command("sim")
@click.option("--jobs", type=COUNT, default=1000, show_default=True, help="Jobs that arrive.")
@click.option("--nodes", type=COUNT, default=250, show_default=True, help="Nodes.")
@click.option("--gpus", type=COUNT, default=8, show_default=True, help="GPUs of each node.")
@click.option("--rack", type=COUNT, default=25, show_default=True, help="Nodes of a rack.")
@click.option(
    "--load",
    type=click.FloatRange(min=0.01),
    default=2.0,
    show_default=True,
    help="GPU time that arrives, as a multiple of what the cluster has meanwhile.",
)
@click.option(
    "--busy",
    type=SHARE,
    default=0.9,
    show_default=True,
    help="Share of the GPUs that are taken at the start.",
)
@click.option(
    "--declared",
    type=SHARE,
    default=0.5,
    show_default=True,
    help="Share of the jobs that declare how long they run.",
)
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed, the same run.")
@click.option(
    "--mode",
    "modes",
    type=click.Choice(MODES),
    multiple=True,
    default=("tickets", "jitter"),
    show_default=True,
    help="How the jobs contend; may be given again.",
)
@click.option(
    "--lost-nodes",
    type=NUMBER,
    default=0,
    show_default=True,
    help="Nodes that are lost on the way, at random, for ten minutes each.",
)
@click.option(
    "--preemptions",
    type=NUMBER,
    default=0,
    show_default=True,
    help="Nodes on which YARN takes all containers, at random.",
)
@click.option("--compare", is_flag=True, help="All modes, the ask-and-hold launchers' included.")
@json_option
def command(
    jobs: int,
    nodes: int,
    gpus: int,
    rack: int,
    load: float,
    busy: float,
    declared: float,
    seed: int,
    modes: tuple[str, ...],
    lost_nodes: int,
    preemptions: int,
    compare: bool,
    as_json: bool,
) -> int:
    """Simulate many jobs that contend for the GPUs of one cluster.

    Each job runs yarnam's own gang machine and planner on a model of YARN. The sizes and run times
    are like those of a large shared cluster. Every mode is compared with an all-seeing central
    scheduler that knows all run times. 1,000 jobs take about half a minute in each mode.

    Lost nodes and preemptions hit yarnam's modes only: the central scheduler is compared as it is
    without them.
    """
    chosen = MODES if compare else tuple(dict.fromkeys(modes))
    if (lost_nodes or preemptions) and not RECOVERING.issuperset(chosen):
        raise click.UsageError(
            "--lost-nodes and --preemptions go with the modes tickets and jitter only: the others "
            "do not start their jobs again"
        )
    from yarnam.sim import (
        Mode,
        RmSettings,
        SimSettings,
        WorkloadSettings,
        mishaps,
        report,
        shaken,
        simulate,
        table,
        workload,
    )

    rm = RmSettings(nodes=nodes, gpus_per_node=gpus, nodes_per_rack=rack)
    wanted = WorkloadSettings(jobs=jobs, seed=seed, load=load, busy=busy, declared=declared)
    given = workload(wanted, rm)
    central = simulate(given, SimSettings(Mode.CENTRAL, rm=rm))
    again = simulate(shaken(given, seed), SimSettings(Mode.CENTRAL, rm=rm))
    informed = simulate(given, SimSettings(Mode.DECLARED, rm=rm))
    rows = [
        report(central, central),
        report(again, central, "central, shaken"),
        report(informed, central),
    ]
    span_s = given.jobs[-1].submit_s
    hits = mishaps(span_s, rm, seed, lost=lost_nodes, preempted=preemptions)
    for mode in chosen:
        outcome = simulate(given, SimSettings(Mode[mode.upper()], seed=seed, rm=rm, mishaps=hits))
        rows.append(report(outcome, central))
    if as_json:
        print_json([asdict(row) for row in rows])
        return 0
    span_h = span_s / 3600
    click.echo(
        f"{jobs} jobs of {sum(job.gpus for job in given.jobs)} GPUs in all arrive within "
        f"{span_h:.1f} h at {rm.gpus} GPUs, {busy:.0%} of them taken at the start; seed {seed}"
    )
    if hits:
        more = ", ".join(f"{row.name} {row.attempts_per_job - 1:.2f}" for row in rows[3:])
        click.echo(
            f"{lost_nodes} nodes are lost and {preemptions} preempted; "
            f"attempts beyond a job's first: {more}"
        )
    click.echo()
    click.echo(table(rows))
    click.echo()
    click.echo(LEGEND)
    return 0


LEGEND = """\
idle held    GPU time in containers of gangs that are not complete, of all GPU time in containers
wait         from submission until the whole gang stands
job/central  each job's wait divided by its wait under the central scheduler, both at least 60 s
slowdown     each job's bounded slowdown, (wait + run time) / max(run time, 10 s), divided by the
             same job's under the central scheduler: the 99th percentile over the jobs
p99/p99      the 99th percentile of all waits, divided by the central scheduler's
class        mean waits of a class of sizes, divided by the central scheduler's: the worst class
shaken       the central scheduler itself, with run times 1 to 4 s longer: what is chance
declared     a central scheduler that knows declared run times only, as yarnam's jobs do"""

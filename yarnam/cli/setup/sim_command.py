"""``yarnam sim``: simulate how long jobs wait on a cluster."""

from __future__ import annotations

from dataclasses import asdict

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option
from yarnam.cli.rendering.console import print_document, print_json, print_line
from yarnam.cli.setup import sim_compare

with on_first_use():
    from yarnam import sim

MODES = ("tickets", "jitter", "hold", "hbox")

SHARE = click.FloatRange(0.0, 1.0)
COUNT = click.IntRange(min=1)
NUMBER = click.IntRange(min=0)
RECOVERING = {"tickets", "jitter"}
"""The simulated launchers of the other modes have no recovery."""


@click.group("sim", invoke_without_command=True)
@click.option("--jobs", type=COUNT, default=1000, show_default=True, help="Number of jobs.")
@click.option("--nodes", type=COUNT, default=250, show_default=True, help="Number of nodes.")
@click.option("--gpus", type=COUNT, default=8, show_default=True, help="GPUs per node.")
@click.option("--rack", type=COUNT, default=25, show_default=True, help="Nodes per rack.")
@click.option(
    "--load",
    type=click.FloatRange(min=0.01),
    default=2.0,
    show_default=True,
    help="Requested GPU time as a multiple of the cluster's capacity.",
)
@click.option(
    "--busy",
    type=SHARE,
    default=0.9,
    show_default=True,
    help="Fraction of the GPUs in use at the start.",
)
@click.option(
    "--declared",
    type=SHARE,
    default=0.5,
    show_default=True,
    help="Fraction of the jobs that declare their duration.",
)
@click.option("--seed", type=int, default=7, show_default=True, help="Random seed.")
@click.option(
    "--mode",
    "modes",
    type=click.Choice(MODES),
    multiple=True,
    default=("tickets", "jitter"),
    show_default=True,
    help="How jobs compete; repeat for several modes.",
)
@click.option(
    "--lost-nodes",
    type=NUMBER,
    default=0,
    show_default=True,
    help="Lose this many random nodes, for ten minutes each.",
)
@click.option(
    "--preemptions",
    type=NUMBER,
    default=0,
    show_default=True,
    help="Preempt all containers on this many random nodes.",
)
@click.option(
    "--compare", is_flag=True, help="Simulate all modes, including ask-and-hold launchers."
)
@click.option("--trace", default="", metavar="FILE", help="Simulate the jobs of a trace instead.")
@click.option(
    "--format",
    "kind",
    default="csv",
    show_default=True,
    metavar="NAME",
    help="Of the trace; see `yarnam sim compare`.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
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
    trace: str,
    kind: str,
    as_json: bool,
) -> None:
    """Simulate many jobs that compete for the GPUs of one cluster.

    Each job runs yarnam's gang machine and planner on a model of YARN. Job sizes and run times
    resemble those of a large shared cluster. Each mode is compared with a central scheduler that
    knows all run times. 1,000 jobs take about half a minute per mode.

    Lost nodes and preemptions affect only the modes tickets and jitter, not the central scheduler.

    With --trace the jobs of the file are simulated on these nodes, in the model of YARN and beside
    it in an ideal one. To compare scheduling policies over a trace: `yarnam sim compare`.
    """
    if ctx.invoked_subcommand is not None:
        return
    if trace:
        ctx.invoke(
            sim_compare.command, trace=trace, kind=kind, policies=("smallest-first",),
            nodes=nodes, gpus=gpus, models=("ideal", "yarn"), overhead="none", seed=seed,
            as_json=as_json,
        )  # fmt: skip
        return
    chosen = MODES if compare else tuple(dict.fromkeys(modes))
    if (lost_nodes or preemptions) and not RECOVERING.issuperset(chosen):
        raise click.UsageError(
            "--lost-nodes and --preemptions work only with the modes tickets and jitter: the other "
            "modes do not restart jobs"
        )

    rm = sim.RmSettings(nodes=nodes, gpus_per_node=gpus, nodes_per_rack=rack)
    wanted = sim.WorkloadSettings(jobs=jobs, seed=seed, load=load, busy=busy, declared=declared)
    given = sim.workload(wanted, rm)
    central = sim.simulate(given, sim.SimSettings(sim.Mode.CENTRAL, rm=rm))
    again = sim.simulate(sim.perturbed(given, seed), sim.SimSettings(sim.Mode.CENTRAL, rm=rm))
    informed = sim.simulate(given, sim.SimSettings(sim.Mode.DECLARED, rm=rm))
    rows = [
        sim.report(central, central),
        sim.report(again, central, "central, shaken"),
        sim.report(informed, central),
    ]
    span_s = given.jobs[-1].submit_s
    hits = sim.faults(span_s, rm, seed, lost=lost_nodes, preempted=preemptions)
    for mode in chosen:
        outcome = sim.simulate(
            given, sim.SimSettings(sim.Mode[mode.upper()], seed=seed, rm=rm, faults=hits)
        )
        rows.append(sim.report(outcome, central))
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    span_h = span_s / 3600
    print_line(
        f"{jobs} jobs of {sum(job.gpus for job in given.jobs)} GPUs in all arrive within "
        f"{span_h:.1f} h at {rm.gpus} GPUs, {busy:.0%} of them taken at the start; seed {seed}"
    )
    if hits:
        more = ", ".join(f"{row.name} {row.attempts_per_job - 1:.2f}" for row in rows[3:])
        print_line(
            f"{lost_nodes} nodes are lost and {preemptions} preempted; "
            f"attempts beyond a job's first: {more}"
        )
    print_document(f"\n{sim.table(rows)}\n\n{LEGEND}")


command.add_command(sim_compare.command)

LEGEND = """\
idle held    GPU time in containers of gangs that are not complete, of all GPU time in containers
wait         from submission until the whole gang is ready
job/central  each job's wait divided by its wait under the central scheduler, both at least 60 s
slowdown     each job's bounded slowdown, (wait + run time) / max(run time, 10 s), divided by the
             same job's under the central scheduler: the 99th percentile over the jobs
p99/p99      the 99th percentile of all waits, divided by the central scheduler's
class        mean waits of a class of sizes, divided by the central scheduler's: the worst class
shaken       the central scheduler itself, with run times 1 to 4 s longer: what is chance
declared     a central scheduler that knows declared run times only, as yarnam's jobs do"""

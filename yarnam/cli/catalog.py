"""The commands and their one-line help, so that ``yarnam --help`` imports none of them.

A command's module is ``yarnam.cli.<room>.<name>_command``; its click command is ``command``.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """One command: its module and its line in ``--help``."""

    name: str
    module: str
    summary: str


def _section(folder: str, **summaries: str) -> tuple[CommandEntry, ...]:
    return tuple(
        CommandEntry(name, f"yarnam.cli.{folder}.{name.replace('-', '_')}_command", summary)
        for name, summary in summaries.items()
    )


SECTIONS: dict[str, tuple[CommandEntry, ...]] = {
    "Jobs": _section(
        "jobs",
        submit="Submit a job.",
        plan="Show where a job would run and what blocks it.",
        advise="Advise how many GPUs a job should have.",
        status="Show the status of a job.",
    )
    + _section("jobs.live", watch="Follow a job until it ends.", top="Show what running jobs use.")
    + _section(
        "jobs",
        ps="List jobs.",
        logs="Print the output of a job's processes.",
        events="List the events of a job.",
        explain="Show why a job failed.",
        tensorboard="Run TensorBoard over a job's event files on HDFS.",
        ui="Show the cluster, its nodes, queues and jobs in a browser.",
    )
    + _section(  # noqa: S604 - the name of a command
        "control",
        exec="Run a command in a task of a running job.",
        shell="Open a shell in a task of a running job.",
        **{"port-forward": "Forward ports of this machine to a task of a running job."},
        notebook="Work in JupyterLab or VS Code on the cluster.",
        cp="Copy files to and from a task of a running job.",
        debug="Show the Python stacks of a rank's process.",
        scale="Resize an elastic job.",
        suspend="Stop a job at a checkpoint and give back its GPUs.",
        resume="Resume a suspended job.",
        tokens="Replace the Kerberos tokens of a running job.",
        kill="Cancel jobs.",
    ),
    "History": _section(
        "history",
        history="List, show and export jobs that have ended.",
        usage="Add up what the GPUs were used for, or show it over time.",
    ),
    "Data": _section(
        "data",
        data="Transfer, check and shard data on HDFS.",
        blacklist="Manage the list of corrupt input files.",
        ckpt="Manage checkpoints.",
    ),
    "Queues": _section(
        "queues",
        queues="Show, check and change the queues of the Fair Scheduler.",
        policy="Choose which of a queue's jobs run first.",
        alerts="Show what administrators should look at.",
    ),
    "Setup": _section(
        "setup",
        spec="Create and check job specs.",
        **{"import": "Convert a job of another system to a spec."},
        env="Check jobs' environments, and clear those stored on HDFS.",
        nodes="List the nodes, and close them to gangs.",
        cluster="Run a Hadoop cluster on this machine.",
        doctor="Check this machine and the cluster.",
        sim="Simulate jobs that compete for a cluster.",
        docs="Print a page of the documentation.",
    ),
}

ENTRIES = {entry.name: entry for entries in SECTIONS.values() for entry in entries}

"""The commands, with their one-line help, so that ``yarnam --help`` imports none of them.

Each module named here holds its click command as ``command``.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """One command: where it lives and what ``--help`` says of it."""

    name: str
    module: str
    summary: str


SECTIONS: tuple[tuple[str, tuple[CommandEntry, ...]], ...] = (
    (
        "Jobs",
        (
            CommandEntry("submit", "yarnam.cli.submit", "Check a spec, stage its files, start it."),
            CommandEntry(
                "plan", "yarnam.cli.plan", "Show where a job would go, and what is in its way."
            ),
            CommandEntry("status", "yarnam.cli.status", "Show one job as it stands."),
            CommandEntry("watch", "yarnam.cli.watch", "Follow one job until it ends."),
            CommandEntry("ps", "yarnam.cli.ps", "List jobs."),
            CommandEntry("logs", "yarnam.cli.logs", "Show what the job's processes printed."),
            CommandEntry("events", "yarnam.cli.events", "Tell the job's story from its journal."),
            CommandEntry("scale", "yarnam.cli.scale", "Wish for another size of an elastic job."),
            CommandEntry("kill", "yarnam.cli.kill", "Cancel jobs and wait until they are gone."),
        ),
    ),
    (
        "Data",
        (
            CommandEntry("data", "yarnam.cli.data", "Put, get, sync, check and shard data."),
            CommandEntry(
                "blacklist", "yarnam.cli.blacklist", "Show and change what is known to be corrupt."
            ),
            CommandEntry(
                "ckpt", "yarnam.cli.ckpt", "List, check, restore, prune and copy checkpoints."
            ),
        ),
    ),
    (
        "Setting up",
        (
            CommandEntry("spec", "yarnam.cli.spec", "Write, check and document job specs."),
            CommandEntry("nodes", "yarnam.cli.nodes", "List the nodes; save them for planning."),
            CommandEntry("cluster", "yarnam.cli.cluster", "Run a real Hadoop on this machine."),
            CommandEntry("doctor", "yarnam.cli.doctor", "Check this machine and the cluster."),
            CommandEntry("sim", "yarnam.cli.sim", "Simulate jobs that contend for a cluster."),
        ),
    ),
)

ENTRIES: dict[str, CommandEntry] = {
    entry.name: entry for _, entries in SECTIONS for entry in entries
}

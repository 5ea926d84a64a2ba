"""Planning without a cluster, on a saved snapshot."""

from __future__ import annotations

from dataclasses import replace

from yarnam.client.checks import checked_on, full_queue_name
from yarnam.client.outlook import Outlook, outlook
from yarnam.client.site import user_name
from yarnam.client.snapshots import load_snapshot


def outlook_on_file(spec: str, snapshot: str, *, queue: str | None = None) -> Outlook:
    """What would become of the job of this spec file on the cluster in that snapshot file. Inputs,
    shipped files and permissions are not looked at.

    Raises BadSpec, UsageError, NeverFits.
    """
    from yarnam.spec import parse_spec_file

    job = parse_spec_file(spec, user=user_name())
    job = replace(job, queue=full_queue_name(queue or job.queue))
    checked = checked_on(load_snapshot(snapshot, job.queue), job)
    return outlook(checked, "a saved snapshot does not tell which jobs wait and when others end")

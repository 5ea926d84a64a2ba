"""A cluster's nodes and queues in a file, and planning on it without a cluster: ``yarnam nodes
--save``, ``yarnam plan --snapshot``."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import read_at_most
from yarnam._light_imports import on_first_use
from yarnam.client.data.output_file import write_output
from yarnam.client.planning.outlook import Outlook, outlook
from yarnam.client.planning.queue_comparison import QueueOutlook, compare_queues
from yarnam.client.site import user_name
from yarnam.client.submit.preflight import checked_on, full_queue_name
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.errors import BadSpec, UsageError, WireMismatch
from yarnam.wire.codec import MAX_BYTES, decode, to_plain

with on_first_use():
    from yarnam import spec as yarnam_spec

VERSION = 1
_NO_JOBS = "a snapshot does not contain waiting and running jobs"
KIND = "yarnam-snapshot"


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """The content of the file."""

    kind: str
    version: int
    snapshot: ClusterSnapshot


def save_snapshot(snapshot: ClusterSnapshot, path: str) -> None:
    """Replaces a file that is there. Raises UsageError."""
    plain = to_plain(SnapshotFile(KIND, VERSION, snapshot))
    write_output(path, json.dumps(plain, separators=(",", ":")) + "\n")


def load_snapshot(path: str, queue: str) -> ClusterSnapshot:
    """The snapshot, with this queue in view. Raises UsageError, BadSpec (no such queue)."""
    return of_queue(read_snapshot(path), queue)


def read_snapshot(path: str) -> ClusterSnapshot:
    """The snapshot as it was saved. Raises UsageError."""
    try:
        with Path(path).open("rb") as file:
            found = decode(read_at_most(file, MAX_BYTES), SnapshotFile)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (MalformedData, WireMismatch) as error:
        raise UsageError(
            f"{path} is not a cluster snapshot", hint="To create one: yarnam nodes --save FILE"
        ) from error
    if found.kind != KIND or found.version != VERSION:
        raise UsageError(f"{path} is a snapshot of another version of yarnam")
    return found.snapshot


def of_queue(snapshot: ClusterSnapshot, queue: str) -> ClusterSnapshot:
    """The same cluster as a job of this queue sees it. Raises BadSpec."""
    name = full_queue_name(queue)
    view = next((one for one in snapshot.queues if one.name == name), None)
    if view is None:
        names = sorted(one.name for one in snapshot.queues)
        close = difflib.get_close_matches(name, names, n=1)
        raise BadSpec(
            f"queue {name} does not exist in this snapshot",
            hint=(f"Did you mean {close[0]}? " if close else "") + f"Queues: {', '.join(names)}",
        )
    return replace(snapshot, queue=view, max_container=view.max_container)


def compare_queues_on_file(
    spec: str, snapshot: str, *, queue: str | None = None
) -> tuple[QueueOutlook, ...]:
    """The same job in each queue of the snapshot. Raises as ``outlook_on_file``."""
    return compare_queues(outlook_on_file(spec, snapshot, queue=queue), _NO_JOBS)


def outlook_on_file(spec: str, snapshot: str, *, queue: str | None = None) -> Outlook:
    """The outlook of the job in this spec file on the cluster in this snapshot file. Does not look
    at inputs, shipped files or permissions. Raises BadSpec, UsageError, NeverFits."""
    job = yarnam_spec.parse_spec_file(spec, user=user_name())
    job = replace(job, queue=full_queue_name(queue or job.queue))
    checked = checked_on(load_snapshot(snapshot, job.queue), job)
    return outlook(checked, _NO_JOBS)

"""One look for alerts, and the file in which an administrator keeps what the last one left."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hdfs_utils.concurrency.process_locks import try_lock
from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import read_at_most
from yarnam.client.data.output_file import write_output
from yarnam.client.queues.queue_view import queues_now
from yarnam.client.site import Site
from yarnam.client.submit.waiting_jobs import read_strikes
from yarnam.core.model.snapshot import NodeStrike
from yarnam.core.queues.overview.alerts import (
    NO_ALERTS,
    AlertState,
    AlertStep,
    observe,
    step_alerts,
)
from yarnam.errors import Unavailable, UsageError, WireMismatch, YarnamError
from yarnam.wire.codec import decode, to_plain

KIND, VERSION = "yarnam-alerts", 1
MAX_BYTES = 8 << 20
"""The largest file that is read: a thousand alerts and two thousand strikes with their texts are
some 2 MB."""


@dataclass(frozen=True, slots=True)
class AlertFile:
    """The content of the file. ``cluster``: the URI of its file system."""

    kind: str
    version: int
    cluster: str
    state: AlertState


@dataclass(frozen=True, slots=True)
class AlertCheck:
    """What one look found, and which parts it could not read."""

    step: AlertStep
    missing: tuple[str, ...] = ()


def check_alerts(site: Site, previous: AlertState) -> AlertCheck:
    """Check the cluster once. Raises Unavailable if the ResourceManager does not answer."""
    now = queues_now(site)
    missing = list(now.troubles)
    strikes: tuple[NodeStrike, ...] | None = None
    try:
        strikes = read_strikes(site)
    except YarnamError as error:
        missing.append(f"strikes against nodes are not known: {error.message}")
    return AlertCheck(step_alerts(previous, observe(now, strikes), now.taken_at_s), tuple(missing))


def default_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the state is kept unless a file is named."""
    if home := environ.get("YARNAM_HOME"):
        return Path(home).expanduser().absolute() / "alerts.json"
    base = environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser().absolute() / "yarnam" / "alerts.json"


def read_state(site: Site, path: Path) -> AlertState:
    """The state in this file; that of a first look if there is none. Raises UsageError."""
    try:
        with path.open("rb") as file:
            found = decode(read_at_most(file, MAX_BYTES), AlertFile)
    except FileNotFoundError:
        return NO_ALERTS
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (MalformedData, WireMismatch) as error:
        raise UsageError(
            f"{path} is not a file of alerts", hint="Remove it: all alerts are then said again."
        ) from error
    if (found.kind, found.version) != (KIND, VERSION):
        raise UsageError(
            f"{path} is of another version of yarnam", hint="Name another: --state-file"
        )
    if found.cluster != site.files.uri:
        raise UsageError(
            f"{path} is about the cluster {found.cluster}, not {site.files.uri}",
            hint="Keep a file for each cluster: --state-file FILE",
        )
    return found.state


def write_state(site: Site, path: Path, state: AlertState) -> None:
    """Raises UsageError, DiskFull."""
    plain = to_plain(AlertFile(KIND, VERSION, site.files.uri, state))
    write_output(path, json.dumps(plain, separators=(",", ":")) + "\n")


@contextmanager
def own_state(path: Path) -> Iterator[None]:
    """Keep other looks from this file. Raises Unavailable if one is under way, UsageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_name(f"{path.name}.lock").open("a")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    with file:
        if not try_lock(file.fileno()):
            raise Unavailable(
                f"another `yarnam alerts --once` uses {path}",
                hint="It ends within a minute. Keep a file for each of several: --state-file FILE",
            )
        yield

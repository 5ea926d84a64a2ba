"""What is written down about a cluster, so that any later command can find and end it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from yarnam.cluster.places import ClusterPlaces
from yarnam.cluster.plan import ClusterPlan
from yarnam.cluster.shape import Node, shape_from_mapping
from yarnam.errors import BadConfig

# starting: processes may exist, none can be relied on. ready: `up` has succeeded. failed: `up`
# has failed and cleaned up; logs are there to read. kept: down, with the data of HDFS kept.
Phase = Literal["starting", "ready", "failed", "kept"]
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    plan: ClusterPlan
    phase: Phase


def write(record: ClusterRecord) -> None:
    path = record.plan.places.record
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "format": FORMAT,
        "phase": record.phase,
        **record.plan.to_json(),
    }
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    scratch.replace(path)


def read(places: ClusterPlaces) -> ClusterRecord | None:
    """The record, or None where there is none; an unreadable one is an error, not nothing."""
    try:
        text = places.record.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadConfig(f"{places.record}: {error.strerror or error}") from error
    try:
        document: dict[str, Any] = json.loads(text)
        if document["format"] != FORMAT:
            raise BadConfig(
                f"{places.record} has format {document['format']}, this yarnam knows {FORMAT}",
                hint="Take that cluster down with the yarnam that started it.",
            )
        return _record(document, places)
    except (ValueError, KeyError, TypeError) as error:
        raise BadConfig(
            f"{places.record} is damaged: {error!r}",
            hint=f"yarnam cluster down --name {places.name}",
        ) from error


def _record(document: dict[str, Any], places: ClusterPlaces) -> ClusterRecord:
    nodes = tuple(Node(**{**node, "devices": tuple(node["devices"])}) for node in document["nodes"])
    plan = ClusterPlan(
        cluster_id=str(document["cluster_id"]),
        name=places.name,
        shape=shape_from_mapping(document["shape"]),
        slot=int(document["slot"]),
        ports={str(name): int(port) for name, port in document["ports"].items()},
        nodes=nodes,
        places=places,
        user=str(document["user"]),
        java_home=Path(document["java_home"]),
        jar_folder=Path(document["jar_folder"]),
        hadoop_version=str(document["hadoop_version"]),
    )
    return ClusterRecord(plan, document["phase"])


def read_cluster_id(places: ClusterPlaces) -> str | None:
    """The mark of the cluster's processes, also from a record that is otherwise unreadable."""
    try:
        return str(json.loads(places.record.read_text(encoding="utf-8"))["cluster_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def recorded_slots(base: Path) -> set[int]:
    """Slots of all clusters under ``base``, running or not: a restart needs its own again."""
    slots = set()
    for path in base.glob("*/cluster.json"):
        try:
            slots.add(int(json.loads(path.read_text(encoding="utf-8"))["slot"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return slots

"""Values out of the ResourceManager's JSON. Pure; tolerant of keys that are not there.

What is there and makes no sense raises MalformedData.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import INT64, is_encodable, shown
from yarnam.core.model.resources import NO_LIMIT, Resources

Json = Mapping[str, Any]

UNLIMITED = NO_LIMIT
"""The Fair Scheduler writes Integer.MAX_VALUE or Long.MAX_VALUE for "no limit"."""

GPU_RESOURCE = "yarn.io/gpu"


def resources_of(json: Json | None) -> Resources:
    """From YARN's ResourceInfo; amounts beyond ``UNLIMITED`` are cut to it."""
    if not json:
        return Resources()
    gpus = 0
    for row in rows_of(json, "resourceInformations", "resourceInformation"):
        if row.get("name") == GPU_RESOURCE:
            gpus = whole_of(row, "value")
    return Resources(
        memory_mib=min(whole_of(json, "memory"), UNLIMITED),
        vcores=min(whole_of(json, "vCores"), UNLIMITED),
        gpus=min(gpus, UNLIMITED),
    )


def limit_of(json: Json | None) -> Resources | None:
    """Like ``resources_of``, but None when nothing in it is a limit."""
    if not json:
        return None
    limit = resources_of(json)
    if min(limit.memory_mib, limit.vcores, limit.gpus) >= UNLIMITED:
        return None
    return limit


def own_limit(shown: Resources | None, cluster: Resources | None) -> Resources | None:
    """The Fair Scheduler cuts what it shows to the whole ``cluster`` (FairSchedulerQueueInfo): a
    maximum as large as the cluster does not limit the queue."""
    if shown is None or cluster is None:
        return shown
    own = Resources(
        shown.memory_mib if shown.memory_mib < cluster.memory_mib else UNLIMITED,
        shown.vcores if shown.vcores < cluster.vcores else UNLIMITED,
        shown.gpus if shown.gpus < cluster.gpus else UNLIMITED,
    )
    return None if min(own.memory_mib, own.vcores, own.gpus) >= UNLIMITED else own


def tighter(left: Resources | None, right: Resources | None) -> Resources | None:
    if left is None or right is None:
        return left or right
    return Resources(
        memory_mib=min(left.memory_mib, right.memory_mib),
        vcores=min(left.vcores, right.vcores),
        gpus=min(left.gpus, right.gpus),
    )


def rows_of(json: Json, outer: str, inner: str) -> Iterator[Json]:
    """The objects of ``{outer: {inner: [...]}}``. Some YARN versions write a single one instead of
    a list."""
    value = object_of(json, outer).get(inner)
    for row in value if isinstance(value, list) else [value]:
        if isinstance(row, dict):
            yield row
        elif row is not None:
            raise MalformedData(f"{outer}.{inner} has {shown(row)} where an object belongs")


def object_of(json: Json, key: str) -> Json:
    """An object within another; empty where there is none."""
    value = json.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedData(f"{key} is not an object: {shown(value)}")
    return value


def text_of(json: Json, key: str) -> str:
    """A text; empty where there is none. Some YARN versions write one that looks like a number as a
    number."""
    value = json.get(key)
    if value is None:
        return ""
    if not isinstance(value, (str, int, float)):
        raise MalformedData(f"{key} is not a string: {shown(value)}")
    text = str(value)
    if not is_encodable(text):
        raise MalformedData(f"{key} is not a string: {shown(value)}")
    return text


def whole_of(json: Json, key: str, default: int = 0) -> int:
    """An integer of 64 bits: what is beyond is cut."""
    value = json.get(key)
    if value is None:
        return default
    try:
        return max(-INT64, min(INT64, int(value)))
    except (TypeError, ValueError, OverflowError):
        raise MalformedData(f"{key} is not a number: {shown(value)}") from None


def number_of(json: Json, key: str, default: float = 0.0) -> float:
    """A finite number of at most 64 bits."""
    value = json.get(key)
    if value is None:
        return default
    if type(value) not in (int, float) or abs(value) > INT64 or not isfinite(value):
        raise MalformedData(f"{key} is not a number: {shown(value)}")
    return float(value)

"""What YARN leaves out of a capacity, what it refuses in one, and what older versions do not read.

After ``CapacitySchedulerConfiguration`` of Hadoop 3.1 to 3.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from yarnam.core.queues.amounts import GPU
from yarnam.core.queues.capacity.capacity_file import (
    CAPACITY,
    CapacityQueue,
    Kind,
    Setting,
    read_share,
)
from yarnam.core.queues.capacity.capacity_values import (
    OF_THE_WHOLE_SINCE_3_4,
    REFUSED,
    CapacityInput,
    error,
)
from yarnam.core.queues.lint.lint_values import Finding, site_xml
from yarnam.core.queues.lint.meant_names import meant_name

_RESOURCES = ("memory", "memory-mb", "vcores", GPU)
_UNITS = ("", "p", "n", "u", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi")
"""``UnitsConversionUtil.KNOWN_UNITS``"""
_BY_CASE = {"k": "k", **{unit.lower(): unit for unit in _UNITS if unit[:1] in tuple("KMGTP")}}
"""The units, by a name in lower case: they are written in another case, or with a B behind."""
_SHORT = {"mem": "memory", "cpu": "vcores", "cores": "vcores", "gpu": GPU}
_MEMORY = re.compile(r"[\[,]\s*memory(-mb)?\s*=[^,]*[1-9]")
_LABELS = "accessible-node-labels."
_CAPACITIES = ("capacity", "maximum-capacity")
_SINCE = {
    **dict.fromkeys(OF_THE_WHOLE_SINCE_3_4, (3, 4)),
    "mapping-rule-format": (3, 4),
    "mapping-rule-json": (3, 4),
    "mapping-rule-json-file": (3, 4),
    "legacy-queue-mode.enabled": (3, 4),
    "multi-node-placement-enabled": (3, 2),
    "max-parallel-apps": (3, 3),
}
"""Settings of the scheduler as a whole, by the first version that reads them: the constants of
CapacitySchedulerConfiguration in 3.1.4, 3.2.4, 3.3.6 and 3.4.1."""
_QUEUE_SINCE = {
    "auto-queue-creation-v2.": (3, 4),
    "auto-create-child-queue.": (3, 1),
    "leaf-queue-template.": (3, 1),
    "multi-node-sorting.": (3, 2),
    "max-parallel-apps": (3, 3),
}
"""Beginnings of settings of queues."""
_KIND_SINCE = {Kind.WEIGHT: (3, 4), Kind.ABSOLUTE: (3, 1)}


def _capacities(queue: CapacityQueue) -> Iterator[tuple[str, Setting]]:
    """Also those of labels; without those that YARN makes queues from."""
    for key, setting in queue.settings.items():
        is_label = key.startswith(_LABELS) and key.endswith(tuple(f".{one}" for one in _CAPACITIES))
        if (key in _CAPACITIES or is_label) and setting.value:
            yield key, setting


def amount_left_out(given: CapacityInput) -> Iterator[Finding]:
    """internalGetLabeledResourceRequirementForQueue, updateResourceValuesFromConfig"""
    for queue in given.queues():
        for key, setting in _capacities(queue):
            if not setting.value.startswith("[") or not setting.value.endswith("]"):
                continue
            mended = mended_amounts(given, setting.value)
            for pair in setting.value[1:-1].split(","):
                message, why, _ = _judged(given, pair)
                if message:
                    yield error(
                        setting.line,
                        f"the {key} of {queue.path} {message}",
                        why,
                        site_xml(setting.name, mended) if mended else "",
                    )
            if not _MEMORY.search(setting.value):
                what = "there is no maximum" if "maximum" in key else "the capacity is 0"
                yield error(
                    setting.line,
                    f"the {key} of {queue.path} has no memory: {setting.value}",
                    f"without memory the other amounts do not count either: {what}",
                    site_xml(setting.name, mended) if _MEMORY.search(mended) else "",
                )


def mended_amounts(given: CapacityInput, text: str) -> str:
    """Writes the amounts in brackets so that YARN reads each; empty where one cannot be mended."""
    pairs = [_judged(given, pair)[2] for pair in text[1:-1].split(",") if pair.strip()]
    return f"[{','.join(pairs)}]" if all(pairs) else ""


def _judged(given: CapacityInput, pair: str) -> tuple[str, str, str]:
    """Judges one amount: the fault and its reason, both empty where it has none, and the amount
    as it should be, empty where nobody knows."""
    name, _, rest = (one.strip() for one in pair.partition("="))
    value = pair.partition("=")[2].partition("=")[0]
    units = _units(value.strip())
    types = [one.strip() for one in given.setting("yarn.resource-types").split(",")]
    meant = name if name in (*_RESOURCES, *types) else meant_name(name, _RESOURCES, _SHORT)
    good_units = units if units in _UNITS else _BY_CASE.get(units.lower().removesuffix("b"), "")
    number = value.strip().removesuffix(units).strip()
    is_number = re.fullmatch(r"[+-]?\d{1,18}", number) is not None
    is_known_unit = units in _UNITS or (units == "w" and not given.is_legacy)
    good = ""
    if meant and is_number and (is_known_unit or good_units):
        good = f"{meant}={number}{units if is_known_unit else good_units}"
    if not pair.strip() or value.endswith("%"):
        return "", "", pair.strip()
    if meant != name:
        why = "YARN leaves out what it does not know, unless yarn.resource-types has it"
        return f"names the resource {name!r}", why, good
    if not rest or not is_known_unit:
        names = ", ".join(unit for unit in _UNITS if unit)
        why = f"YARN leaves out an amount whose unit it does not know; the units are {names}"
        return f"has {pair.strip()!r}", why, good
    if not is_number or number != value.removesuffix(units):
        why = f"an amount is a whole number, without spaces. {REFUSED}"
        return f"has {pair.strip()!r}", why, good
    return "", "", pair.strip()


def _units(value: str) -> str:
    """CapacitySchedulerConfiguration.getUnits: the letters at the end."""
    for number, letter in enumerate(value):
        if letter.isalpha() and value[number:].isalpha():
            return value[number:]
    return ""


def label_capacity_out_of_range(given: CapacityInput) -> Iterator[Finding]:
    """internalGetLabeledQueueCapacity, getLabeledQueueWeight"""
    for queue in given.queues():
        for key, setting in _capacities(queue):
            if not key.startswith(_LABELS):
                continue
            try:
                share = read_share(setting.value)
            except ValueError:
                yield error(setting.line, f"{setting.name} cannot be {setting.value!r}", REFUSED)
                continue
            most = 10_000 if share.kind is Kind.WEIGHT else 100
            if share.kind is not Kind.ABSOLUTE and not 0 <= share.number <= most:
                yield error(
                    setting.line,
                    f"{setting.name} is {share.number:g}: 0 to {most} is possible",
                    REFUSED
                    if queue.path != "root"
                    else "root has 100 of each label: Hadoop 3.4 reads that, whatever is written",
                    site_xml(setting.name, "100") if queue.path == "root" else "",
                )


def newer_than_hadoop(given: CapacityInput) -> Iterator[Finding]:
    """Older versions ignore some settings, and refuse some capacities."""
    for key, since in _SINCE.items():
        setting = given.config.settings.get(f"{CAPACITY}.{key}")
        if setting is not None and given.hadoop < since:
            yield _newer(given, setting, f"{key} of the scheduler as a whole is", since)
    for queue in given.queues():
        for key, setting in queue.settings.items():
            for begin, since in _QUEUE_SINCE.items():
                if key.startswith(begin) and given.hadoop < since:
                    yield _newer(given, setting, f"{setting.name} is", since)
        for _, setting in _capacities(queue):
            try:
                kind = read_share(setting.value).kind
            except ValueError:
                continue
            since = _KIND_SINCE.get(kind, (0, 0))
            if given.hadoop < since:
                yield error(
                    setting.line,
                    f"{setting.name} is in {kind.value}, which Hadoop "
                    f"{_version(given.hadoop)} does not read",
                    f"they came with {_version(since)}. {REFUSED}",
                )


def _newer(given: CapacityInput, setting: Setting, what: str, since: tuple[int, int]) -> Finding:
    key = setting.name[len(CAPACITY) + 1 :]
    return error(
        setting.line,
        f"{what} not known to Hadoop {_version(given.hadoop)}",
        f"it came with {_version(since)}; before, it is ignored"
        + (": write it for each queue" if key in OF_THE_WHOLE_SINCE_3_4 else ""),
    )


def _version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


RULES = (amount_left_out, label_capacity_out_of_range, newer_than_hadoop)

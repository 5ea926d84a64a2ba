"""The settings of a policy: what each means, its unit, its range, and what it is by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite

from yarnam.errors import UsageError

Settings = Mapping[str, tuple[float, ...]]
"""Each setting as numbers; most have one."""

MAX_NUMBERS = 100_000
"""In one list: samples of past jobs."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a policy. ``least`` and ``most`` bound each number."""

    name: str
    default: tuple[float, ...]
    least: float
    most: float
    meaning: str
    unit: str = ""
    is_list: bool = False
    is_ascending: bool = False
    """Each number of a list is larger than the one before it."""
    is_from_past: bool = False
    """If it is not given, its value comes from the history of the queue's jobs when the policy is
    chosen."""

    @property
    def shown(self) -> str:
        """The default in the form in which a user writes it."""
        return ",".join(f"{number:g}" for number in self.default)


LEAST_RUN = Setting(
    "least_run",
    (300.0,),
    0.0,
    7 * 86400.0,
    "Run a job for at least this long before suspending it.",
    "s",
)
LEAST_PAUSE = Setting(
    "least_pause",
    (60.0,),
    0.0,
    86400.0,
    "Pause a job for at least this long before starting it again.",
    "s",
)


def read_settings(policy: str, known: tuple[Setting, ...], given: Mapping[str, str]) -> Settings:
    """The settings that a user wrote as ``key=value``, with the defaults of the others. A list is
    written with commas. Raises UsageError."""
    by_name = {setting.name: setting for setting in known}
    found: dict[str, tuple[float, ...]] = {one.name: one.default for one in known}
    for name, text in given.items():
        setting = by_name.get(name)
        if setting is None:
            close = get_close_matches(name, by_name, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            hint += f"Settings: {', '.join(by_name) or 'none'}"
            raise UsageError(f"the policy {policy} has no setting {name!a}", hint=hint)
        found[name] = _numbers(policy, setting, text)
    return found


def _numbers(policy: str, setting: Setting, text: str) -> tuple[float, ...]:
    parts = text.split(",") if setting.is_list else [text]
    if len(parts) > MAX_NUMBERS:
        raise UsageError(f"{policy}: {setting.name} has more than {MAX_NUMBERS} numbers")
    if setting.is_list:
        parts = [part for part in parts if part.strip()]
    numbers = tuple(_number(policy, setting, part) for part in parts)
    if setting.is_ascending and list(numbers) != sorted(set(numbers)):
        raise UsageError(
            f"{policy}: {setting.name} is {text[:60]!a}: each number must be larger than the one "
            "before it"
        )
    return numbers


def _number(policy: str, setting: Setting, text: str) -> float:
    unit = f" {setting.unit}" if setting.unit else ""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number) or not setting.least <= number <= setting.most:
        raise UsageError(
            f"{policy}: {setting.name} is {text.strip()[:40]!a}",
            hint=f"Give a number from {setting.least:g} to {setting.most:g}{unit}: "
            f"{setting.meaning}",
        )
    return number

"""TonY's rules of roles: which end with the others, which may fail, which start after others.

As in ``TonySession`` and ``ApplicationMaster`` of TonY 0.5: a job waits for all tasks of the roles
that it tracks. It fails with a task of its chief (the role ``chief``, else the first worker), with
a task of a role that stops it, or when all tracked tasks have failed.
"""

from __future__ import annotations

import re
from typing import Any

from yarnam.core.model.ids import CHIEF_ROLE
from yarnam.spec.importers.conversion import Source

Roles = dict[str, dict[str, Any]]

APPLICATION = "tony.application."
DEPENDENCY = re.compile(r"tony\.application\.dependency\.([A-Za-z]+)\.timeout\.after\.([A-Za-z]+)")
SOFT = f"{APPLICATION}fail-on-worker-failure-enabled"
WAIT_FOR_ALL = {"wait": "all", "succeed": "chief"}


def set_rules(source: Source, roles: Roles) -> None:
    """Give each role its ``service``, ``optional``, ``completion`` and ``after``."""
    untracked = _named(source, f"{APPLICATION}untracked.jobtypes", "ps")
    sidecar = _named(source, f"{APPLICATION}sidecar.jobtypes", "tensorboard")
    strict = _named(source, f"{APPLICATION}stop-on-failure-jobtypes", "ps")
    is_soft = str(source.take(SOFT, "false")).strip().lower() != "true"
    tracked = [name for name in roles if name not in untracked | sidecar]
    for name, role in roles.items():
        if name in untracked | sidecar and tracked:
            role["service"] = True
            if name in sidecar:
                role["optional"] = True
        elif name == "ps" and len(roles) > 1:
            role["service"] = False
    if is_soft:
        _let_pass(source, {name: roles[name] for name in tracked}, strict)
    _set_order(source, roles, tracked)
    _end_dependents(source, roles, tracked, strict)


def _let_pass(source: Source, tracked: Roles, strict: set[str]) -> None:
    leader = CHIEF_ROLE if CHIEF_ROLE in tracked else "worker" if "worker" in tracked else ""
    for name, role in tracked.items():
        if name in strict or name == CHIEF_ROLE:
            continue
        if not leader:
            _let_some_pass(source, tracked, name, role)
        elif name == leader:
            if role["tasks"] > 1:
                role["completion"] = WAIT_FOR_ALL
                source.note(SOFT, f"as in TonY, only the first {name} must succeed")
        elif leader == CHIEF_ROLE:
            role["completion"] = WAIT_FOR_ALL
            source.note(SOFT, f"as in TonY, a failed {name} passes; all are waited for")
        else:
            role["optional"] = True
            source.note(SOFT, f"as in TonY, a failed {name} passes: remove `optional` to change it")


def _let_some_pass(source: Source, tracked: Roles, name: str, role: dict[str, Any]) -> None:
    """Without a chief, TonY fails a job only when all tasks of all tracked roles have failed."""
    if role["tasks"] > 1:
        role["completion"] = {"wait": "all", "succeed": "any"}
        source.note(SOFT, f"one {name} must succeed; in TonY one task of any role")
    elif len(tracked) > 1:
        source.note(SOFT, f"{name} must succeed; in TonY one task of any role")


def _set_order(source: Source, roles: Roles, tracked: list[str]) -> None:
    """Stages, and ``depends-on``: a role starts when others have ended."""
    prepare_key, training_key = f"{APPLICATION}prepare-stage", f"{APPLICATION}training-stage"
    prepare, training = _named(source, prepare_key, ""), _named(source, training_key, "")
    # TonY completes the other stage where only one is given.
    if prepare or training:
        prepare, training = prepare or set(roles) - training, training or set(roles) - prepare
    for name in roles:
        key = f"tony.{name}.depends-on"
        is_set = bool(str(source.values.get(key, "")).strip())
        first = _named(source, key, "")
        if name in training and not is_set:
            key, first = training_key, prepare - {name}
        waits_for = [other for other in tracked if other in first and other != name]
        if waits_for:
            after = [{"role": other, "until": "ended"} for other in waits_for]
            roles[name]["after"] = after[0] if len(after) == 1 else after
            source.note(key, f"{name} starts when the others have ended, and is held meanwhile")
        if others := sorted((first & set(roles)) - {*waits_for, name}):
            names = ", ".join(others)
            source.note(key, f"{name} does not wait for {names}, which ends with the others")


def _end_dependents(source: Source, roles: Roles, tracked: list[str], strict: set[str]) -> None:
    """``dependency.R.timeout.after.G``: TonY limits how long R runs when the roles of G have
    ended."""
    for key in [key for key in source.values if DEPENDENCY.fullmatch(key)]:
        found = DEPENDENCY.fullmatch(key)
        assert found is not None
        name, group = found[1], found[2]
        ignored = str(source.take(f"{key}.ignored", "false")).strip().lower() == "true"
        members = _named_in(source.values.get(f"{APPLICATION}group.{group}", ""))
        seconds = source.values[key]
        others = {other for other in tracked if other != name}
        if name not in roles or not members & set(roles):
            source.drop(key, "the job has no such roles")
        elif not ignored:
            source.drop(
                key,
                f"TonY fails the job where {name} still runs {seconds} s after {group} has ended; "
                "yarnam waits for it, unless it hangs",
            )
        elif name in strict and others:
            roles[name] |= {"service": True}
            source.drop(key, f"{name} is stopped when the others end; TonY waits {seconds} s")
        elif CHIEF_ROLE in members and CHIEF_ROLE in roles and name != CHIEF_ROLE:
            roles[name]["completion"] = "chief"
            source.drop(key, f"{name} is stopped when the chief has ended; TonY waits {seconds} s")
        elif others and others <= members:
            roles[name].pop("completion", None)
            roles[name] |= {"service": True, "optional": True}
            source.drop(key, f"{name} is stopped when {group} has ended; TonY waits {seconds} s")
        else:
            source.drop(
                key,
                f"TonY waits for {name} only {seconds} s after {group} has ended; yarnam waits for "
                "its end",
            )


def _named(source: Source, key: str, default: str) -> set[str]:
    return _named_in(source.take(key, default))


def _named_in(text: Any) -> set[str]:
    return {one.strip() for one in str(text).split(",") if one.strip()}

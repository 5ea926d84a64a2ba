"""Who else uses this machine: what a cluster open to all its users must not be started beside.

The daemons trust any name that a local connection gives them, and containers run as the user who
started the cluster: whoever can connect to this machine's loopback can run programs as that user.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from yarnam.errors import BadConfig

VARIABLE = "YARNAM_SHARED_MACHINE"
"""Set to anything: start the cluster all the same, where no option can be given."""

OPEN_TO_ALL = (
    "while the cluster is up, every user of this machine can run programs as you through it"
)

OPEN_WITH_KERBEROS = (
    "HDFS and YARN want a Kerberos ticket, which only you and your processes have; but while the "
    "cluster is up, every user of this machine can write to its ZooKeeper, and so change the order "
    "of the jobs that wait"
)

PERSONS = range(1000, 60001)
"""UID_MIN to UID_MAX of login.defs(5), where the machine does not say otherwise."""

_NO_LOGIN = frozenset({"nologin", "false"})
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    shell: str


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The machine's users, keyed by their numbers."""

    mine: frozenset[int]
    """This process's user, and the one who logged in to become it (sudo, su)."""
    with_processes: frozenset[int] = frozenset()
    with_sessions: frozenset[int] = frozenset()
    """As systemd-logind knows them: also where /proc hides the processes of others."""
    accounts: Mapping[int, Account] = field(default_factory=dict)
    persons: range = PERSONS


def other_people(facts: MachineFacts) -> tuple[str, ...]:
    """Names of the other users who run something here or are logged in: those with a number of a
    person's and an account that can log in. Services and the users of containers are none."""
    others = (facts.with_processes | facts.with_sessions) - facts.mine
    accounts = (facts.accounts.get(uid) for uid in others if uid in facts.persons)
    people = (account for account in accounts if account is not None)
    return tuple(
        sorted(each.name for each in people if each.shell.rpartition("/")[2] not in _NO_LOGIN)
    )


def open_to_all(*, secure: bool, has_zookeeper: bool) -> str:
    """What others on this machine can do through the cluster; empty means nothing is known."""
    if not secure:
        return OPEN_TO_ALL
    return OPEN_WITH_KERBEROS if has_zookeeper else ""


def refuse_shared_machine(facts: MachineFacts, exposure: str = OPEN_TO_ALL) -> None:
    """Raises BadConfig where other people use the machine, and something is open to them."""
    if danger := danger_from_others(facts, exposure):
        raise BadConfig(
            danger,
            hint=(
                "Use a machine or a container of your own. To start it all the same, give "
                f"--shared-machine, or set {VARIABLE}=yes."
            ),
        )


def danger_from_others(facts: MachineFacts, exposure: str) -> str:
    """Who else uses the machine, and what is open to them; empty if nobody does, or nothing is."""
    people = other_people(facts) if exposure else ()
    more = f" and {len(people) - _SHOWN} more" if len(people) > _SHOWN else ""
    names = f"{', '.join(people[:_SHOWN])}{more}"
    return f"other people use this machine ({names}): {exposure}" if people else ""


def read_machine(
    proc: Path = Path("/proc"),
    sessions: Path = Path("/run/user"),
    login_defs: Path = Path("/etc/login.defs"),
) -> MachineFacts:
    """The users of this machine; an unknown one counts as nobody. Takes some milliseconds."""
    running = frozenset(_owners(proc))
    logged_in = frozenset(int(path.name) for path in _numbered(sessions))
    mine = frozenset({os.getuid(), *_login_user(proc)})
    accounts = {uid: found for uid in running | logged_in if (found := _account(uid))}
    return MachineFacts(mine, running, logged_in, accounts, _persons(login_defs))


def _owners(proc: Path) -> Iterator[int]:
    for process in _numbered(proc):
        try:
            yield process.stat().st_uid
        except OSError:
            continue  # it has ended


def _numbered(directory: Path) -> list[Path]:
    try:
        return [path for path in directory.iterdir() if path.name.isdecimal()]
    except OSError:
        return []


def _login_user(proc: Path) -> Iterator[int]:
    """Who logged in, whoever they have become since; nobody knows for a service or a container."""
    try:
        uid = int((proc / "self" / "loginuid").read_text())
    except (OSError, ValueError):
        return
    if uid != 2**32 - 1:
        yield uid


def _account(uid: int) -> Account | None:
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return None
    return Account(found.pw_name, found.pw_shell)


def _persons(login_defs: Path) -> range:
    try:
        text = login_defs.read_text(errors="replace")
    except OSError:
        return PERSONS
    said = dict(re.findall(r"^\s*(UID_MIN|UID_MAX)\s+(\d{1,10})\s*$", text, re.MULTILINE))
    return range(
        int(said.get("UID_MIN", PERSONS.start)), int(said.get("UID_MAX", PERSONS.stop - 1)) + 1
    )

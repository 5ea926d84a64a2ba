"""The policies that administrators have chosen for queues, in ZooKeeper.

::

    <root>/policies/<queue>      one ``chosen_policy.QueuePolicy``; its name is percent-encoded

A change names the version that it is a change of, so that of two administrators the later one is
refused, not the earlier one overwritten. With an administrator's credentials the nodes are theirs
alone and everybody may read them; without, whoever reaches the ZooKeeper may write there, as with
all else of yarnam's. So a reader takes it for no more than a text, within its limits of size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import quote, unquote

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.security import ACL, READ_ACL_UNSAFE, make_digest_acl

from yarnam.adapters.zookeeper.session import DIGEST, Entry, ZooKeeper
from yarnam.core.policies.chosen_policy import NOTHING_CHOSEN, QueuePolicy
from yarnam.errors import BadConfig, Unavailable, UsageError, WireMismatch
from yarnam.wire.codec import decode, encode

POLICIES = "policies"

MAX_BYTES = 256 << 10
"""Largest node that is read. The largest setting is samples of past jobs: some 25,000 numbers."""

MOST_QUEUES = 1_000
"""Queues that are listed."""

LATEST_S = 2.0**32
"""A time that is later, as seconds since the epoch, is none."""

MAX_NAME = 300
"""Characters of a queue's name, encoded."""


class QueuePolicies:
    """Not thread-safe. All calls take at most 10 s and raise Unavailable while ZooKeeper does not
    answer."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zk = zookeeper
        self._known: dict[str, tuple[int, QueuePolicy]] = {}

    def of(self, queue: str, changed: Callable[[object], None] | None = None) -> QueuePolicy:
        """The policy chosen for the queue, read again only after a change. ``changed`` is called
        once, in kazoo's thread, at the next change."""
        path = self._path(queue)
        [stat] = self._zk.together([self._zk.checking(path, changed)], "looking at the policy")
        if stat is None:
            return NOTHING_CHOSEN
        if stat.dataLength > MAX_BYTES:
            trouble = f"it has {stat.dataLength} bytes, and {MAX_BYTES} are read"
            return QueuePolicy("", version=stat.mzxid, trouble=trouble)
        known = self._known.get(queue)
        if known is not None and known[0] == stat.mzxid:
            return known[1]
        [entry] = self._zk.read(path)
        if entry is None:
            return NOTHING_CHOSEN
        found = decoded(entry)
        self._known[queue] = entry.changed, found
        return found

    def all(self) -> Mapping[str, QueuePolicy]:
        """The chosen policies, keyed by the queue's name."""
        folder = self._zk.path(POLICIES)
        [stat] = self._zk.together([self._zk.checking(folder)], f"looking at {folder}")
        if stat is None:
            return {}
        if stat.numChildren > MOST_QUEUES:
            raise Unavailable(
                f"ZooKeeper: {folder} has {stat.numChildren} nodes, more than {MOST_QUEUES}",
                hint="An administrator removes those that no queue needs: yarnam docs zookeeper",
            )
        names = sorted(unquote(name) for name in self._zk.children(folder))
        return {name: self.of(name) for name in names if len(quote(name, safe="")) <= MAX_NAME}

    def choose(
        self, queue: str, chosen: QueuePolicy, *, expected: int, admin: str = ""
    ) -> QueuePolicy:
        """Keeps the choice in place of the one of the version ``expected`` (0: none is kept).
        ``admin``: ``digest:user:password``; the node is made theirs. Raises UsageError: it is of
        another version by now, or does not fit."""
        data = encode(replace(chosen, version=0, trouble=""))
        if len(data) > MAX_BYTES:
            raise UsageError(
                f"the settings take {len(data)} bytes, and at most {MAX_BYTES} are kept",
                hint="Give fewer numbers: some thousand samples say as much.",
            )
        path, acl = self._path(queue), admin_acl(self._zk, admin)
        [entry] = self._zk.read(path)
        if (entry.changed if entry is not None else 0) != expected:
            raise self._changed(queue)
        try:
            if entry is None:
                if acl is not None:
                    make_folder(self._zk, POLICIES, acl)
                self._zk.create(path, data, acl=acl)
            else:
                self._zk.set(path, data, entry.version)
        except (NodeExistsError, NoNodeError, BadVersionError) as error:
            raise self._changed(queue) from error
        return self.of(queue)

    def is_protected(self, queue: str) -> bool:
        """Whether not everybody who reaches the ZooKeeper may write there."""
        acls, _ = self._zk.kazoo.get_acls(self._path(queue))
        return not any(acl.id.scheme == "world" and acl.perms & ~1 for acl in acls)

    # ---- inside ------------------------------------------------------------------------------

    def _path(self, queue: str) -> str:
        name = quote(queue, safe="")
        if not name.strip(".") or len(name) > MAX_NAME:
            raise UsageError(f"{queue[:60]!a} is not a queue name")
        return self._zk.path(POLICIES, name)

    def _changed(self, queue: str) -> UsageError:
        now = self.of(queue)
        who = f" by {now.by}" if now.by else ""
        return UsageError(
            f"the policy of {queue} was changed{who} meanwhile: it is of version {now.version}",
            hint=f"Look at it (yarnam policy show {queue}), and set it again.",
        )


def admin_acl(zookeeper: ZooKeeper, admin: str) -> list[ACL] | None:
    """The rights by ``digest:user:password``, which the session has from now on: all for these
    administrators, reading for everybody. ``None`` means as all of yarnam's nodes. Raises
    BadConfig."""
    if not admin:
        return None
    user, colon, password = admin.removeprefix(DIGEST).partition(":")
    if not admin.startswith(DIGEST) or not colon or not user or not password:
        # Never the value itself: it is a secret.
        raise BadConfig(
            "the administrator's credentials for ZooKeeper are not digest:user:password",
            hint="See yarnam docs policies.",
        )
    zookeeper.kazoo.add_auth("digest", f"{user}:{password}")
    return [make_digest_acl(user, password, all=True), *READ_ACL_UNSAFE]


def make_folder(zookeeper: ZooKeeper, name: str, acl: list[ACL]) -> None:
    """Theirs too: who may remove nodes from the folder could make another in their place. The root
    is everybody's, as ever."""
    for path, rights in ((zookeeper.root, None), (zookeeper.path(name), acl)):
        try:
            zookeeper.create(path, acl=rights)
        except NodeExistsError:
            pass


def decoded(entry: Entry) -> QueuePolicy:
    """What cannot be read is a choice with ``trouble``."""
    try:
        found = decode(entry.data, QueuePolicy, max_bytes=MAX_BYTES)
    except WireMismatch as error:
        return QueuePolicy("", version=entry.changed, trouble=error.message)
    at_s = found.at_s if 0.0 <= found.at_s <= LATEST_S else 0.0
    return replace(found, at_s=at_s, version=entry.changed, trouble="")

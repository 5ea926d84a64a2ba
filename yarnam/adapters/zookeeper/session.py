"""The one place that talks to ZooKeeper: one session, re-established for ever in the background.

Only what it needs to be reached is shared with other programs: everything of yarnam's lies under
one node (``ZooKeeper.root``). Wraps kazoo, which is imported with this module alone: a job without
ZooKeeper never loads it.
"""

from __future__ import annotations

import atexit
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, ZnodeStat
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from hdfs_utils.config import site_authority
from hdfs_utils.errors import HdfsError
from yarnam.adapters.zookeeper import sasl_connection
from yarnam.errors import BadConfig, Unavailable
from yarnam.errors.full_disks import in_words
from yarnam.wire.protocol import ZOOKEEPER_KERBEROS

log = logging.getLogger("yarnam.zookeeper")

SESSION_TIMEOUT_S = 10.0
"""How long a dead or cut-off holder keeps its ephemeral nodes. Servers allow 2 to 20 of their ticks
(tickTime, mostly 2 s): short enough that others pass it over soon, long enough for a busy node."""

CALL_LIMIT_S = 5.0
"""For one call: a healthy ensemble answers within milliseconds."""

RECONNECT_CAP_S = 5.0
"""Longest pause between two tries to connect."""

STOP_LIMIT_S = 2.0
"""For leaving in good order; a session that cannot be closed ends by its timeout."""

DIGEST = "digest:"
TLS = "tls://"
"""Before an address: the connection is encrypted, and the servers' certificates are checked
against the site's authority (``ssl-client.xml``) and those of this machine."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A node as it was read."""

    data: bytes
    version: int
    changed: int
    """Id of the transaction that wrote it (mzxid): differs after every write."""
    session: int
    """The session that owns an ephemeral node; 0 for a persistent one."""
    written_at_s: float = 0.0
    """Seconds since the epoch, by the server's clock."""
    created: int = 0
    """Id of the transaction that made it (czxid): grows from node to node."""


class ZooKeeper:
    """``address``: ``host:port,host:port/root``, behind ``tls://`` where it is to be encrypted.
    ``credentials``: empty, ``digest:user:password`` (nodes made with them are theirs alone), or
    ``kerberos``. Raises BadConfig when either is malformed. Connecting begins with ``start``."""

    def __init__(
        self, address: str, credentials: str = "", *, session_timeout_s: float = SESSION_TIMEOUT_S
    ) -> None:
        is_encrypted = address.startswith(TLS)
        hosts, slash, path = address.removeprefix(TLS).partition("/")
        if not hosts or not slash or not path.strip("/"):
            raise BadConfig(
                f"not an address of ZooKeeper: {address!r}", hint="As in zk1:2181,zk2:2181/yarnam."
            )
        self.hosts = hosts
        self.root = "/" + path.strip("/")
        # kazoo logs each try to reconnect; our own lines say it once.
        quiet = logging.getLogger("yarnam.zookeeper.kazoo")
        quiet.setLevel(logging.CRITICAL)
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_s,
            auth_data=_auth(credentials),
            # Of Kerberos each user has an identity of his own, and the nodes are everybody's.
            default_acl=CREATOR_ALL_ACL if credentials.startswith(DIGEST) else OPEN_ACL_UNSAFE,
            use_ssl=is_encrypted,
            check_hostname=is_encrypted,
            ca=_authority_file() if is_encrypted else None,
            logger=quiet,
            connection_retry={
                "max_tries": -1,
                "delay": 0.2,
                "backoff": 2,
                "max_delay": RECONNECT_CAP_S,
            },
        )
        if credentials.partition(":")[0] == ZOOKEEPER_KERBEROS:
            sasl_connection.by_kerberos(self._client, credentials.partition(":")[2])
        self._listeners: list[Callable[[bool], None]] = []
        self._lock = threading.Lock()
        self._is_started = False
        self._is_closed = False
        self._session = 0

    # ---- the session -------------------------------------------------------------------------

    def start(self, listener: Callable[[bool], None]) -> None:
        """Begin to connect, once; returns immediately. ``told(is_new)`` is called after every
        change of the connection: ``is_new`` when a session has begun, which has no ephemeral nodes
        yet. It runs in kazoo's thread and must not block or call this object's blocking methods."""
        with self._lock:
            self._listeners.append(listener)
            if self._is_started:
                return
            self._is_started = True
        self._client.add_listener(self._on_state)
        self._client.start_async()

    @property
    def is_connected(self) -> bool:
        return not self._is_closed and bool(self._client.connected)

    @property
    def session(self) -> int:
        """Id of the session; 0 means none."""
        client_id = self._client.client_id
        return int(client_id[0]) if client_id else 0

    @property
    def kazoo(self) -> KazooClient:
        """For kazoo's own recipes."""
        return self._client

    def spawn(self, function: Callable[[], None]) -> None:
        """Run something that may block, in a thread of its own."""
        threading.Thread(target=function, name="zookeeper-aside", daemon=True).start()

    def close(self) -> None:
        """End the session, so that its ephemeral nodes go immediately. Idempotent, at most 2 s."""
        with self._lock:
            if self._is_closed or not self._is_started:
                self._is_closed = True
                return
            self._is_closed = True
        # kazoo waits for its own threads, up to the session's timeout when nobody answers.
        stopper = threading.Thread(target=self._stop, name="zookeeper-stop", daemon=True)
        stopper.start()
        stopper.join(STOP_LIMIT_S)

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:  # noqa: BLE001 - on the way out, whatever kazoo says
            log.debug("leaving ZooKeeper: %s", error)

    def _on_state(self, state: str) -> None:
        is_new = False
        if state == KazooState.CONNECTED:
            session = self.session
            is_new = session != self._session
            self._session = session
            log.info("ZooKeeper at %s: connected%s", self.hosts, ", new session" if is_new else "")
        elif not self._is_closed:
            log.warning("ZooKeeper at %s: the connection is %s", self.hosts, state.lower())
        for listener in self._listeners:
            listener(is_new)

    # ---- calls -------------------------------------------------------------------------------

    def path(self, *names: str) -> str:
        return "/".join([self.root, *names])

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        acl: Sequence[ACL] | None = None,
    ) -> str:
        """The path made, its parents with it. ``acl`` None: the session's own. Raises kazoo's
        NodeExistsError."""
        return str(
            self._wait(
                lambda: self._client.create_async(
                    path, data, acl=acl, ephemeral=ephemeral, sequence=sequence, makepath=True
                ),
                f"making {path}",
            )
        )

    def set(self, path: str, data: bytes, version: int = -1) -> int:
        """The new version. Raises kazoo's NoNodeError, BadVersionError."""
        stat = self._wait(
            lambda: self._client.set_async(path, data, version=version), f"writing {path}"
        )
        return int(stat.version)

    def delete(self, path: str, version: int = -1) -> None:
        """Raises kazoo's NoNodeError, BadVersionError."""
        self._wait(lambda: self._client.delete_async(path, version=version), f"removing {path}")

    def read(self, *paths: str) -> list[Entry | None]:
        """All of them in one round trip, in order; ``None`` means there is no such node."""
        return self.together([self.getting(path) for path in paths], "reading")

    def children(self, path: str) -> list[str]:
        """Names below a path; none where there is no such node."""
        [names] = self.together([self.listing(path)], f"listing {path}")
        return names or []

    def together(self, calls: Sequence[Callable[[], Any]], doing: str) -> list[Any]:
        """The results of several ``getting``, ``checking`` and ``listing`` in one round trip; None
        where there is no such node. ZooKeeper answers them in this order."""
        self._must_be_connected()
        pending = [call() for call in calls]
        results: list[Any] = []
        for one in pending:
            try:
                value = one.get(timeout=CALL_LIMIT_S)
            except exceptions.NoNodeError:
                value = None
            except (exceptions.KazooException, KazooTimeoutError) as error:
                raise self._unavailable(doing, error) from error
            is_entry = isinstance(value, tuple) and not isinstance(value, ZnodeStat)
            results.append(entry_of(*value) if is_entry else value)
        return results

    def getting(self, path: str) -> Callable[[], Any]:
        """An Entry, for ``together``."""
        return lambda: self._client.get_async(path)

    def checking(
        self, path: str, watch: Callable[[object], None] | None = None
    ) -> Callable[[], Any]:
        """A ZnodeStat, for ``together``. ``watch`` is called once, in kazoo's thread, when the node
        is made, written or removed."""
        return lambda: self._client.exists_async(path, watch)

    def listing(
        self, path: str, watch: Callable[[object], None] | None = None
    ) -> Callable[[], Any]:
        """Names below a path, for ``together``. ``watch`` is called once, in kazoo's thread, when
        one has come or gone."""
        return lambda: self._client.get_children_async(path, watch)

    def write_together(self, writes: Iterable[tuple[str, bytes, int]], doing: str) -> list[Any]:
        """Path, content and expected version each: all of them, or none. The results in order:
        what kazoo gives, or the KazooException for which nothing was written."""
        transaction = self._client.transaction()
        for path, data, version in writes:
            transaction.set_data(path, data, version=version)
        return list(self._wait(transaction.commit_async, doing))

    def _wait(self, call: Callable[[], Any], doing: str) -> Any:
        self._must_be_connected()
        try:
            return call().get(timeout=CALL_LIMIT_S)
        except _ABOUT_THE_NODE:
            raise
        except (exceptions.KazooException, KazooTimeoutError) as error:
            raise self._unavailable(doing, error) from error

    def _must_be_connected(self) -> None:
        # kazoo would keep the call and make it when the connection is back, long after we gave up.
        if not self.is_connected:
            raise Unavailable(f"ZooKeeper at {self.hosts} does not answer")

    def _unavailable(self, doing: str, error: BaseException) -> Unavailable:
        if isinstance(error, (exceptions.NoAuthError, exceptions.AuthFailedError)):
            return Unavailable(
                f"ZooKeeper at {self.hosts} refuses {doing}",
                hint=f"An administrator gives yarnam's users access to {self.root}: "
                "yarnam docs zookeeper",
            )
        said = str(error) or type(error).__name__
        return Unavailable(f"ZooKeeper at {self.hosts}: {doing}: {said}")


def entry_of(data: bytes, stat: ZnodeStat) -> Entry:
    """From what kazoo gives for a node."""
    owner, written_at_s = stat.ephemeralOwner or 0, stat.mtime / 1000
    return Entry(data, stat.version, stat.mzxid, owner, written_at_s, stat.czxid)


@cache
def _authority_file() -> str | None:
    """The site's authorities in a file of this process's own, as kazoo wants them."""
    try:
        pem = site_authority.authority(None)
    except HdfsError as error:
        raise BadConfig(f"reading the site's certificate authority: {error}") from error
    if not pem:
        return None
    try:
        file = tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False)  # noqa: SIM115 - stays
        try:
            with file:
                file.write(pem)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise
    except OSError as error:
        why = in_words(error, os.environ.get("TMPDIR", ""))
        raise Unavailable(f"writing the site's certificate authority: {why}") from error
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name


def _auth(credentials: str) -> list[tuple[str, str]]:
    if not credentials or credentials.partition(":")[0] == ZOOKEEPER_KERBEROS:
        return []
    user, colon, password = credentials.removeprefix(DIGEST).partition(":")
    if not credentials.startswith(DIGEST) or not colon or not user or not password:
        # Never the value itself: it is a secret.
        raise BadConfig(
            "the credentials for ZooKeeper are neither digest:user:password nor kerberos",
            hint="See yarnam docs zookeeper.",
        )
    return [("digest", f"{user}:{password}")]


_ABOUT_THE_NODE = (
    exceptions.BadVersionError,
    exceptions.NoNodeError,
    exceptions.NodeExistsError,
)
"""What callers expect of a node that others write too. All else (the call did not get through, it
is refused, the node has children that no yarnam has made) is none of their affair."""

"""Where to start: :func:`connect` gives the file system of a URI."""

from __future__ import annotations

import contextlib
import os
import pwd
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hdfs_utils import conf as hadoop_conf
from hdfs_utils import uri as uris
from hdfs_utils.errors import BadConfig, NotSupported
from hdfs_utils.filesystem import FileSystem, TimeLimits
from hdfs_utils.uri import Uri

if TYPE_CHECKING:
    from hdfs_utils.webhdfs import WebHdfs

USER_VARIABLE = "HADOOP_USER_NAME"
# Each native client starts this many threads for its I/O; its default is one per core, which on a
# large node is many stacks and arenas for a client that is idle most of the time.
IO_THREADS = 2
# Between two tries to reach a NameNode. With the client's defaults a refused connection is
# reported after 180 s (measured, 0.14.7).
RETRY_BASE_MS = 200
RETRY_MAX_MS = 1000

_environment = threading.Lock()


def connect(
    uri: str | None = None,
    conf_dir: str | None = None,
    user: str | None = None,
    timeout_s: float | None = None,
    *,
    conf: Mapping[str, str] | None = None,
    limits: TimeLimits | None = None,
) -> FileSystem:
    """The file system that ``uri`` lies on. Nothing is sent yet: the first operation connects.

    Args:
        uri: any URI on it (``hdfs://host:port/…``, ``hdfs://nameservice``, ``file:///…``) or a
            plain path; None or a plain path mean ``fs.defaultFS``.
        conf_dir: directory of core-site.xml and hdfs-site.xml; by default HADOOP_CONF_DIR.
        user: act as this user (simple authentication only). The native client takes the user
            from the process's environment at each connection, so one process can be one user.
        timeout_s: one limit, in seconds, for every operation; see ``limits``.
        conf: Hadoop properties that win over the files.
        limits: the limits one by one; not together with ``timeout_s``.

    Raises:
        BadConfig: no file system is named anywhere, or the configuration cannot be read.
        InvalidPath: ``uri`` is none.
        NotSupported: a second user in one process.
    """
    if timeout_s is not None and limits is not None:
        raise ValueError("give timeout_s or limits, not both")
    bounds = limits or (TimeLimits() if timeout_s is None else TimeLimits.all(timeout_s))
    parsed = uris.parse(uri or "/")
    if parsed.scheme == "file":
        return _local(bounds)
    properties = hadoop_conf.load(conf_dir, conf)
    target = _resolve(parsed, properties)
    if target.scheme == "file":
        return _local(bounds)
    return _native(target, properties, user, bounds)


def _local(limits: TimeLimits) -> FileSystem:
    from hdfs_utils.local import LocalFileSystem

    return LocalFileSystem(limits)


def _resolve(parsed: Uri, properties: Mapping[str, str]) -> Uri:
    if parsed.scheme and parsed.authority:
        return parsed
    default = properties.get(hadoop_conf.DEFAULT_FS)
    if not default:
        raise BadConfig(
            f"no host in the URI and no {hadoop_conf.DEFAULT_FS} in the configuration; set "
            "HADOOP_CONF_DIR to the directory with core-site.xml, or write hdfs://host:port/…",
            path=str(parsed),
        )
    resolved = uris.parse(default)
    if parsed.scheme and parsed.scheme != resolved.scheme:
        message = f"no host in the URI, and {hadoop_conf.DEFAULT_FS} is {default}"
        raise BadConfig(message, path=str(parsed))
    return resolved


def _native(
    target: Uri, properties: Mapping[str, str], user: str | None, limits: TimeLimits
) -> FileSystem:
    try:
        import hdfs_native
    except ImportError as error:
        message = "the package hdfs-native is not installed; pip install hdfs-native"
        raise NotSupported(message, path=str(target)) from error
    from hdfs_utils.native import NativeFileSystem
    from hdfs_utils.native_errors import translate

    uri = f"{target.scheme}://{target.authority}"
    with _environment:
        if user is not None:
            _become(user, properties)
        try:
            with _few_threads():
                client = hdfs_native.Client(uri, config=_client_conf(properties, limits))
        except (OSError, RuntimeError) as error:
            raise translate(error, "connect", uri, uri) from error
    addresses = _web_addresses(target, properties)

    def web() -> WebHdfs:
        from hdfs_utils.webhdfs import WebHdfs

        # Not USER, which su and sudo may leave behind: the native client asks the system too.
        name = os.environ.get(USER_VARIABLE) or pwd.getpwuid(os.getuid()).pw_name
        return WebHdfs(addresses, name, limits.metadata_s)

    return NativeFileSystem(client, uri, limits, web if addresses else None)


def _become(user: str, properties: Mapping[str, str]) -> None:
    if properties.get("hadoop.security.authentication", "simple") != "simple":
        raise NotSupported(f"cannot act as {user!r}: the cluster authenticates its users")
    current = os.environ.get(USER_VARIABLE)
    if current not in (None, "", user):
        raise NotSupported(
            f"this process is {current!r} on HDFS already ({USER_VARIABLE}) and cannot be "
            f"{user!r} too; use another process"
        )
    os.environ[USER_VARIABLE] = user


@contextlib.contextmanager
def _few_threads() -> Iterator[None]:
    """The native client sizes its pool from the environment; children must not inherit that."""
    variable = "TOKIO_WORKER_THREADS"
    if variable in os.environ:
        yield
        return
    os.environ[variable] = str(IO_THREADS)
    try:
        yield
    finally:
        del os.environ[variable]


def _client_conf(properties: Mapping[str, str], limits: TimeLimits) -> dict[str, str]:
    """The site's properties with the client's own retries kept inside the time limits."""
    tries = max(2, int(limits.metadata_s * 1000 / RETRY_MAX_MS))
    own = {
        "dfs.client.failover.max.attempts": str(tries),
        "dfs.client.failover.sleep.base.millis": str(RETRY_BASE_MS),
        "dfs.client.failover.sleep.max.millis": str(RETRY_MAX_MS),
    }
    return {**properties, **own}


def _web_addresses(target: Uri, properties: Mapping[str, str]) -> tuple[str, ...]:
    if properties.get("dfs.http.policy", "HTTP_ONLY") == "HTTPS_ONLY":
        return ()
    base = "dfs.namenode.http-address"
    names = properties.get(f"dfs.ha.namenodes.{target.authority}", "")
    ids = [name.strip() for name in names.split(",") if name.strip()]
    if ids:
        keys = [f"{base}.{target.authority}.{name}" for name in ids]
        return tuple(properties[key] for key in keys if key in properties)
    address = properties.get(base)
    default = properties.get(hadoop_conf.DEFAULT_FS, "")
    # The configured address is that of the configured NameNode, of no other.
    if not address or uris.parse(default or "/").authority != target.authority:
        return ()
    host, _, port = address.rpartition(":")
    if host in ("", "0.0.0.0"):  # noqa: S104 - what the configuration says, not a bind
        host = target.authority.partition(":")[0]
    return (f"{host}:{port}",)

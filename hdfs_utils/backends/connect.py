"""Chooses the back-end for a URI; start with :func:`connect`."""

from __future__ import annotations

import contextlib
import os
import pwd
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from hdfs_utils import uri as uris
from hdfs_utils.config import configuration as hadoop_conf
from hdfs_utils.config.nameservices import Nameservices, mount_properties, with_port
from hdfs_utils.errors import BadConfig, NotSupported
from hdfs_utils.filesystem import FileSystem, TimeLimits
from hdfs_utils.uri import Uri

if TYPE_CHECKING:
    import ssl

    from hdfs_utils.config.gateway import Gateway
    from hdfs_utils.protocols.metadata_client import MetadataClient
    from hdfs_utils.protocols.webhdfs_rest import WebHdfsClient

AUTHENTICATION = "hadoop.security.authentication"
USER_VARIABLE = "HADOOP_USER_NAME"
PROXY_VARIABLE = "HADOOP_PROXY_USER"
BACKEND_VARIABLE = "HDFS_UTILS_BACKEND"
BACKENDS = ("auto", "native", "webhdfs", "arrow")
# Each native client starts this many threads for its I/O; its default is one per core, which on a
# large node is many stacks and arenas for a client that is idle most of the time.
IO_THREADS = 2
# Between two tries to reach a NameNode. With the client's defaults a refused connection is
# reported after 180 s (measured, 0.14.7).
RETRY_BASE_MS = 200
RETRY_MAX_MS = 1000
IN_CLEAR = (
    "WebHDFS is not asked instead: the site has Kerberos or wire encryption, and HTTP would send "
    "names, tokens and data in the clear; set dfs.http.policy to HTTPS_ONLY, or choose the "
    "back-end webhdfs"
)

_environment = threading.Lock()


def connect(
    uri: str | None = None,
    conf_dir: str | None = None,
    user: str | None = None,
    timeout_s: float | None = None,
    *,
    conf: Mapping[str, str] | None = None,
    limits: TimeLimits | None = None,
    backend: str | None = None,
    doas: str | None = None,
    gateway: Gateway | None = None,
) -> FileSystem:
    """The file system that ``uri`` lies on. Nothing is sent yet: the first operation connects.

    Args:
        uri: any URI on it (``hdfs://host:port/…``, ``hdfs://nameservice``, ``webhdfs://host:port``,
            ``file:///…``) or a plain path; None or a plain path mean ``fs.defaultFS``.
        conf_dir: directory of core-site.xml and hdfs-site.xml; by default HADOOP_CONF_DIR.
        user: act as this user (simple authentication only). The native client takes the user
            from the process's environment at each connection, so one process can be one user.
        timeout_s: one limit, in seconds, for every operation; see ``limits``. The first answer
            may take twice as long: where one way is silent, the other is tried.
        conf: Hadoop properties that win over the files.
        limits: the limits one by one; not together with ``timeout_s``.
        backend: ``native``, ``webhdfs``, ``arrow``, or ``auto``: the native client, and WebHDFS
            where only that gets through. By default HDFS_UTILS_BACKEND, else ``auto``. A
            ``webhdfs://`` URI is always asked over HTTP.
        doas: act for this user, as a proxy that the site has allowed (``hadoop.proxyuser.*``).
        gateway: ask through it and by nothing else, whatever the back-end. It has one file system,
            which the configuration calls ``fs.defaultFS``.

    Raises:
        BadConfig: no file system is named anywhere, or the configuration cannot be read.
        InvalidPath: ``uri`` is none.
        NotSupported: a second user in one process, or a back-end that is not there.
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
    if gateway is not None:
        _check_behind(target, properties)
    site = HdfsSite(target, properties, user, doas, bounds, conf_dir, gateway)
    return site.open(backend or os.environ.get(BACKEND_VARIABLE) or "auto")


def _local(limits: TimeLimits) -> FileSystem:
    from hdfs_utils.backends.local import LocalFileSystem

    return LocalFileSystem(limits)


def _resolve(parsed: Uri, properties: Mapping[str, str]) -> Uri:
    if parsed.scheme and parsed.authority:
        return parsed
    default = properties.get(hadoop_conf.DEFAULT_FS)
    if parsed.scheme == "viewfs" and not (default or "").startswith("viewfs:"):
        return Uri("viewfs", "default", parsed.path)  # ``viewfs:///`` is the table of this name
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


def _check_behind(target: Uri, properties: Mapping[str, str]) -> None:
    """Raises NotSupported: another file system than the one behind the gateway."""
    behind = uris.parse(properties.get(hadoop_conf.DEFAULT_FS) or "/")
    if target.scheme == "viewfs":
        raise NotSupported("a gateway has one HDFS, not a viewfs", path=str(target))
    if target.authority != behind.authority:
        message = (
            f"cannot be reached through the gateway, which has {behind.scheme}://{behind.authority}"
        )
        raise NotSupported(message, path=str(target))


@dataclass(frozen=True, slots=True)
class HdfsSite:
    """One HDFS as its configuration describes it, and the clients for it."""

    target: Uri
    properties: Mapping[str, str]
    user: str | None
    doas: str | None
    limits: TimeLimits
    conf_dir: str | None = None
    gateway: Gateway | None = None

    def open(self, backend: str) -> FileSystem:
        """The file system by this back-end."""
        if self.gateway is not None or self.target.scheme in ("webhdfs", "swebhdfs"):
            backend = "webhdfs"
        if backend == "native":
            return self.native()
        if backend == "webhdfs":
            return self.web()
        if backend == "arrow":
            return self.arrow()
        if backend != "auto":
            raise NotSupported(f"unknown back-end {backend!r}; known are {', '.join(BACKENDS)}")
        if not self._web_addresses():
            return self.native()
        from hdfs_utils.backends.fallback import FallbackFileSystem

        return FallbackFileSystem(self.native(), self._web_instead)

    def _web_instead(self) -> FileSystem:
        """The file system over HTTP, where nobody has asked for HTTP.

        Raises:
            NotSupported: it would go round the site's encryption. Whoever can break a connection
                must not thereby bring all that follows into the clear.
        """
        if not self._is_content_private():
            raise NotSupported(IN_CLEAR, path=str(self.target), operation="connect")
        return self.web()

    def _is_content_private(self) -> bool:
        """Whether over HTTP the content of files is as safe as the site wants it to be."""
        from hdfs_utils.protocols.namenode import is_rpc_allowed

        are_encrypted = all(a.startswith("https:") for a in self._web_addresses())
        return are_encrypted or is_rpc_allowed(self.properties)

    def native(self) -> FileSystem:
        """The file system through ``hdfs-native``."""
        try:
            import hdfs_native
        except ImportError as error:
            message = "the package hdfs-native is not installed; pip install hdfs-native"
            raise NotSupported(message, path=str(self.target)) from error
        from hdfs_utils.backends.native import NativeFileSystem
        from hdfs_utils.protocols.java_errors import translate

        uri = f"{self.target.scheme}://{self.target.authority}"
        with _environment:
            if self.user is not None:
                _become(self.user, self.properties, USER_VARIABLE)
            if self.doas is not None:
                _become(self.doas, {}, PROXY_VARIABLE)
            conf = _client_conf(self.properties, self.limits)
            address = uri
            if self.target.scheme == "viewfs":
                conf.update(mount_properties(self.target, self.properties))
            else:
                address = str(with_port(Uri(self.target.scheme, self.target.authority, ""), conf))
            try:
                with _few_threads():
                    client = hdfs_native.Client(address, config=conf)
            except (OSError, RuntimeError) as error:
                raise translate(error, "connect", uri, uri) from error
        has_web = bool(self._web_addresses())
        web = self._some_web if has_web else None
        names = Nameservices(self.target, self.properties)
        return NativeFileSystem(
            client,
            uri,
            self.limits,
            web,
            self._metadata_client(),
            is_paired=names.is_paired,
            is_web_private=self._is_content_private(),
        )

    def web(self) -> FileSystem:
        """The file system over HTTP."""
        from hdfs_utils.backends.webhdfs import WebHdfsFileSystem

        uri = f"{self.target.scheme}://{self.target.authority}"
        return WebHdfsFileSystem(self._some_web(), uri, self.limits)

    def arrow(self) -> FileSystem:
        """The file system through pyarrow and the site's libhdfs."""
        from hdfs_utils.backends.libhdfs import open_hadoop

        return open_hadoop(self.target, self.user, self.limits, self._metadata_client())

    def _metadata_client(self) -> MetadataClient:
        from hdfs_utils.protocols.metadata_client import MetadataClient

        names = Nameservices(self.target, self.properties)
        who = (self._name(), self.doas or "")
        return MetadataClient(names, self.properties, who, self.limits, self._web_client)

    def _some_web(self) -> WebHdfsClient:
        found = self._web_client(self.target.authority)
        if found is None:
            message = "dfs.namenode.http-address is not configured"
            raise NotSupported(message, path=str(self.target))
        return found

    def _web_client(self, authority: str) -> WebHdfsClient | None:
        addresses = self._web_addresses(authority)
        if not addresses:
            return None
        from hdfs_utils.config import delegation_tokens, site_authority
        from hdfs_utils.protocols.webhdfs_rest import WebHdfsClient

        names = (authority, f"ha-hdfs:{authority}", *(a.partition("://")[2] for a in addresses))

        def token() -> str:
            found = delegation_tokens.find(delegation_tokens.load(), names)
            return found.for_url() if found else ""

        @cache
        def tls() -> ssl.SSLContext:
            return site_authority.tls_context(self.conf_dir)

        return WebHdfsClient(
            addresses,
            self._name(),
            self.limits.metadata_s,
            doas=self.doas or "",
            token=token if is_kerberos(self.properties) else None,
            tls=tls,
            gateway=self.gateway,
        )

    def _web_addresses(self, authority: str | None = None) -> tuple[str, ...]:
        if self.gateway is not None:
            return (self.gateway.url,)
        scheme = {"webhdfs": "http", "swebhdfs": "https"}.get(self.target.scheme)
        authority = self.target.authority if authority is None else authority
        if self.target.scheme == "viewfs" and authority == self.target.authority:
            return ()
        names = Nameservices(Uri("hdfs", authority, "/"), self.properties)
        if scheme and f"dfs.ha.namenodes.{authority}" not in self.properties:
            return (f"{scheme}://{authority}",)
        return names.web_addresses(authority)

    def _name(self) -> str:
        # Not USER, which su and sudo may leave behind: the native client asks the system too.
        named = self.user or os.environ.get(USER_VARIABLE)
        return named or pwd.getpwuid(os.getuid()).pw_name


def is_kerberos(properties: Mapping[str, str]) -> bool:
    """Whether the site authenticates its users."""
    return properties.get(AUTHENTICATION, "simple").strip().lower() not in ("", "simple")


def _become(user: str, properties: Mapping[str, str], variable: str) -> None:
    if is_kerberos(properties):
        raise NotSupported(f"cannot act as {user!r}: the cluster authenticates its users")
    current = os.environ.get(variable)
    if current not in (None, "", user):
        raise NotSupported(
            f"this process already is {current!r} on HDFS ({variable}) and cannot be "
            f"{user!r} too; use another process"
        )
    os.environ[variable] = user


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

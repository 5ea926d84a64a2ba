"""One cluster as a client sees it: its configuration and the adapters that reach it."""

from __future__ import annotations

import getpass
import logging
import os
import pwd
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from hdfs_utils import FileSystem, TimeLimits, connect
from hdfs_utils.backends.connect import AUTHENTICATION, is_kerberos
from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.errors import HdfsError, NotAuthenticated
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.small_files import HTTP_LIMITS, SmallFiles
from yarnam.adapters.yarn.application_cache import ApplicationCache
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.user_paths import UserPaths
from yarnam.core.model.gpu_names import NOTHING_LEARNT, GpuModelRules, Inventory, with_gpu_models
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.errors import BadConfig, NoPermission, NotThroughGateway
from yarnam.ports.job_access import JobClient, Launcher

if TYPE_CHECKING:
    from hdfs_utils.config.gateway import Gateway
    from yarnam.core.queues.capacity.capacity_file import CapacityConfig
    from yarnam.core.queues.queue_state import QueueReport

with on_first_use():
    from hdfs_utils.config import auth_to_local
    from hdfs_utils.protocols import gssapi, keytab, namenode
    from yarnam.adapters import gpu_inventory, http_identity, job_tokens
    from yarnam.adapters.grpc import job_client
    from yarnam.adapters.hdfs import error_map, path_owners
    from yarnam.adapters.skein import driver
    from yarnam.adapters.yarn import addresses, node_settings, rest, rest_launcher
    from yarnam.adapters.zookeeper import inventory_store, lazy_session
    from yarnam.client import gpu_rules as client_gpu_rules

_log = logging.getLogger(__name__)

HDFS_LIMITS = TimeLimits(metadata_s=8.0, data_s=60.0, close_s=30.0, lease_s=30.0)
"""A healthy NameNode answers in milliseconds; a user at a prompt should not wait longer."""

GATEWAY_LIMITS = TimeLimits.all(60.0)
"""A gateway answers in a tenth of a second, but the first request of a kind after its start took a
Knox 2.0 on a busy machine more than 8 s."""

SESSIONS = "yarnam.interactive"
"""The property of yarn-site.xml with which a site allows or forbids sessions in tasks."""

NODE_PYTHON_VARIABLE = "YARNAM_NODE_PYTHON"
"""First interpreter that the AM and the agents try on the nodes."""


class ResourceManager(Protocol):
    """The client's calls to the ResourceManager; ``yarnam.adapters.yarn.rest`` is the real one.
    Each call takes at most 10 s and raises Unavailable without a reply."""

    @property
    def url(self) -> str: ...

    def application(self, app_id: str) -> YarnApplication | None: ...

    @property
    def hosts(self) -> frozenset[str]: ...

    def applications(
        self,
        *,
        user: str = "",
        tags: Iterable[str] = (),
        states: Iterable[str] = (),
        most: int = 0,
        limit_s: float = 10.0,
    ) -> Sequence[YarnApplication]: ...

    def newest_attempt(self, app_id: str, *, limit_s: float = 10.0) -> int: ...

    def kill(self, app_id: str, user: str = "") -> None: ...

    def delegation_token(self, renewer: str) -> tuple[DelegationToken, float]: ...

    def new_application(self) -> str: ...

    def submit_application(self, context: Mapping[str, Any]) -> None: ...

    def queues(self) -> Sequence[QueueView]: ...

    def queue_report(self, node_label: str = "") -> QueueReport | None: ...

    def capacity_config(self) -> CapacityConfig | None: ...

    def queue_access(self, queue: str, user: str) -> bool | None: ...

    def administers(self, queue: str, user: str) -> bool | None: ...

    def snapshot(self, queue: str, partitions: Sequence[str] = ()) -> ClusterSnapshot: ...

    def info(self) -> Mapping[str, Any]: ...

    def started_at_s(self) -> float: ...

    def settings(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class ClientTiming:
    """How often a client polls, and how long it waits; in seconds."""

    poll_s: float = 0.5
    """The time between polls of the ResourceManager and HDFS while no AM answers."""
    yarn_poll_s: float = 0.25
    """The time between polls of the ResourceManager while something is about to happen."""
    nodes_s: float = 30.0
    """The time for a ResourceManager that has just taken over to hear of its first node:
    NodeManagers look for it every 30 s at most (yarn.resourcemanager.connect.retry-interval.ms)."""
    process_poll_s: float = 1.0
    """The time between polls for processes that have started since."""
    cancel_patience_s: float = 30.0
    """How long the AM may take to cancel, besides the grace period, before YARN is asked to kill
    the job."""
    aggregation_limit_s: float = 30.0
    """How long to wait for the logs of an ended application: NodeManagers write them within
    seconds, or never."""


THROUGH_GATEWAY = ClientTiming(poll_s=2.0, yarn_poll_s=1.0)
"""Each look at a job is some five requests there, its journal among them."""


def _node_settings(
    http_address: str, scheme: str, who: http_identity.HttpIdentity | None = None
) -> Mapping[str, str]:
    who = who or http_identity.HttpIdentity()
    return node_settings.node_settings(http_address, scheme, who)


@dataclass
class Site:
    """Everything that a client needs of the outside. Tests build one from fakes."""

    conf_dir: Path
    user: str
    rm: ResourceManager
    files: FileSystem
    open_launcher: Callable[[], Launcher]
    open_job_client: Callable[[str, bytes], JobClient]
    """Makes a client from the AM's host:port and the job's credentials."""
    cache: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment of child processes: names the cluster, and has ``yarn`` on the PATH."""
    home_prefix: str = "/user"
    zookeeper: str = ""
    """``host:port,host:port/root`` of the ticket queue, if any. Behind a gateway jobs use it, and
    the client cannot."""
    gateway: Gateway | None = None
    """The only way to the cluster; ``None`` if it is reached directly."""
    learnt: Callable[[], Inventory] = lambda: NOTHING_LEARNT
    """GPU models that agents have seen, if they are stored. Raises nothing."""
    open_web: Callable[[], FileSystem] | None = None
    """``files`` over HTTP, for small ones; ``None`` to not try."""
    who: http_identity.HttpIdentity = field(default_factory=lambda: http_identity.HttpIdentity())  # noqa: PLW0108 - on first use
    """Who asks the web servers of the site's daemons."""
    open_token_source: Callable[[], job_tokens.TokenSource] | None = None
    """``None`` if the site has no delegation tokens. Raises BadConfig."""
    timing: ClientTiming = ClientTiming()
    node_settings: Callable[[str, str], Mapping[str, str]] = _node_settings
    """The configuration of the NodeManager at this HTTP address, by http or https. Raises
    Unavailable, NoPermission."""

    def connect(self, uri: str) -> FileSystem:
        """Another file system than ``files``, by its URI. Raises HdfsError."""
        limits = HDFS_LIMITS if self.gateway is None else GATEWAY_LIMITS
        return connect(uri, conf_dir=str(self.conf_dir), limits=limits, gateway=self.gateway)

    @property
    def submits_by_driver(self) -> bool:
        """Whether Skein's driver submits, by the user's choice. Raises BadConfig."""
        return driver.is_driver_wanted(self.environ)

    def must_reach(self, what: str) -> None:
        """Raise NotThroughGateway immediately if there is a gateway: it passes on HTTP to the
        ResourceManager and to HDFS, and ``what`` is neither."""
        if self.gateway is not None:
            raise NotThroughGateway(
                f"{what} cannot be reached through the gateway {self.gateway.url}",
                hint="Run the command inside the cluster, for example on an edge node: "
                "yarnam docs gateway",
            )

    @cached_property
    def has_sessions(self) -> bool:
        """Whether jobs of this site may have sessions in their tasks (``yarnam exec``)."""
        settings = addresses.read_settings(self.conf_dir, "yarn-site.xml")
        return settings.get(SESSIONS, "true").strip().lower() != "false"

    @property
    def can_reach_zookeeper(self) -> bool:
        """Whether there is one that this machine may try to reach."""
        return bool(self.zookeeper) and self.gateway is None

    @cached_property
    def quick(self) -> SmallFiles:
        """Writes small files that no other process writes."""
        return SmallFiles(self.files, self.open_web)

    @cached_property
    def applications(self) -> ApplicationCache:
        """YARN's records of applications, cached for callers that request many of them
        repeatedly."""
        return ApplicationCache(self.rm, self.user)

    def snapshot(self, queue: str, node_labels: Sequence[str] = ("",)) -> ClusterSnapshot:
        """All nodes, and the queue's part of these partitions, with all known GPU models. Raises
        Unavailable, BadConfig."""
        with ThreadPoolExecutor(1, thread_name_prefix="gpu-models") as pool:
            learnt = pool.submit(self.learnt)
            taken = self.rm.snapshot(queue, node_labels)
            return with_gpu_models(taken, self.gpu_rules(), learnt.result())

    def gpu_rules(self) -> GpuModelRules:
        """The administrators' rules for the GPU models of nodes. Raises BadConfig."""
        return client_gpu_rules.read_rules(self.conf_dir, self.environ)

    def paths_of(self, user: str) -> UserPaths:
        """The paths of this user's files on the cluster's file system."""
        return UserPaths(f"{self.files.uri}{self.home_prefix.rstrip('/')}/{user}")

    def path_owners(self, report: Callable[[str], None] = _log.warning) -> path_owners.PathOwners:
        """Judges whose is what lies on HDFS before it is run, for one command. Raises BadConfig."""
        settings = addresses.read_settings(self.conf_dir, "core-site.xml", "hdfs-site.xml")
        return path_owners.PathOwners(
            self.files,
            path_owners.trust_of(self.user, settings, self.environ),
            is_enforced=is_kerberos(settings),
            report=report,
        )

    @property
    def paths(self) -> UserPaths:
        return self.paths_of(self.user)


def find_conf_dir(environ: Mapping[str, str] | None = None) -> Path:
    """HADOOP_CONF_DIR, else HADOOP_HOME/etc/hadoop. Raises BadConfig with what to do."""
    environ = os.environ if environ is None else environ
    if given := environ.get("HADOOP_CONF_DIR"):
        return check_conf_dir(Path(given), "HADOOP_CONF_DIR")
    if home := environ.get("HADOOP_HOME"):
        return check_conf_dir(Path(home) / "etc" / "hadoop", "HADOOP_HOME")
    raise BadConfig(
        "no cluster configured: HADOOP_CONF_DIR is not set",
        hint=(
            "To use a Hadoop cluster: export HADOOP_CONF_DIR=/etc/hadoop/conf\n"
            'To use the embedded cluster: eval "$(yarnam cluster env)"\n'
            "To start the embedded cluster: yarnam cluster up (or yarnam submit --local)"
        ),
    )


def check_conf_dir(path: Path, origin: str) -> Path:
    """The directory, if it has a Hadoop client configuration. Raises BadConfig."""
    for name in ("core-site.xml", "yarn-site.xml"):
        if not (path / name).is_file():
            raise BadConfig(
                f"{origin} is {path}, which has no {name}",
                hint="Set it to the cluster's client configuration (often /etc/hadoop/conf).",
            )
    return path


def user_name(environ: Mapping[str, str] | None = None) -> str:
    """The user name for a cluster with simple authentication."""
    environ = os.environ if environ is None else environ
    if named := environ.get("HADOOP_USER_NAME"):
        return named
    try:
        # This comes before USER, which su and sudo may leave behind from another user: so does
        # Hadoop.
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return getpass.getuser()


def open_site(
    conf_dir: str | Path | None = None,
    user: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Site:
    """The cluster of this Hadoop configuration, by default the environment's. Sends nothing yet.
    ``environ`` replaces this process's environment for child processes (the embedded cluster's
    tools are not on the PATH). Raises BadConfig."""
    surroundings = dict(os.environ if environ is None else environ)
    where = check_conf_dir(Path(conf_dir), "conf_dir") if conf_dir else find_conf_dir(surroundings)
    settings = addresses.read_settings(where, "core-site.xml", "hdfs-site.xml")
    refuse_other_authentication(settings)
    gateway = addresses.site_gateway(surroundings)
    has_tokens = is_kerberos(settings)
    is_secure = has_tokens and gateway is None
    if gateway is not None:
        name = _gateways_name(gateway, user, surroundings)
    elif is_secure:
        name = _principals_name(user, surroundings, settings)
    else:
        name = user or user_name(surroundings)
    who = http_identity.HttpIdentity(name, is_secure, str(where), gateway)
    with error_map.hdfs_errors("reading the Hadoop configuration"):
        believed = None if has_tokens else user
        limits = HDFS_LIMITS if gateway is None else GATEWAY_LIMITS
        files = connect(conf_dir=str(where), user=believed, limits=limits, gateway=gateway)
    if files.uri.startswith("file:"):
        raise BadConfig(
            f"fs.defaultFS in {where}/core-site.xml is the local file system",
            hint="Skein needs a distributed file system, such as hdfs://namenode:8020.",
        )
    child_environ = driver.driver_environment(where, name if user else "", surroundings)

    zookeeper = addresses.zookeeper_address(where, surroundings)
    prefix = settings.get("dfs.user.home.dir.prefix", "/user")

    @cache
    def learnt() -> Inventory:
        return _learnt(zookeeper, files, f"{prefix.rstrip('/')}/{name}/.yarnam", surroundings)

    def open_web() -> FileSystem:
        return connect(conf_dir=str(where), user=believed, limits=HTTP_LIMITS, backend="webhdfs")

    site = Site(
        conf_dir=where,
        user=name,
        rm=rest.ResourceManager.from_conf(str(where), who=who, failover_s=rest.FAILOVER_LIMIT_S),
        files=files,
        open_launcher=lambda: _open_launcher(site),
        open_job_client=lambda address, pem: job_client.GrpcJobClient(address, pem),  # noqa: PLW0108 - on first use
        cache=cache_dir(surroundings),
        environ=child_environ,
        home_prefix=prefix,
        zookeeper=zookeeper,
        gateway=gateway,
        timing=THROUGH_GATEWAY if gateway is not None else ClientTiming(),
        # These go by the names of nodes, which a gateway does not reveal, and by ZooKeeper.
        learnt=learnt if gateway is None else lambda: NOTHING_LEARNT,
        who=who,
        node_settings=partial(_node_settings, who=who),
        # No single NameNode has all paths of a viewfs, and HTTP would bypass a site's encryption.
        open_web=open_web
        if gateway is None and namenode.is_rpc_allowed(settings) and files.uri.startswith("hdfs:")
        else None,
        open_token_source=(lambda: _token_source(site)) if has_tokens else None,
    )
    return site


@cache
def site_at(conf_dir: str, user: str) -> Site:
    """The cluster of a handle that came from another process: one for all of them. Raises
    BadConfig."""
    return open_site(conf_dir, user)


def files_at(uri: str) -> FileSystem:
    """The file system that a URI or a path lies on, through the gateway if one is set. Raises
    HdfsError, BadConfig."""
    return connect(uri, gateway=addresses.site_gateway(os.environ))


def _gateways_name(gateway: Gateway, asked: str | None, environ: Mapping[str, str]) -> str:
    """Whom the cluster takes the client for: who signs in to the gateway, unless the environment
    has the name that the gateway makes of it. Raises BadConfig."""
    with error_map.hdfs_errors("signing in to the gateway"):
        login = gateway.login
    name = environ.get("HADOOP_USER_NAME") or login or user_name(environ)
    if asked not in (None, "", name):
        raise BadConfig(
            f"{name} signs in to the gateway {gateway.url}, not {asked}",
            hint="A gateway authenticates the caller. To be another user, sign in as that user.",
        )
    return name


def _principals_name(
    asked: str | None, environ: Mapping[str, str], settings: Mapping[str, str]
) -> str:
    """The short name of the ticket's owner, by the site's rules. Raises BadConfig for another one
    or if no rule fits, NoPermission."""
    with error_map.hdfs_errors("looking for a Kerberos ticket"):
        try:
            principal = gssapi.identity().principal
        except NotAuthenticated as error:
            # Kerberos's library reports only a missing ticket if the keytab does not exist.
            raise _without_usable_keytab(environ) or error from error
    with error_map.hdfs_errors("reading who the Kerberos ticket's principal is to the site"):
        name = auth_to_local.short_name(principal, settings)
    if asked not in (None, "", name):
        raise BadConfig(
            f"the Kerberos ticket is {principal}'s, not {asked}'s", hint=f"kinit {asked}"
        )
    return name


def _without_usable_keytab(environ: Mapping[str, str]) -> NoPermission | None:
    """``None`` if the keytab by which programs get a ticket is valid, or none is named."""
    try:
        keytab.client_principals(environ)
    except HdfsError as error:
        return NoPermission(
            f"there is no Kerberos ticket, and none can be got: {error}",
            hint="Name your keytab by KRB5_CLIENT_KTNAME, or unset that and run kinit.",
        )
    return None


def refuse_other_authentication(settings: Mapping[str, str]) -> None:
    """Before anything is sent. Raises BadConfig."""
    asked = settings.get(AUTHENTICATION, "simple").strip().lower()
    if asked not in {"", "simple", "kerberos"}:
        raise BadConfig(
            f"{AUTHENTICATION} is {asked}: Hadoop knows 'simple' and 'kerberos'",
            hint="Correct it in core-site.xml.",
        )


def _open_launcher(site: Site) -> Launcher:
    settings = addresses.read_settings(site.conf_dir, "core-site.xml", "yarn-site.xml")
    if driver.is_driver_wanted(site.environ):
        site.must_reach("the ResourceManager's RPC port, by which Skein's driver submits,")
        return driver.SkeinLauncher(site.environ)
    source = site.open_token_source() if site.open_token_source is not None else None
    return rest_launcher.RestLauncher(
        site.rm,
        site.quick,
        user=site.user,
        staging=site.paths.skein_staging,
        jars=site.paths.runtimes,
        class_path=settings.get("yarn.application.classpath", ""),
        open_driver=(lambda: driver.SkeinLauncher(site.environ)) if site.gateway is None else None,
        # The upload has warned already.
        must_be_own=site.path_owners(_log.info).must_be_own,
        tokens=source.for_submission if source is not None else None,
    )


def _token_source(site: Site) -> job_tokens.TokenSource:
    """Raises BadConfig."""

    def open_web(uri: str) -> FileSystem:
        return connect(
            uri, conf_dir=str(site.conf_dir), limits=HTTP_LIMITS, backend="webhdfs",
            gateway=site.gateway,
        )  # fmt: skip

    settings = addresses.read_settings(site.conf_dir, "core-site.xml", "yarn-site.xml")
    service = addresses.rm_token_service(settings)
    return job_tokens.token_source(settings, site.rm, service, site.files.uri, open_web)


def _learnt(
    zookeeper: str, files: FileSystem, own_directory: str, environ: Mapping[str, str]
) -> Inventory:
    """The GPU models that agents have seen: all users' from ZooKeeper, else this user's own."""
    if not zookeeper:
        store = gpu_inventory.FileInventoryStore(files, own_directory)
        return gpu_inventory.GpuInventory(store).known()
    session = lazy_session.LazySession(zookeeper, addresses.zookeeper_credentials(environ))
    try:
        return gpu_inventory.GpuInventory(inventory_store.ZooKeeperInventoryStore(session)).known()
    finally:
        session.close()


def cache_dir(environ: Mapping[str, str]) -> Path:
    """The local directory for files that yarnam can make again."""
    if home := environ.get("YARNAM_HOME"):
        return Path(home).expanduser().absolute() / "cache"
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "yarnam"


def file_system_of(site: Site, uri: str) -> tuple[FileSystem, str]:
    """The cluster's own file system, or the one that the URI names; and the path on it."""
    parts = urlsplit(uri)
    if parts.scheme and parts.netloc and not site.files.uri.endswith(f"//{parts.netloc}"):
        with error_map.hdfs_errors(f"reaching {uri}"):
            files = site.connect(uri)
            return files, files.own_path(uri)
    return site.files, parts.path if parts.scheme else uri

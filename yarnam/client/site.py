"""One cluster as a client sees it: its configuration and the adapters that reach it."""

from __future__ import annotations

import getpass
import os
import pwd
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

from hdfs_utils import FileSystem, TimeLimits
from yarnam.adapters.rm_parse import YarnApplication
from yarnam.client.places import UserPlaces
from yarnam.client.quick_files import HTTP_LIMITS, QuickFiles
from yarnam.errors import BadConfig
from yarnam.model.gpus import NOTHING_LEARNT, GpuModelRules, Inventory, with_gpu_models
from yarnam.model.snapshot import ClusterSnapshot, QueueView
from yarnam.ports.submission import JobLine, Launcher

HDFS_LIMITS = TimeLimits(metadata_s=8.0, data_s=60.0, close_s=30.0, lease_s=30.0)
"""A healthy NameNode answers in milliseconds; a user at a prompt should not wait longer."""

NODE_PYTHON_VARIABLE = "YARNAM_NODE_PYTHON"
"""First interpreter that the AM and the agents try on the nodes."""


class ResourceManager(Protocol):
    """What the client asks the ResourceManager; ``yarnam.adapters.rm_rest`` is the real one.

    Each call takes at most 10 s and raises Unavailable when nobody answers.
    """

    @property
    def url(self) -> str: ...

    def application(self, app_id: str) -> YarnApplication | None: ...

    def applications(
        self, *, user: str = "", tags: Iterable[str] = (), states: Iterable[str] = ()
    ) -> Sequence[YarnApplication]: ...

    def kill(self, app_id: str, user: str = "") -> None: ...

    def new_application(self) -> str: ...

    def submit_application(self, context: Mapping[str, Any]) -> None: ...

    def queues(self) -> Sequence[QueueView]: ...

    def queue_access(self, queue: str, user: str) -> bool | None: ...

    def snapshot(self, queue: str) -> ClusterSnapshot: ...

    def info(self) -> Mapping[str, Any]: ...

    def settings(self) -> Mapping[str, str]: ...


@dataclass
class Site:
    """Everything that a client needs of the outside. Tests build one from fakes."""

    conf_dir: Path
    user: str
    rm: ResourceManager
    files: FileSystem
    open_launcher: Callable[[], Launcher]
    open_line: Callable[[str, bytes], JobLine]
    """From the AM's host:port and the job's credentials."""
    cache: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    """For child processes: names the cluster, has ``yarn`` on the PATH."""
    home_prefix: str = "/user"
    zookeeper: str = ""
    """``host:port,host:port/root`` where jobs take turns; empty: none."""
    learnt: Callable[[], Inventory] = lambda: NOTHING_LEARNT
    """GPU models that agents have seen, where somebody keeps them. Raises nothing."""

    open_web: Callable[[], FileSystem] | None = None
    """``files`` over HTTP, for small ones; None: not tried."""

    @cached_property
    def quick(self) -> QuickFiles:
        """Writes small files that nobody else writes."""
        return QuickFiles(self.files, self.open_web)

    def snapshot(self, queue: str) -> ClusterSnapshot:
        """Nodes and the queue, with all known GPU models. Raises Unavailable, BadConfig."""
        with ThreadPoolExecutor(1, thread_name_prefix="gpu-models") as pool:
            learnt = pool.submit(self.learnt)
            taken = self.rm.snapshot(queue)
            return with_gpu_models(taken, self.gpu_rules(), learnt.result())

    def gpu_rules(self) -> GpuModelRules:
        """What administrators say about nodes' GPUs. Raises BadConfig."""
        from yarnam.client.gpu_models import read_rules

        return read_rules(self.conf_dir, self.environ)

    def places_of(self, user: str) -> UserPlaces:
        """Where this user's yarnam keeps things on this cluster's file system."""
        return UserPlaces(f"{self.files.uri}{self.home_prefix.rstrip('/')}/{user}")

    @property
    def places(self) -> UserPlaces:
        return self.places_of(self.user)


def find_conf_dir(environ: Mapping[str, str] | None = None) -> Path:
    """HADOOP_CONF_DIR, else HADOOP_HOME/etc/hadoop. Raises BadConfig with what to do."""
    environ = os.environ if environ is None else environ
    if given := environ.get("HADOOP_CONF_DIR"):
        return check_conf_dir(Path(given), "HADOOP_CONF_DIR")
    if home := environ.get("HADOOP_HOME"):
        return check_conf_dir(Path(home) / "etc" / "hadoop", "HADOOP_HOME")
    raise BadConfig(
        "there is no cluster: HADOOP_CONF_DIR is not set",
        hint=(
            "On a machine of a cluster: export HADOOP_CONF_DIR=/etc/hadoop/conf\n"
            'With the embedded cluster running: eval "$(yarnam cluster env)"\n'
            "To start a real Hadoop on this machine: yarnam cluster up (or submit --local)"
        ),
    )


def check_conf_dir(path: Path, origin: str) -> Path:
    """The directory, if it looks like a Hadoop client configuration. Raises BadConfig."""
    for name in ("core-site.xml", "yarn-site.xml"):
        if not (path / name).is_file():
            raise BadConfig(
                f"{origin} points to {path}, where there is no {name}",
                hint="It must name the cluster's client configuration (often /etc/hadoop/conf).",
            )
    return path


def user_name(environ: Mapping[str, str] | None = None) -> str:
    """Who we are to a cluster with simple authentication."""
    environ = os.environ if environ is None else environ
    if named := environ.get("HADOOP_USER_NAME"):
        return named
    try:
        # Before USER, which su and sudo may leave behind from somebody else: so does Hadoop.
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
    tools are not on the PATH). Raises BadConfig.
    """
    from hdfs_utils import connect
    from hdfs_utils.namenode import usable
    from yarnam.adapters.hadoop_site import expanded, read_settings, zookeeper_address
    from yarnam.adapters.rm_rest import ResourceManager as RestResourceManager
    from yarnam.adapters.skein_launcher import driver_environment
    from yarnam.client.hdfs_errors import hdfs_errors

    surroundings = dict(os.environ if environ is None else environ)
    where = check_conf_dir(Path(conf_dir), "conf_dir") if conf_dir else find_conf_dir(surroundings)
    name = user or user_name(surroundings)
    settings = read_settings(where, "core-site.xml", "hdfs-site.xml")
    with hdfs_errors("reading the Hadoop configuration"):
        files = connect(conf_dir=str(where), user=user, limits=HDFS_LIMITS)
    if files.uri.startswith("file:"):
        raise BadConfig(
            f"fs.defaultFS in {where}/core-site.xml is the local file system",
            hint="Skein can submit only with a distributed one, such as hdfs://namenode:8020.",
        )
    child_environ = driver_environment(where, name if user else "", surroundings)

    def open_line(address: str, credentials: bytes) -> JobLine:
        from yarnam.adapters.job_line import GrpcJobLine

        return GrpcJobLine(address, credentials)

    zookeeper = zookeeper_address(where, surroundings)
    prefix = expanded(settings, "dfs.user.home.dir.prefix", "/user")

    @cache
    def learnt() -> Inventory:
        return _learnt(zookeeper, files, f"{prefix.rstrip('/')}/{name}/.yarnam", surroundings)

    def open_web() -> FileSystem:
        return connect(conf_dir=str(where), user=user, limits=HTTP_LIMITS, backend="webhdfs")

    site = Site(
        conf_dir=where,
        user=name,
        rm=RestResourceManager.from_conf(str(where), user=name),
        files=files,
        open_launcher=lambda: _open_launcher(site),
        open_line=open_line,
        cache=cache_dir(surroundings),
        environ=child_environ,
        home_prefix=prefix,
        zookeeper=zookeeper,
        learnt=learnt,
        # Of a viewfs no single NameNode has all paths; and HTTP would go round a site's encryption.
        open_web=open_web if usable(settings) and files.uri.startswith("hdfs:") else None,
    )
    return site


def _open_launcher(site: Site) -> Launcher:
    from yarnam.adapters.hadoop_site import expanded, read_settings
    from yarnam.adapters.skein_launcher import SkeinLauncher, is_driver_wanted
    from yarnam.client.direct_launcher import DirectLauncher

    def open_driver() -> Launcher:
        return SkeinLauncher(site.environ)

    settings = read_settings(site.conf_dir, "core-site.xml", "yarn-site.xml")
    if is_driver_wanted(settings, site.environ):
        return open_driver()
    return DirectLauncher(site, expanded(settings, "yarn.application.classpath"), open_driver)


def _learnt(
    zookeeper: str, files: FileSystem, own_directory: str, environ: Mapping[str, str]
) -> Inventory:
    """The GPU models that agents have seen: everybody's from ZooKeeper, else this user's own."""
    from yarnam.adapters.gpu_inventory import FileShelf, GpuInventory, ZooKeeperShelf
    from yarnam.adapters.hadoop_site import zookeeper_credentials
    from yarnam.adapters.zookeeper_gate import Gate

    if not zookeeper:
        return GpuInventory(FileShelf(files, own_directory)).known()
    gate = Gate(zookeeper, zookeeper_credentials(environ))
    try:
        return GpuInventory(ZooKeeperShelf(gate)).known()
    finally:
        gate.close()


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Where this user's yarnam keeps what it can make again."""
    if home := environ.get("YARNAM_HOME"):
        return Path(home).expanduser().absolute() / "cache"
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "yarnam"

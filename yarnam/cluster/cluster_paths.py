"""Paths of the embedded cluster: a cache per user, a folder per cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from yarnam.errors import UsageError

DEFAULT_NAME = "local"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Downloads that every cluster of this user shares. ``YARNAM_HOME`` moves cache and state
    together, else the XDG variables decide."""
    if home := environ.get("YARNAM_HOME"):
        return Path(home).expanduser().absolute() / "cache"
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "yarnam"


def clusters_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder that holds one folder per cluster of this user."""
    if home := environ.get("YARNAM_HOME"):
        return Path(home).expanduser().absolute() / "clusters"
    base = environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser().absolute() / "yarnam" / "clusters"


def check_cluster_name(name: str) -> str:
    """A cluster's name becomes a folder and part of an identifier: keep it plain."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' is not a cluster name",
            hint="Use 1 to 32 lower-case letters, digits and inner hyphens.",
        )
    return name


@dataclass(frozen=True, slots=True)
class ClusterPaths:
    """Every path of one cluster."""

    base: Path
    name: str

    @property
    def root(self) -> Path:
        return self.base / self.name

    @property
    def lock(self) -> Path:
        # Beside the folder, not in it: `down` deletes the folder while it holds the lock.
        return self.base / ".locks" / f"{self.name}.lock"

    @property
    def cancel(self) -> Path:
        """While this file exists, a running `up` gives up."""
        return self.base / ".locks" / f"{self.name}.cancel"

    @property
    def record(self) -> Path:
        return self.root / "cluster.json"

    @property
    def processes(self) -> Path:
        return self.root / "processes"

    @property
    def conf(self) -> Path:
        """The client's Hadoop configuration, also that of NameNode, DataNode and RM."""
        return self.root / "conf"

    @property
    def hadoop_home(self) -> Path:
        return self.root / "hadoop"

    @property
    def bin(self) -> Path:
        return self.hadoop_home / "bin"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def hdfs(self) -> Path:
        return self.data / "hdfs"

    @property
    def hdfs_is_complete(self) -> Path:
        """A file that exists once HDFS has been up: its data is worth keeping."""
        return self.hdfs / "whole"

    @property
    def container_home(self) -> Path:
        """HOME inside containers: they must not write into the user's own."""
        return self.root / "home"

    def queues(self, scheduler: str) -> Path:
        """The file that the scheduler (``fair`` or ``capacity``) reads its queues from."""
        return self.conf / f"{scheduler}-scheduler.xml"

    @property
    def topology(self) -> Path:
        return self.conf / "topology.table"

    @property
    def web_base(self) -> Path:
        """Stands in for the ``webapps`` folders that only Hadoop's own tarball has."""
        return self.root / "web"

    @property
    def kerberos(self) -> Path:
        """Keytabs, the KDC's configuration and the caches of tickets; for this user's eyes only."""
        return self.root / "kerberos"

    @property
    def krb5_conf(self) -> Path:
        return self.kerberos / "krb5.conf"

    def keytab(self, name: str) -> Path:
        """The keytab of a user, or of the services (``service``)."""
        return self.kerberos / f"{name}.keytab"

    @property
    def tls(self) -> Path:
        """The key store of the daemons and the truststore of everybody."""
        return self.root / "tls"

    def daemon_conf(self, daemon: str) -> Path:
        return self.root / "daemons" / daemon / "conf"

    def daemon_data(self, daemon: str) -> Path:
        return self.data / daemon

    def log(self, daemon: str) -> Path:
        return self.logs / f"{daemon}.log"

    def out(self, daemon: str) -> Path:
        """The output of the process: only a JVM that dies early writes here."""
        return self.logs / f"{daemon}.out"

    def process_record(self, daemon: str) -> Path:
        return self.processes / f"{daemon}.json"

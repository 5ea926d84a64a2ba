"""Who probes a cluster's daemons: on a secure one HDFS's superuser, by the keytab in its folder."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from hdfs_utils.config import site_authority
from hdfs_utils.protocols import gssapi
from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop.kerberos_realm import ADMINISTRATOR, client_variables

_environment = threading.Lock()


def headers(plan: ClusterPlan, url: str) -> Mapping[str, str]:
    """What says in one request who asks. Raises HdfsError where the KDC gives no ticket."""
    if not plan.shape.secure:
        return {}
    with _variables(client_variables(plan, ADMINISTRATOR)):
        return {"Authorization": gssapi.negotiate_header(urlsplit(url).hostname or "")}


def tls(plan: ClusterPlan) -> ssl.SSLContext | None:
    """What checks the daemons' certificates; ``None`` means there are none."""
    return _context(plan.paths.conf) if plan.shape.secure else None


@cache
def _context(conf: Path) -> ssl.SSLContext:
    return site_authority.tls_context(conf)


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """MIT's library takes realm and keytab from the environment only."""
    with _environment:
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

"""The delegation tokens with which a job starts: its containers have no ticket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from hdfs_utils import FileSystem
from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
from hdfs_utils.config.delegation_tokens import DelegationToken
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.errors import BadConfig

RM_ALIAS = "yarnam-rm"


def collect(
    web: FileSystem,
    rm_token: Callable[[str], DelegationToken],
    renewer: str,
    uri: str,
    rm_service: str,
) -> Mapping[str, str]:
    """By alias, as the ResourceManager's REST API takes them: for HDFS (``uri``) and for the
    ResourceManager. ``renewer``: its short name; it renews them as long as it may, its own only
    where they name it: ``rm_service``. Raises NoPermission, BadConfig, Unavailable."""
    if not isinstance(web, WebHdfsFileSystem):
        raise BadConfig("HDFS has no web server to get a delegation token from")
    if not renewer:
        raise BadConfig(
            "nobody is named who may renew the job's tokens",
            hint="yarn-site.xml needs yarn.resourcemanager.principal.",
        )
    with hdfs_errors("getting a delegation token of HDFS"):
        hdfs = web.delegation_token(renewer)
    authority = urlsplit(uri).netloc
    # Of a nameservice the clients look for its name, of one NameNode for its address.
    service = hdfs.service if ":" in authority else f"ha-hdfs:{authority}"
    return {
        service: hdfs.for_rpc(service).for_url(),
        # Its REST API leaves the service empty.
        RM_ALIAS: replace(rm_token(renewer), service=rm_service).for_url(),
    }

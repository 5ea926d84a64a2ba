"""The delegation tokens with which a job starts on a secure site."""

from __future__ import annotations

import pytest

from hdfs_utils import TimeLimits
from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
from hdfs_utils.config.delegation_tokens import DelegationToken, from_url
from hdfs_utils.errors import NotAuthenticated
from hdfs_utils.protocols.webhdfs_rest import WebHdfsClient
from tests.fakes.files import MemoryFiles
from tests.fakes.resource_manager import FakeResourceManager
from yarnam.adapters import job_tokens
from yarnam.errors import BadConfig, NoPermission

NAMENODE = "10.0.0.1:8020"


class Web(WebHdfsClient):
    """A NameNode that hands out tokens as it does over https."""

    def __init__(self) -> None:
        super().__init__((), "alice", 1.0)
        self.refuses = False

    def delegation_token(self, renewer: str) -> DelegationToken:
        if self.refuses:
            raise NotAuthenticated("Ticket expired; run kinit")
        return DelegationToken("SWEBHDFS delegation", NAMENODE, renewer.encode(), b"secret")


def collect(web: Web, uri: str, renewer: str = "yarn") -> dict[str, DelegationToken]:
    files = WebHdfsFileSystem(web, uri, TimeLimits())
    rm = FakeResourceManager()
    found = job_tokens.collect(files, rm.delegation_token, renewer, uri, "rm1:8032")
    return {alias: from_url(text) for alias, text in found.items()}


@pytest.mark.parametrize(
    ("uri", "service"),
    [(f"hdfs://{NAMENODE}", NAMENODE), ("hdfs://nameservice1", "ha-hdfs:nameservice1")],
)
def test_they_are_named_as_hadoops_clients_look_for_them(uri: str, service: str) -> None:
    found = collect(Web(), uri)
    assert found == {
        service: DelegationToken("HDFS_DELEGATION_TOKEN", service, b"yarn", b"secret"),
        "yarnam-rm": DelegationToken("RM_DELEGATION_TOKEN", "rm1:8032", b"yarn", b"secret"),
    }


def test_who_has_no_ticket_gets_none() -> None:
    web = Web()
    web.refuses = True
    with pytest.raises(NoPermission, match="run kinit"):
        collect(web, f"hdfs://{NAMENODE}")


def test_somebody_must_renew_them() -> None:
    with pytest.raises(BadConfig, match="who may renew"):
        collect(Web(), f"hdfs://{NAMENODE}", renewer="")


def test_without_a_web_server_there_are_none() -> None:
    rm = FakeResourceManager()
    with pytest.raises(BadConfig, match="no web server"):
        job_tokens.collect(MemoryFiles(), rm.delegation_token, "yarn", "hdfs://a", "rm1:8032")

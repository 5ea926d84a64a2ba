"""The delegation tokens with which a job starts on a secure site, and those that replace them."""

from __future__ import annotations

import pytest

from hdfs_utils import FileSystem, TimeLimits
from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
from hdfs_utils.config.delegation_tokens import DelegationToken, from_url
from hdfs_utils.errors import NotAuthenticated
from hdfs_utils.protocols.webhdfs_rest import WebHdfsClient
from tests.fakes.files import MemoryFiles
from tests.fakes.resource_manager import FakeResourceManager
from tests.unit.hdfs_utils.protocols.test_token_lifetime import hdfs_identifier
from yarnam.adapters.job_tokens import JobTokens, TokenSource, token_source
from yarnam.errors import BadConfig, NoPermission

NAMENODE = "10.0.0.1:8020"
MAX_DATE_S = 1.8e9


class Web(WebHdfsClient):
    """A NameNode that hands out tokens as it does over https."""

    def __init__(self) -> None:
        super().__init__((), "alice", 1.0)
        self.refuses = False
        self.renewed_until_s = 1.7e9

    def delegation_token(self, renewer: str) -> DelegationToken:
        if self.refuses:
            raise NotAuthenticated("Ticket expired; run kinit")
        found = hdfs_identifier("alice", renewer, MAX_DATE_S)
        return DelegationToken("SWEBHDFS delegation", NAMENODE, found, b"secret")

    def renew_delegation_token(self, token: DelegationToken) -> float:
        assert token.kind == "SWEBHDFS delegation"
        return self.renewed_until_s


def source(
    web: Web, uri: str, renewer: str = "yarn", rm: FakeResourceManager | None = None
) -> TokenSource:
    files = WebHdfsFileSystem(web, uri, TimeLimits())
    rm = rm or FakeResourceManager()
    return TokenSource(lambda _: files, rm.delegation_token, (uri,), "rm1:8032", renewer)


def tokens(found: JobTokens) -> dict[str, DelegationToken]:
    return {alias: from_url(text) for alias, text in found.by_alias.items()}


@pytest.mark.parametrize(
    ("uri", "service"),
    [(f"hdfs://{NAMENODE}", NAMENODE), ("hdfs://nameservice1", "ha-hdfs:nameservice1")],
)
def test_they_are_named_as_hadoops_clients_look_for_them(uri: str, service: str) -> None:
    found = source(Web(), uri).for_submission()
    identifier = hdfs_identifier("alice", "yarn", MAX_DATE_S)
    assert tokens(found) == {
        service: DelegationToken("HDFS_DELEGATION_TOKEN", service, identifier, b"secret"),
        "yarnam-rm": DelegationToken("RM_DELEGATION_TOKEN", "rm1:8032", b"yarn", b"secret"),
    }
    assert found.until_s == MAX_DATE_S - 60  # of HDFS's native client


def test_those_of_a_running_job_live_until_the_first_of_them_ends() -> None:
    """Nobody renews them: their maximum age says nothing."""
    rm, web = FakeResourceManager(), Web()
    rm.tokens_end_s = 1.75e9
    where = source(web, f"hdfs://{NAMENODE}", rm=rm)
    found = where.for_running_job("alice@SITE")
    assert found.until_s == web.renewed_until_s
    assert tokens(found)[NAMENODE].identifier == hdfs_identifier("alice", "alice@SITE", MAX_DATE_S)
    assert tokens(found)["yarnam-rm"].identifier == b"alice@SITE"
    web.renewed_until_s = 1.76e9
    assert where.for_running_job("alice@SITE").until_s == rm.tokens_end_s


def test_they_replace_those_of_the_submission() -> None:
    where = source(Web(), "hdfs://nameservice1")
    submitted, later = where.for_submission(), where.for_running_job("alice@SITE")
    assert {(t.kind, t.service) for t in tokens(submitted).values()} == {
        (t.kind, t.service) for t in tokens(later).values()
    }


def test_who_has_no_ticket_gets_none() -> None:
    web = Web()
    web.refuses = True
    with pytest.raises(NoPermission, match="run kinit"):
        source(web, f"hdfs://{NAMENODE}").for_submission()


def test_somebody_must_renew_them() -> None:
    with pytest.raises(BadConfig, match="no token renewer"):
        source(Web(), f"hdfs://{NAMENODE}", renewer="").for_submission()


def test_without_a_web_server_there_are_none() -> None:
    def no_web(_: str) -> FileSystem:
        return MemoryFiles()

    rm = FakeResourceManager()
    where = TokenSource(no_web, rm.delegation_token, ("hdfs://a",), "rm1:8032", "yarn")
    with pytest.raises(BadConfig, match="no web server"):
        where.for_submission()


def test_each_file_system_of_the_job_has_one_under_its_own_name() -> None:
    """Of a viewfs each mount; of one that is named twice one."""
    opened: list[str] = []

    def open_web(uri: str) -> FileSystem:
        opened.append(uri)
        return WebHdfsFileSystem(Web(), uri, TimeLimits())

    where = TokenSource(
        open_web, FakeResourceManager().delegation_token, ("hdfs://own",), "rm1:8032", "yarn",
        lambda uri: ("hdfs://a", "hdfs://own") if uri == "viewfs://all" else (uri,),
    )  # fmt: skip
    more = ("viewfs://all", "swebhdfs://nn2:9871")
    for found in (where.for_submission(more), where.for_running_job("alice@SITE", more)):
        named = {(t.kind, t.service) for t in tokens(found).values()}
        assert named == {
            ("HDFS_DELEGATION_TOKEN", "ha-hdfs:own"),
            ("HDFS_DELEGATION_TOKEN", "ha-hdfs:a"),
            ("SWEBHDFS delegation", "nn2:9871"),
            ("RM_DELEGATION_TOKEN", "rm1:8032"),
        }
    assert opened[:3] == ["hdfs://own", "hdfs://a", "swebhdfs://nn2:9871"]


def test_a_viewfs_has_the_tokens_of_its_mounts() -> None:
    settings = {
        "yarn.resourcemanager.principal": "yarn/_HOST@SITE",
        "fs.viewfs.mounttable.all.link./data": "hdfs://a/data",
        "fs.viewfs.mounttable.all.link./user": "hdfs://b/user",
    }
    rm = FakeResourceManager()
    found = token_source(settings, rm, "rm1:8032", "viewfs://all", lambda _: MemoryFiles())
    assert sorted(found.uris) == ["hdfs://a", "hdfs://b"]
    assert sorted(found.parts_of("viewfs://all")) == ["hdfs://a", "hdfs://b"]
    assert found.parts_of("hdfs://c") == ("hdfs://c",)

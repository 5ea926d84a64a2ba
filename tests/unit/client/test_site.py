"""Which clusters a client opens at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfs_utils.errors import NotAuthenticated
from hdfs_utils.protocols import gssapi
from yarnam.adapters.http_identity import HttpIdentity
from yarnam.client.site import open_site
from yarnam.errors import BadConfig, NoPermission


def configuration(folder: Path, authentication: str | None, **core: str) -> Path:
    files = {
        "core-site.xml": {"fs.defaultFS": "hdfs://127.0.0.1:1", **core},
        "hdfs-site.xml": {},
        "yarn-site.xml": {"yarn.resourcemanager.hostname": "127.0.0.1"},
    }
    if authentication is not None:
        files["core-site.xml"]["hadoop.security.authentication"] = authentication
    for name, settings in files.items():
        rows = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in settings.items()
        )
        (folder / name).write_text(f"<configuration>{rows}</configuration>")
    return folder


@pytest.mark.parametrize("authentication", [None, "simple", "Simple "])
def test_a_site_with_simple_authentication_is_opened(
    tmp_path: Path, authentication: str | None
) -> None:
    found = open_site(configuration(tmp_path, authentication), environ={})
    assert found.files.uri == "hdfs://127.0.0.1:1"


def test_an_authentication_that_hadoop_has_not_is_refused_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    with pytest.raises(BadConfig, match=r"hadoop\.security\.authentication is token: Hadoop knows"):
        open_site(configuration(tmp_path, "Token"), environ={})


def ticket_of(principal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gssapi, "identity", lambda: gssapi.Identity(principal, 3600))


@pytest.mark.parametrize("principal", ["alice@EXAMPLE.COM", "alice/admin@EXAMPLE.COM"])
def test_on_a_secure_site_the_user_is_the_principal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, principal: str
) -> None:
    ticket_of(principal, monkeypatch)
    conf = configuration(tmp_path, "kerberos")
    found = open_site(conf, environ={"HADOOP_USER_NAME": "bob"})
    assert found.user == "alice"
    assert found.who == HttpIdentity("alice", is_kerberos=True, conf_dir=str(conf))
    assert found.paths.home == "hdfs://127.0.0.1:1/user/alice"
    assert open_site(conf, "alice", environ={}).user == "alice"
    with pytest.raises(BadConfig, match="'s, not bob's"):
        open_site(conf, "bob", environ={})


def test_a_keytab_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_ticket() -> gssapi.Identity:
        raise NotAuthenticated("No Kerberos credentials available; run kinit")

    monkeypatch.setattr(gssapi, "identity", no_ticket)
    conf = configuration(tmp_path, "kerberos")
    with pytest.raises(NoPermission, match=r"none\.keytab: the keytab .* cannot be read: No such"):
        open_site(conf, environ={"KRB5_CLIENT_KTNAME": f"FILE:{tmp_path}/none.keytab"})


def test_a_secure_site_without_a_ticket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_ticket() -> gssapi.Identity:
        raise NotAuthenticated("No Kerberos credentials available; run kinit")

    monkeypatch.setattr(gssapi, "identity", no_ticket)
    with pytest.raises(NoPermission, match="run kinit"):
        open_site(configuration(tmp_path, "kerberos"), environ={})


def test_tokens_do_not_go_in_the_clear_where_rpc_is_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket_of("alice@EXAMPLE.COM", monkeypatch)
    conf = configuration(tmp_path, "kerberos", **{"hadoop.rpc.protection": "privacy"})
    with pytest.raises(BadConfig, match="would get the job's tokens in the clear"):
        open_site(conf, environ={}).open_launcher()
    open_site(configuration(tmp_path, "kerberos"), environ={}).open_launcher()

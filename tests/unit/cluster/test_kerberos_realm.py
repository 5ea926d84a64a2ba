"""The realm of a secure cluster, and the settings that name its principals."""

from __future__ import annotations

import stat
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from hdfs_utils.config.site_authority import authority
from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop import cluster_tls, kerberos_realm, shims
from yarnam.cluster.hadoop.daemon_commands import daemon_command
from yarnam.cluster.hadoop.site_files import (
    core_site,
    daemon_files,
    datanode_site,
    hdfs_site,
    nodemanager_site,
    yarn_site,
)
from yarnam.cluster.lifecycle import start_again
from yarnam.cluster.reporters import SilentReporter
from yarnam.cluster.shape import ClusterShape
from yarnam.errors import BadConfig, UsageError


@pytest.fixture
def secure(make_plan: Callable[..., ClusterPlan]) -> ClusterPlan:
    return make_plan(ClusterShape(secure=True))


def record(principal: str) -> bytes:
    """One of a keytab (format 5.2): realm, parts, name type, time, version, key."""
    parts = [kerberos_realm.REALM, *principal.split("/")]
    body = struct.pack(">H", len(parts) - 1)
    body += b"".join(struct.pack(">H", len(part)) + part.encode() for part in parts)
    body += struct.pack(">IIB", 1, 0, 1) + struct.pack(">HH", 17, 16) + bytes(16)
    return struct.pack(">i", len(body)) + body


def test_every_principal_of_the_settings_is_in_the_realm(secure: ClusterPlan) -> None:
    sites = {**core_site(secure), **hdfs_site(secure), **yarn_site(secure)}
    named = {key: value for key, value in sites.items() if "principal" in key}
    assert len(named) > 8
    known = {f"{each}@{kerberos_realm.REALM}" for each in kerberos_realm.principals(secure)}
    for key, value in named.items():
        for node in (secure.master, *(each.address for each in secure.nodes)):
            assert value.replace("_HOST", node) in known, key


def test_datanodes_need_no_privileged_port(secure: ClusterPlan) -> None:
    site = datanode_site(secure, "dn1")
    assert site["dfs.http.policy"] == "HTTPS_ONLY"
    assert site["dfs.data.transfer.protection"] == "privacy"
    assert int(site["dfs.datanode.https.address"].rpartition(":")[2]) > 1024


def test_nobody_may_act_for_another(secure: ClusterPlan, plan: ClusterPlan) -> None:
    assert not [key for key in core_site(secure) if "proxyuser" in key or "staticuser" in key]
    assert not [key for key in core_site(plan) if "kerberos" in key or "security" in key]


def test_the_keys_are_handed_out_each_to_whom_they_belong(secure: ClusterPlan) -> None:
    kerberos_realm.write_realm(secure)
    assert stat.S_IMODE(secure.paths.kerberos.stat().st_mode) == 0o700
    names = kerberos_realm.principals(secure)
    source = secure.paths.keytab("kdc")
    assert kerberos_realm.missing_principals(secure) == set(names)
    whole = b"\x05\x02" + b"".join(record(name) for name in names)
    source.write_bytes(whole[:-4])  # the KDC is still writing
    assert kerberos_realm.missing_principals(secure) == {names[-1]}
    source.write_bytes(whole)
    assert not kerberos_realm.missing_principals(secure)
    kerberos_realm.write_keytabs(secure)

    def owners(name: str) -> list[str]:
        path = secure.paths.keytab(name)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        return [owner for owner, _ in kerberos_realm.keytab_records(path.read_bytes())]

    assert owners("alice") == ["alice"]
    assert owners("ada") == ["ada"]
    assert owners("hdfs") == [f"hdfs/{secure.master}"]
    assert set(owners("service")) == set(names) - {"alice", "ada"}
    assert not source.exists()


def test_every_java_knows_the_realm(secure: ClusterPlan) -> None:
    option = f"-Djava.security.krb5.conf={secure.paths.krb5_conf}"
    for daemon in secure.daemons:
        if daemon != "relay":
            assert option in daemon_command(secure, daemon, {}).argv
    assert option in shims.shims(secure)["hdfs"]
    node = nodemanager_site(secure, secure.nodes[0])
    assert node["yarn.nodemanager.admin-env.JAVA_TOOL_OPTIONS"] == option
    assert secure.daemons[0] == "kdc"
    assert f"alice@{kerberos_realm.REALM}" in shims.environment(secure, "alice").values()
    assert "zookeeper/" in daemon_files(secure, "zk", "m", "")["jaas.conf"]


def test_a_user_without_a_key_is_refused(secure: ClusterPlan, plan: ClusterPlan) -> None:
    for each in (secure, plan):
        with pytest.raises(UsageError, match="no user 'eve'"):
            shims.environment(each, "eve")


def test_a_kdc_that_has_ended_takes_the_cluster_with_it(secure: ClusterPlan) -> None:
    with pytest.raises(BadConfig, match="its keys with it"):
        start_again(secure, ["kdc"], SilentReporter())


def test_clients_trust_the_authority_of_the_daemons(secure: ClusterPlan) -> None:
    secure.paths.conf.mkdir(parents=True)
    zoo_cfg = secure.paths.daemon_conf("zk") / "zoo.cfg"
    zoo_cfg.parent.mkdir(parents=True)
    zoo_cfg.touch()
    cluster_tls.write_tls(secure)
    assert "ssl.keyStore.password" in zoo_cfg.read_text()
    assert authority(secure.paths.conf).count("BEGIN CERTIFICATE") == 1
    files: list[Path] = [*secure.paths.tls.iterdir(), secure.paths.conf / "ssl-server.xml", zoo_cfg]
    assert len(files) == 4
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)


def test_secure_is_yes_or_no() -> None:
    with pytest.raises(BadConfig, match="secure is 'maybe'"):
        ClusterShape(secure="maybe")  # type: ignore[arg-type]

"""Where jobs take turns: from the environment, else from Hadoop's own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from yarnam.adapters.yarn.addresses import (
    rm_token_service,
    zookeeper_address,
    zookeeper_credentials,
)
from yarnam.adapters.zookeeper.session import ZooKeeper
from yarnam.errors import BadConfig


def conf(folder: Path, **settings: str) -> Path:
    rows = "".join(
        f"<property><name>{name.replace('__', '.').replace('_', '-')}</name>"
        f"<value>{value}</value></property>"
        for name, value in settings.items()
    )
    (folder / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    return folder


def address(folder: Path, environ: Mapping[str, str] | None = None, **settings: str) -> str:
    return zookeeper_address(conf(folder, **settings), environ or {})


HOST = {"yarn__resourcemanager__hostname": "rm1.example"}


HA = {
    "yarn.resourcemanager.ha.enabled": "true",
    "yarn.resourcemanager.ha.rm-ids": "a, b",
    "yarn.resourcemanager.hostname.a": "rm1",
    "yarn.resourcemanager.address.b": "rm2:9032",
}


@pytest.mark.parametrize(
    ("settings", "service"),
    [
        ({}, ""),
        ({"yarn.resourcemanager.hostname": "rm1"}, "rm1:8032"),
        (
            {"yarn.resourcemanager.address": "10.0.0.1:1", "yarn.resourcemanager.hostname": "x"},
            "10.0.0.1:1",
        ),
        (HA, "rm1:8032,rm2:9032"),
    ],
)
def test_whose_a_token_is(settings: dict[str, str], service: str) -> None:
    """YARN refuses a job with a token whose service it cannot read as host:port."""
    assert rm_token_service(settings) == service


def test_without_one_jobs_meet_nowhere(tmp_path: Path) -> None:
    assert address(tmp_path, **HOST) == ""


@pytest.mark.parametrize("key", ["hadoop__zk__address", "yarn__resourcemanager__zk_address"])
def test_yarns_own_is_used(tmp_path: Path, key: str) -> None:
    found = address(tmp_path, **HOST, **{key: "z1:2181, z2:2181"})
    assert found == "z1:2181,z2:2181/yarnam/rm1.example"


def test_clusters_with_ipv6_addresses_are_apart(tmp_path: Path) -> None:
    found = {
        address(
            tmp_path,
            hadoop__zk__address="z1:2181",
            yarn__resourcemanager__address=f"[2001:db8::{host}]:8032",
        )
        for host in (1, 2)
    }
    assert len(found) == 2
    assert not any(place.endswith("/default") for place in found)


def test_the_environment_comes_first(tmp_path: Path) -> None:
    environ = {"YARNAM_ZOOKEEPER": "z9:2181/dl/turns/"}
    found = address(tmp_path, environ, hadoop__zk__address="z1:2181", **HOST)
    assert found == "z9:2181/dl/turns/rm1.example"


def test_an_encrypted_one_says_so(tmp_path: Path) -> None:
    asked = address(tmp_path, {"YARNAM_ZOOKEEPER": "tls://z9:2281"}, **HOST)
    assert asked == "tls://z9:2281/yarnam/rm1.example"
    settings = {"hadoop__zk__ssl__enabled": "true", "hadoop__zk__address": "z1:2281"}
    assert address(tmp_path, **settings, **HOST) == "tls://z1:2281/yarnam/rm1.example"
    assert ZooKeeper(asked, "kerberos").hosts == "z9:2281"


def test_none_means_none(tmp_path: Path) -> None:
    environ = {"YARNAM_ZOOKEEPER": "none"}
    assert address(tmp_path, environ, hadoop__zk__address="z1:2181") == ""


def test_clusters_that_share_a_zookeeper_are_apart(tmp_path: Path) -> None:
    settings = {**HOST, "hadoop__zk__address": "z1", "yarn__resourcemanager__cluster_id": "a/b c"}
    assert address(tmp_path, **settings) == "z1/yarnam/a_b_c"
    assert address(tmp_path, hadoop__zk__address="z1") == "z1/yarnam/default"


def test_credentials_come_from_a_file(tmp_path: Path) -> None:
    assert zookeeper_credentials({}) == ""
    file = tmp_path / "auth"
    file.write_text("digest:yarnam:s3cret\n")
    assert (
        zookeeper_credentials({"YARNAM_ZOOKEEPER_AUTH_FILE": str(file)}) == "digest:yarnam:s3cret"
    )
    with pytest.raises(BadConfig, match=r"cannot read .*gone"):
        zookeeper_credentials({"YARNAM_ZOOKEEPER_AUTH_FILE": str(tmp_path / "gone")})


@pytest.mark.parametrize("bad", ["s3cret", "digest:s3cret", "digest::s3cret", "sasl:a:s3cret"])
def test_malformed_credentials_are_refused_and_not_shown(bad: str) -> None:
    with pytest.raises(BadConfig) as caught:
        ZooKeeper("z1:2181/yarnam/x", bad)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("bad", ["", "z1:2181", "/yarnam", "z1:2181/"])
def test_an_address_has_hosts_and_a_root(bad: str) -> None:
    with pytest.raises(BadConfig):
        ZooKeeper(bad)

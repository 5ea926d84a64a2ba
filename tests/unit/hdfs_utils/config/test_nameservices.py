"""Which NameNodes a path is asked of."""

from __future__ import annotations

import pytest

from hdfs_utils import uri as uris
from hdfs_utils.config.nameservices import Nameservices
from hdfs_utils.errors import NotFound

HA = {
    "fs.defaultFS": "hdfs://ns1",
    "dfs.ha.namenodes.ns1": "nn1, nn2",
    "dfs.namenode.rpc-address.ns1.nn1": "one:9000",
    "dfs.namenode.rpc-address.ns1.nn2": "two:9000",
    "dfs.namenode.http-address.ns1.nn1": "one:9870",
    "dfs.namenode.http-address.ns1.nn2": "two:9870",
    "dfs.namenode.https-address.ns1.nn1": "one:9871",
    "fs.viewfs.mounttable.all.link./data": "hdfs://ns1/big",
    "fs.viewfs.mounttable.all.link./data/hot": "hdfs://fast:8020/",
}


def names(uri: str, **more: str) -> Nameservices:
    return Nameservices(uris.parse(uri), {**HA, **more})


def test_both_of_a_nameservice_are_asked() -> None:
    found = names("hdfs://ns1")
    assert found.rpc_addresses("ns1") == (("one", 9000), ("two", 9000))
    assert found.web_addresses("ns1") == ("http://one:9870", "http://two:9870")
    secure = names("hdfs://ns1", **{"dfs.http.policy": "HTTPS_ONLY"})
    assert secure.web_addresses("ns1") == ("https://one:9871",)


def test_one_host() -> None:
    found = names("hdfs://host:1")
    assert found.rpc_addresses("host:1") == (("host", 1),)
    assert found.rpc_addresses("host") == (("host", 8020),)
    # The configured HTTP address is that of the configured NameNode, of no other.
    assert found.web_addresses("host:1") == ()


@pytest.mark.parametrize("authority", ["[::1]:8021", "[::1]"])
def test_an_ipv6_address_is_not_cut_at_its_first_colon(authority: str) -> None:
    found = names(
        f"hdfs://{authority}",
        **{"fs.defaultFS": f"hdfs://{authority}", "dfs.namenode.http-address": "[::]:9870"},
    )
    assert found.rpc_addresses(authority) == (("::1", 8021 if "8021" in authority else 8020),)
    assert found.web_addresses(authority) == ("http://[::1]:9870",)


def test_a_mount_table_takes_the_longest_mount() -> None:
    found = names("viewfs://all")
    assert str(found.resolve("/data/a")) == "hdfs://ns1/big/a"
    assert str(found.resolve("/data")) == "hdfs://ns1/big"
    assert str(found.resolve("/data/hot/x")) == "hdfs://fast:8020/x"
    assert str(found.resolve("/data/hotter")) == "hdfs://ns1/big/hotter"
    with pytest.raises(NotFound):
        found.resolve("/other")

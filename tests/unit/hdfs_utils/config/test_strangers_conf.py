"""Configurations as sites really have them: old names, other encodings, addresses without a port,
mount tables without a fallback, another default file system."""

from __future__ import annotations

from pathlib import Path

import pytest

import hdfs_utils
from hdfs_utils import uri as uris
from hdfs_utils.config import configuration
from hdfs_utils.config.nameservices import (
    NO_MOUNT,
    Nameservices,
    default_authority,
    mount_properties,
    with_port,
)
from hdfs_utils.errors import BadConfig, InvalidPath

TABLE = "fs.viewfs.mounttable"


def conf_of(tmp_path: Path, properties: dict[str, str]) -> str:
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{rows}</configuration>")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fs.default.name", "fs.defaultFS"),
        ("dfs.federation.nameservices", "dfs.nameservices"),
        ("dfs.http.address", "dfs.namenode.http-address"),
        ("topology.script.file.name", "net.topology.script.file.name"),
    ],
)
def test_an_old_name_sets_the_new_key(tmp_path: Path, old: str, new: str) -> None:
    assert configuration.load(conf_of(tmp_path, {old: "value"})) == {new: "value"}


def test_the_later_of_both_names_wins_and_a_final_one_stays(tmp_path: Path) -> None:
    both = {"fs.default.name": "hdfs://old:1", "fs.defaultFS": "hdfs://new:1"}
    assert configuration.load(conf_of(tmp_path, both)) == {"fs.defaultFS": "hdfs://new:1"}
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.default.name</name><value>hdfs://a:1</value>"
        "<final>true</final></property><property><name>fs.defaultFS</name>"
        "<value>hdfs://b:1</value></property></configuration>"
    )
    assert configuration.load(str(tmp_path)) == {"fs.defaultFS": "hdfs://a:1"}


@pytest.mark.parametrize("encoding", ["GBK", "gb2312", "Big5", "Shift_JIS", "EUC-KR", "EUC-JP"])
def test_what_java_reads_is_read(tmp_path: Path, encoding: str) -> None:
    text = (
        f"<?xml version='1.0' encoding='{encoding}'?>\n<configuration><property><name>fs.defaultFS"
        "</name><value>hdfs://a:1</value></property><!-- \u4e2d --></configuration>"
    )
    (tmp_path / "core-site.xml").write_bytes(text.replace("\u4e2d", "\u4e00").encode(encoding))
    assert configuration.load(str(tmp_path)) == {"fs.defaultFS": "hdfs://a:1"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_what_expat_reads_stays_so(tmp_path: Path, encoding: str) -> None:
    text = f"<?xml version='1.0' encoding='{encoding}'?><configuration/>"
    (tmp_path / "core-site.xml").write_bytes(text.encode(encoding))
    assert configuration.load(str(tmp_path)) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"<?xml version='1.0' encoding='GBK'?><configuration>\xff\xff</configuration>",
        b"<?xml version='1.0' encoding='no-such'?><configuration/>",
        b"<?xml version='1.0' encoding='punycode'?><configuration/>",
    ],
)
def test_what_is_not_so_encoded_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "core-site.xml").write_bytes(data)
    with pytest.raises(BadConfig, match=r"core-site\.xml: cannot be read"):
        configuration.load(str(tmp_path))


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("hdfs://nn", "hdfs://nn:8020/"),
        ("hdfs://nn.example/data", "hdfs://nn.example:8020/data"),
        ("hdfs://10.0.0.1", "hdfs://10.0.0.1:8020/"),
        ("hdfs://nn:9000", "hdfs://nn:9000/"),
        ("hdfs://pair", "hdfs://pair/"),
        ("viewfs://all", "viewfs://all/"),
    ],
)
def test_a_namenode_without_a_port_is_at_8020(uri: str, expected: str) -> None:
    properties = {"dfs.nameservices": "pair, other", "dfs.ha.namenodes.pair": "nn1,nn2"}
    assert str(with_port(uris.parse(uri), properties)) == expected


def test_a_mount_table_without_a_fallback_gets_one_where_nothing_can_be() -> None:
    properties = {
        f"{TABLE}.all.link./data": "hdfs://nn/data",
        f"{TABLE}.all.link./tmp": "hdfs://b:1/t",
    }
    target = uris.parse("viewfs://all")
    found = mount_properties(target, properties)
    assert found[f"{TABLE}.all.link./data"] == "hdfs://nn:8020/data"
    assert found[f"{TABLE}.all.linkFallback"].endswith(NO_MOUNT)
    own = {**properties, f"{TABLE}.all.linkFallback": "hdfs://c:1/"}
    assert mount_properties(target, own)[f"{TABLE}.all.linkFallback"] == "hdfs://c:1/"


def test_with_link_merge_slash_all_paths_are_of_one_file_system() -> None:
    properties = {f"{TABLE}.all.linkMergeSlash": "hdfs://nn/"}
    names = Nameservices(uris.parse("viewfs://all"), properties)
    assert str(names.resolve("/any/where")) == "hdfs://nn/any/where"
    found = mount_properties(uris.parse("viewfs://all"), properties)
    assert found[f"{TABLE}.all.linkFallback"] == "hdfs://nn:8020/"


@pytest.mark.parametrize("default", ["s3a://bucket", "abfs://c@a.example/", "gs://bucket/x"])
def test_an_hdfs_named_in_full_needs_no_default_of_its_kind(tmp_path: Path, default: str) -> None:
    directory = conf_of(tmp_path, {"fs.defaultFS": default})
    assert hdfs_utils.connect("hdfs://nn.example:8020/data", conf_dir=directory).uri
    assert default_authority({"fs.defaultFS": default}) == ""
    with pytest.raises(InvalidPath):
        hdfs_utils.connect(None, conf_dir=directory)


def test_viewfs_without_a_name_is_the_default_table(tmp_path: Path) -> None:
    directory = conf_of(tmp_path, {f"{TABLE}.default.link./data": "hdfs://nn.example/data"})
    assert hdfs_utils.connect("viewfs:///data", conf_dir=directory).uri == "viewfs://default"

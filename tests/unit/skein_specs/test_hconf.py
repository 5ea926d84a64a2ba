"""The Hadoop configuration shipped with a job, and the reader of the site's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfs_utils import connect
from hdfs_utils.config.configuration import read_properties
from skein_specs import hadoop_conf, host_addresses
from yarnam.adapters.yarn.addresses import read_settings, rm_web_urls
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState
from yarnam.errors import BadConfig


def site(folder: Path, **files: str) -> Path:
    defaults = {"core_site": "", "hdfs_site": "", "yarn_site": ""}
    for name, rows in {**defaults, **files}.items():
        text = f"<configuration>{rows}</configuration>"
        (folder / f"{name.replace('_', '-')}.xml").write_text(text)
    return folder


def prop(name: str, value: str, *, final: bool = False) -> str:
    end = "<final>true</final>" if final else ""
    return f"<property><name>{name}</name><value>{value}</value>{end}</property>"


def a_node(name: str, rack: str, gpus: int = 8) -> Node:
    return Node(NodeId(name), RackId(rack), NodeState.RUNNING, Resources(1, 1, gpus), Resources())


def shipped(folder: Path, made: dict[str, bytes], name: str) -> dict[str, str]:
    out = folder / "out"
    out.mkdir(exist_ok=True)
    (out / name).write_bytes(made[name])
    return read_settings(out, name)


def test_short_heartbeats_and_the_topology_table(tmp_path: Path) -> None:
    rows = prop("yarn.am.liveness-monitor.expiry-interval-ms", "600000", final=True)
    conf = site(tmp_path, yarn_site=rows, core_site=prop("fs.defaultFS", "hdfs://a&amp;b"))
    nodes = [a_node("n1", "/r1"), a_node("n2", "/r2")]
    made = hadoop_conf(conf, nodes, addresses={"n1": ["10.0.0.1", "fe80::1"]})
    yarn = shipped(tmp_path, made, "yarn-site.xml")
    assert yarn["yarn.am.liveness-monitor.expiry-interval-ms"] == "500"
    core = shipped(tmp_path, made, "core-site.xml")
    assert core["fs.defaultFS"] == "hdfs://a&b"
    assert core["net.topology.node.switch.mapping.impl"] == "org.apache.hadoop.net.TableMapping"
    assert core["net.topology.table.file.name"] == "hconf/topology.table"
    assert made["topology.table"].decode() == "10.0.0.1 /r1\nfe80::1 /r1\nn1 /r1\nn2 /r2\n"


def test_a_nodemanager_that_hangs_is_given_up_soon(tmp_path: Path) -> None:
    """Measured with a frozen NodeManager: 10 s with it, 60 s without, the gang waiting behind."""
    yarn = shipped(tmp_path, hadoop_conf(site(tmp_path), []), "yarn-site.xml")
    assert int(yarn["yarn.rpc.nm-command-timeout"]) <= 10_000
    assert int(yarn["yarn.client.nodemanager-connect.max-wait-ms"]) <= 5000


def test_the_sites_other_settings_and_finals_stay(tmp_path: Path) -> None:
    conf = site(tmp_path, yarn_site=prop("a", "1", final=True) + prop("b", "${a}"))
    made = hadoop_conf(conf, [])
    (tmp_path / "y.xml").write_bytes(made["yarn-site.xml"])
    kept = {one.name: one for one in read_properties(tmp_path / "y.xml")}
    assert (kept["a"].value, kept["a"].is_final) == ("1", True)
    assert kept["b"].value == "${a}"


def test_the_sites_authority_travels_without_its_truststore(tmp_path: Path) -> None:
    pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    (tmp_path / "store").write_text(pem)
    row = prop("ssl.client.truststore.location", str(tmp_path / "store"))
    made = hadoop_conf(site(tmp_path, ssl_client=row), [])
    assert made["site-authority.pem"].decode() == pem
    assert "ssl-client.xml" not in made


def test_overrides_win(tmp_path: Path) -> None:
    made = hadoop_conf(site(tmp_path), [], overrides={"yarn.x": "1"})
    assert shipped(tmp_path, made, "yarn-site.xml")["yarn.x"] == "1"


@pytest.mark.parametrize(
    ("known", "expected"),
    [("", "yarn.io/gpu"), ("yarn.io/fpga", "yarn.io/fpga,yarn.io/gpu")],
)
def test_the_gpu_resource_type_is_declared(tmp_path: Path, known: str, expected: str) -> None:
    conf = site(tmp_path, yarn_site=prop("yarn.resource-types", known))
    made = hadoop_conf(conf, [a_node("n1", "/r1")])
    types = shipped(tmp_path, made, "resource-types.xml")
    assert types["yarn.resource-types"] == expected


def test_a_cluster_without_gpus_gets_no_gpu_type(tmp_path: Path) -> None:
    assert "resource-types.xml" not in hadoop_conf(site(tmp_path), [a_node("n1", "/r1", gpus=0)])


def test_xincludes_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "more.xml").write_text(f"<configuration>{prop('b', '2')}</configuration>")
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="more.xml"/>'
    made = hadoop_conf(site(tmp_path, yarn_site=prop("a", "1") + include), [])
    yarn = shipped(tmp_path, made, "yarn-site.xml")
    assert (yarn["a"], yarn["b"]) == ("1", "2")


@pytest.mark.parametrize("broken", ["missing", "not xml", "circle"])
def test_a_broken_configuration_names_the_file(tmp_path: Path, broken: str) -> None:
    conf = site(tmp_path)
    if broken == "missing":
        (conf / "yarn-site.xml").unlink()
    elif broken == "not xml":
        (conf / "yarn-site.xml").write_text("<configuration>")
    else:
        include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="yarn-site.xml"/>'
        site(tmp_path, yarn_site=include)
    with pytest.raises(BadConfig, match=r"yarn-site\.xml"):
        hadoop_conf(conf, [])


def test_addresses_of_hosts() -> None:
    assert host_addresses(["127.0.0.1", "no-such-host.invalid"])["127.0.0.1"] == ("127.0.0.1",)
    assert "no-such-host.invalid" not in host_addresses(["no-such-host.invalid"])
    assert host_addresses([]) == {}


# ---- where the ResourceManagers are -------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "urls"),
    [
        (prop("yarn.resourcemanager.hostname", "rm"), ("http://rm:8088",)),
        (
            prop("yarn.resourcemanager.hostname", "rm")
            + prop("yarn.resourcemanager.webapp.address", "${yarn.resourcemanager.hostname}:9"),
            ("http://rm:9",),
        ),
        (
            prop("yarn.http.policy", "HTTPS_ONLY") + prop("yarn.resourcemanager.hostname", "rm"),
            ("https://rm:8090",),
        ),
        (
            prop("yarn.resourcemanager.ha.enabled", "true")
            + prop("yarn.resourcemanager.ha.rm-ids", "a, b")
            + prop("yarn.resourcemanager.hostname.a", "rm1")
            + prop("yarn.resourcemanager.webapp.address.b", "rm2:7"),
            ("http://rm1:8088", "http://rm2:7"),
        ),
    ],
)
def test_web_addresses_of_the_resource_managers(
    tmp_path: Path, rows: str, urls: tuple[str, ...]
) -> None:
    assert rm_web_urls(site(tmp_path, yarn_site=rows)) == urls


def test_the_resource_manager_and_hdfs_are_read_from_one_site_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Included, final, and by way of the environment."""
    monkeypatch.setenv("MASTER", "m1")
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="hosts.xml"/>'
    hosts = prop("rm", "${env.MASTER}", final=True) + prop("nn", "${env.NAMENODE:-${rm}}")
    (tmp_path / "hosts.xml").write_text(f"<configuration>{hosts}</configuration>")
    core = include + prop("fs.defaultFS", "hdfs://${nn}:8020", final=True)
    conf = site(
        tmp_path,
        core_site=core,
        hdfs_site=prop("fs.defaultFS", "hdfs://elsewhere"),
        yarn_site=prop("yarn.resourcemanager.hostname", "${rm}") + prop("rm", "elsewhere"),
    )
    assert rm_web_urls(conf) == ("http://m1:8088",)
    assert connect(conf_dir=str(conf)).uri == "hdfs://m1:8020"


def test_no_resource_manager_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="no ResourceManager"):
        rm_web_urls(site(tmp_path))

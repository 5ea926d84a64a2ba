"""A real Apache Knox in front of the embedded cluster: WebHDFS and the ResourceManager's REST API
below one HTTPS address, for one user with a password."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import os
import shutil
import ssl
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from tests.integration.hadoop_web_servers import SILENT, START_LIMIT_S, await_port, free_port
from yarnam.cluster.cluster_paths import cache_dir
from yarnam.cluster.hadoop.daemon_commands import daemon_command
from yarnam.cluster.hadoop.properties import properties_xml
from yarnam.cluster.software.jar_cache import JarCache, read_lock, repository

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

LOCK = Path(__file__).with_name("knox-2.0.0.lock.json")
TOPOLOGY = "prod"
PASSWORD = "correct-horse"
MASTER = "master-secret"
CLI_LIMIT_S = 240.0
_SERVICES = "org.apache.knox.gateway.services"
_OPENS = ("java.lang", "java.lang.reflect", "java.util", "java.io")
"""Of Java 17 for a server that was made for Java 11."""
_DEFINITIONS = ("services/webhdfs/", "services/yarn-rm/")


@contextmanager
def knox(cluster: EmbeddedCluster, folder: Path) -> Iterator[tuple[str, str]]:
    """Its address with the topology, and its authority in PEM."""
    jars = JarCache(cache_dir(), read_lock(LOCK.read_text(encoding="utf-8")))
    jars.fill(repository(), SILENT)
    port = free_port()
    authority = _write_home(cluster, folder, port)
    _unpack_definitions(jars.files(), folder / "data")
    java = daemon_command(cluster.plan, "nn").argv[0]
    command = [
        java,
        "-Xmx512m",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS),
        "-Djava.security.egd=file:/dev/urandom",
        f"-DGATEWAY_HOME={folder}",
        f"-Dlog4j.configurationFile={folder / 'conf' / 'log4j2.xml'}",
        "-cp",
        ":".join([str(folder / "conf"), *map(str, jars.files())]),
    ]
    environ = {**os.environ, "GATEWAY_HOME": str(folder)}
    with (folder / "out").open("wb") as out:
        cli = [*command, "org.apache.knox.gateway.util.KnoxCLI", "create-master"]
        subprocess.run(
            [*cli, "--master", MASTER],
            env=environ, stdout=out, stderr=out, check=True, timeout=CLI_LIMIT_S,
        )  # fmt: skip
        server = [*command, "org.apache.knox.gateway.GatewayServer"]
        with subprocess.Popen(server, env=environ, stdout=out, stderr=out) as process:
            try:
                await_port(port, process)
                url = f"https://127.0.0.1:{port}/gateway/{TOPOLOGY}"
                _await_services(url, authority, cluster.plan.user)
                yield url, authority
            except BaseException:
                print((folder / "out").read_text(errors="replace")[-8000:])
                raise
            finally:
                process.kill()


def _await_services(url: str, authority: str, user: str) -> None:
    """It unpacks a topology at the first request to it."""
    pair = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
    context = ssl.create_default_context(cadata=authority)
    deadline = time.monotonic() + START_LIMIT_S
    for path in ("resourcemanager/v1/cluster/info", "webhdfs/v1/?op=LISTSTATUS"):
        request = urllib.request.Request(f"{url}/{path}")
        request.add_header("Authorization", f"Basic {pair}")
        while True:
            try:
                urllib.request.urlopen(request, timeout=60, context=context).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)


def _write_home(cluster: EmbeddedCluster, folder: Path, port: int) -> str:
    """Configuration, topology and key store; the authority's certificate in PEM."""
    for part in ("conf/topologies", "conf/META-INF/services", "data/security/keystores", "logs"):
        (folder / part).mkdir(parents=True)
    for part in ("conf/shared-providers", "conf/descriptors", "data/services", "data/applications"):
        (folder / part).mkdir(parents=True)
    store, authority = _key_store()
    (folder / "data" / "security" / "keystores" / "gateway.jks").write_bytes(store)
    conf = {
        "gateway-site.xml": properties_xml(
            {
                "gateway.host": "127.0.0.1",
                "gateway.port": str(port),
                "gateway.path": "gateway",
                "gateway.dispatch.whitelist": "^.*$",
                "gateway.websocket.feature.enabled": "false",
            }
        ),
        f"topologies/{TOPOLOGY}.xml": _topology(cluster),
        # The release has it in a jar of its own.
        f"META-INF/services/{_SERVICES}.GatewayServices": f"{_SERVICES}.DefaultGatewayServices\n",
        "log4j2.xml": _LOG4J,
    }
    for name, text in conf.items():
        (folder / "conf" / name).write_text(text)
    return authority


def _key_store() -> tuple[bytes, str]:
    """Knox signs tokens with the key of its certificate, so it has to be RSA."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "knox")])
    now = dt.datetime.now(dt.timezone.utc)
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    store = pkcs12.serialize_key_and_certificates(
        b"gateway-identity", key, certificate, None,
        serialization.BestAvailableEncryption(MASTER.encode()),
    )  # fmt: skip
    return store, certificate.public_bytes(serialization.Encoding.PEM).decode()


def _topology(cluster: EmbeddedCluster) -> str:
    services = {
        "NAMENODE": cluster.plan.namenode_uri,
        "WEBHDFS": f"{cluster.plan.namenode_web}/webhdfs",
        "RESOURCEMANAGER": f"{cluster.rm_url}/ws",
    }
    rows = "".join(
        f"<service><role>{role}</role><url>{escape(url)}</url></service>"
        for role, url in services.items()
    )
    shiro = {f"users.{cluster.plan.user}": PASSWORD, "urls./**": "authcBasic"}
    params = "".join(
        f"<param><name>{escape(name)}</name><value>{value}</value></param>"
        for name, value in shiro.items()
    )
    return (
        "<topology><gateway><provider><role>authentication</role><name>ShiroProvider</name>"
        f"<enabled>true</enabled>{params}</provider><provider><role>identity-assertion</role>"
        f"<name>Default</name><enabled>true</enabled></provider></gateway>{rows}</topology>"
    )


def _unpack_definitions(jars: list[Path], data: Path) -> None:
    """How Knox passes on the two services: its own rules."""
    (jar,) = [one for one in jars if one.name.startswith("gateway-service-definitions-")]
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith(_DEFINITIONS) and not name.endswith("/"):
                target = data / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)


_LOG4J = """<Configuration><Appenders><Console name="out" target="SYSTEM_OUT">
<PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""

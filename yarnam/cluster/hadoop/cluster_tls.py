"""HTTPS of a secure cluster: an authority of its own, one key store for all daemons."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import secrets
import struct
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop.properties import properties_xml

DAYS = 3650
KEY_STORE = "daemons.p12"
TRUSTSTORE = "authority.jks"
_AUTHORITY = "yarnam embedded cluster"


def write_tls(plan: ClusterPlan) -> None:
    """Key store, truststore, and the two files of Hadoop's configuration that name them."""
    folder, password = plan.paths.tls, secrets.token_hex(16)
    folder.mkdir(parents=True, mode=0o700)
    addresses = dict.fromkeys(("127.0.0.1", *plan.addresses))
    key_store, authority = make_stores(list(addresses), password)
    server = {
        "ssl.server.keystore.location": str(folder / KEY_STORE),
        "ssl.server.keystore.password": password,
        "ssl.server.keystore.keypassword": password,
        "ssl.server.keystore.type": "pkcs12",
    }
    client = {
        "ssl.client.truststore.location": str(folder / TRUSTSTORE),
        "ssl.client.truststore.password": password,
        "ssl.client.truststore.type": "jks",
    }
    files: dict[Path, bytes] = {
        folder / KEY_STORE: key_store,
        folder / TRUSTSTORE: jks_truststore(authority, password),
        plan.paths.conf / "ssl-server.xml": properties_xml(server).encode(),
        plan.paths.conf / "ssl-client.xml": properties_xml(client).encode(),
    }
    for path, content in files.items():
        path.touch(mode=0o600)
        path.write_bytes(content)
    if plan.zookeeper is not None:
        _let_zookeeper_encrypt(plan, folder / KEY_STORE, password)


def _let_zookeeper_encrypt(plan: ClusterPlan, key_store: Path, password: str) -> None:
    """On a port beside its usual one."""
    settings = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": str(plan.ports["zookeeper_tls"]),
        "secureClientPortAddress": plan.master,
        "ssl.keyStore.location": str(key_store),
        "ssl.keyStore.password": password,
        "ssl.keyStore.type": "PKCS12",
        "ssl.clientAuth": "none",
    }
    file = plan.paths.daemon_conf("zk") / "zoo.cfg"
    file.chmod(0o600)
    with file.open("a", encoding="utf-8") as config:
        config.writelines(f"{key}={value}\n" for key, value in settings.items())


def make_stores(addresses: list[str], password: str) -> tuple[bytes, bytes]:
    """``(key store in PKCS12, the authority's certificate in DER)``."""
    start = dt.datetime.now(dt.timezone.utc) - dt.timedelta(minutes=5)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = (
        _builder(_AUTHORITY, _AUTHORITY, authority_key.public_key(), start)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    certificate = (
        _builder("daemon", _AUTHORITY, key.public_key(), start)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    store = pkcs12.serialize_key_and_certificates(
        b"daemon",
        key,
        certificate,
        [authority],
        serialization.BestAvailableEncryption(password.encode()),
    )
    return store, authority.public_bytes(serialization.Encoding.DER)


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePublicKey, start: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=DAYS))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def jks_truststore(certificate: bytes, password: str) -> bytes:
    """One trusted certificate (DER) as Java's ``JavaKeyStore`` has it. Java takes no certificate of
    a PKCS12 store for trusted that lacks an attribute of Oracle's own."""
    alias, kind = b"authority", b"X.509"
    body = b"".join(
        (
            struct.pack(">IIII", 0xFEEDFEED, 2, 1, 2),
            struct.pack(">H", len(alias)) + alias,
            struct.pack(">Q", 0),
            struct.pack(">H", len(kind)) + kind,
            struct.pack(">I", len(certificate)) + certificate,
        )
    )
    # JavaKeyStore.getPreKeyedHash: against chance damage, no more.
    seal = hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body)  # noqa: S324
    return body + seal.digest()

"""The site's certificate authority, from truststores as Java's keytool and others write them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from hdfs_utils.config import site_authority
from hdfs_utils.errors import BadConfig
from yarnam.cluster.hadoop.cluster_tls import jks_truststore, make_stores

PASSWORD = "changeit"
_, AUTHORITY = make_stores(["127.0.0.1"], PASSWORD)
PEM = ssl.DER_cert_to_PEM_cert(AUTHORITY)


def pkcs12_store(password: str = PASSWORD) -> bytes:
    return pkcs12.serialize_key_and_certificates(
        None,
        None,
        None,
        [x509.load_der_x509_certificate(AUTHORITY)],
        serialization.BestAvailableEncryption(password.encode()),
    )


def conf(tmp_path: Path, store: bytes, password: str = PASSWORD) -> Path:
    (tmp_path / "trust.jks").write_bytes(store)  # the suffix says nothing
    rows = {
        "ssl.client.truststore.location": str(tmp_path / "trust.jks"),
        "ssl.client.truststore.password": password,
    }
    xml = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in rows.items()
    )
    (tmp_path / "ssl-client.xml").write_text(f"<configuration>{xml}</configuration>")
    return tmp_path


@pytest.mark.parametrize(
    "store", [jks_truststore(AUTHORITY, PASSWORD), pkcs12_store(), PEM.encode()]
)
def test_the_first_bytes_decide_what_it_is(tmp_path: Path, store: bytes) -> None:
    directory = conf(tmp_path, store)
    assert site_authority.authority(directory) == PEM
    subjects = [each["subject"] for each in site_authority.tls_context(directory).get_ca_certs()]
    assert ((("commonName", "yarnam embedded cluster"),),) in subjects


def test_an_authority_beside_the_configuration_needs_no_truststore(tmp_path: Path) -> None:
    (tmp_path / "site-authority.pem").write_text(PEM)
    assert site_authority.authority(tmp_path) == PEM


def test_a_site_without_one_trusts_what_the_machine_trusts(tmp_path: Path) -> None:
    assert site_authority.authority(tmp_path) == ""
    assert site_authority.tls_context(tmp_path).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("store", "password", "says"),
    [
        (pkcs12_store(), "wrong", "truststore.password is wrong"),
        (jks_truststore(AUTHORITY, PASSWORD)[:200], PASSWORD, "damaged"),
        (b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\0", PASSWORD, "no certificate"),
        (b"something else", PASSWORD, "neither JKS nor PKCS12 nor PEM"),
    ],
)
def test_what_is_wrong_with_a_truststore_is_said(
    tmp_path: Path, store: bytes, password: str, says: str
) -> None:
    with pytest.raises(BadConfig, match=says) as caught:
        site_authority.authority(conf(tmp_path, store, password))
    assert str(tmp_path / "trust.jks") in str(caught.value)


def test_a_truststore_that_is_not_there_is_named(tmp_path: Path) -> None:
    directory = conf(tmp_path, PEM.encode())
    (tmp_path / "trust.jks").unlink()
    with pytest.raises(BadConfig, match="No such file"):
        site_authority.authority(directory)

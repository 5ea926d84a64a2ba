from __future__ import annotations

import datetime as dt
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from yarnam.errors import BadConfig
from yarnam.wire.credentials import new_credentials, split
from yarnam.wire.protocol import TLS_NAME

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)


def test_certificate_says_what_peers_check() -> None:
    certificate, key = split(new_credentials(10, now=NOW))
    read = x509.load_pem_x509_certificate(certificate)
    names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [TLS_NAME]
    assert read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert read.not_valid_before_utc == NOW - dt.timedelta(days=1), "a late clock takes it"
    assert read.not_valid_after_utc == NOW + dt.timedelta(days=10)
    read.verify_directly_issued_by(read)
    private = serialization.load_pem_private_key(key, password=None)
    public = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    assert private.public_key().public_bytes(*public) == read.public_key().public_bytes(*public)


def test_no_two_jobs_share_credentials() -> None:
    assert new_credentials() != new_credentials()


@pytest.mark.parametrize("damage", [b"", b"garbage"])
def test_damaged_credentials_are_refused(damage: bytes) -> None:
    with pytest.raises(BadConfig, match="not a certificate followed by its private key"):
        split(damage)


def test_cut_or_swapped_credentials_are_refused() -> None:
    certificate, key = split(new_credentials())
    for wrong in (certificate, key, key + certificate):
        with pytest.raises(BadConfig):
            split(wrong)


def test_reading_credentials_does_not_load_cryptography() -> None:
    code = (
        "import sys, yarnam.wire.credentials, yarnam.wire.tls;"
        "sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

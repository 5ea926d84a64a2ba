"""The job's certificate: one self-signed certificate that is CA and identity of every party.

A job's credentials are one PEM text, the certificate followed by its private key. Whoever holds
it belongs to the job; it travels only in files that the job's user alone can read. Peers check the
name ``TLS_NAME`` in it instead of a host name, because containers have none of their own.
"""

from __future__ import annotations

import datetime as dt

from yarnam.errors import BadConfig
from yarnam.wire.protocol import TLS_NAME

VALID_DAYS = 400
"""Default life: a job may wait a week for room and train for months; it dies with the job's
directory long before."""

CLOCK_SKEW_DAYS = 1
"""The certificate is valid from a day ago, so that a node whose clock is behind takes it."""

_KEY_MARK = b"-----BEGIN PRIVATE KEY-----"
_CERTIFICATE_MARK = b"-----BEGIN CERTIFICATE-----"


def new_credentials(valid_days: int = VALID_DAYS, *, now: dt.datetime | None = None) -> bytes:
    """PEM of a fresh certificate and its key (EC P-256). ``now`` (aware) is for tests."""
    # Heavy, and of use to the client only: agents and AM read what it made.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    start = now or dt.datetime.now(dt.timezone.utc)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, TLS_NAME)])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    purposes = x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - dt.timedelta(days=CLOCK_SKEW_DAYS))
        .not_valid_after(start + dt.timedelta(days=valid_days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(TLS_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(purposes, critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def split(pem: bytes) -> tuple[bytes, bytes]:
    """``(certificate, key)`` of a credentials file. Raises BadConfig on anything else."""
    start = pem.find(_KEY_MARK)
    if start <= 0 or not pem.lstrip().startswith(_CERTIFICATE_MARK):
        raise BadConfig(
            "the job's credentials are not a certificate followed by its private key",
            hint="They are made at submit; the copy is damaged or cut short. Submit the job again.",
        )
    return pem[:start], pem[start:]

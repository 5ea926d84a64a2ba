"""The job's certificate: one self-signed certificate that is CA and identity of every party.

A job's credentials are one PEM text, the certificate followed by its private key. Its holder
belongs to the job; it travels only in files that the job's user alone can read. Peers check the
name ``TLS_NAME`` in it instead of a host name, because containers have none of their own.
"""

from __future__ import annotations

import datetime as dt

from yarnam._light_imports import on_first_use
from yarnam.errors import BadConfig
from yarnam.wire.protocol import TLS_NAME

with on_first_use():  # cryptography is for the client only: agents and AM read what it made
    from yarnam.wire import certificates

VALID_DAYS = 400
"""Default life: a job may wait a week for room and train for months; it dies with the job's
directory long before."""

CLOCK_SKEW_DAYS = 1
"""The certificate is valid from a day ago, so that a node whose clock is behind takes it."""

_KEY_MARK = b"-----BEGIN PRIVATE KEY-----"
_CERTIFICATE_MARK = b"-----BEGIN CERTIFICATE-----"


def new_credentials(valid_days: int = VALID_DAYS, *, now: dt.datetime | None = None) -> bytes:
    """PEM of a fresh certificate and its key. ``now`` (aware) is for tests."""
    start = (now or dt.datetime.now(dt.timezone.utc)) - dt.timedelta(days=CLOCK_SKEW_DAYS)
    days = valid_days + CLOCK_SKEW_DAYS
    certificate, key = certificates.self_signed(TLS_NAME, start, days, is_authority=True)
    return certificate + key


def split(pem: bytes) -> tuple[bytes, bytes]:
    """``(certificate, key)`` of a credentials file. Raises BadConfig on anything else."""
    start = pem.find(_KEY_MARK)
    if start <= 0 or not pem.lstrip().startswith(_CERTIFICATE_MARK):
        raise BadConfig(
            "the job's credentials are not a certificate followed by its private key",
            hint="They are made at submit; the copy is damaged or cut short. Submit the job again.",
        )
    return pem[:start], pem[start:]

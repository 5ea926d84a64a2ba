"""The site's own certificate authority: HTTPS to Hadoop's daemons is checked against it.

Hadoop's clients find it in ``ssl-client.xml``: a truststore in Java's own format (JKS), in PKCS12,
or, as Hadoop does not have it, in PEM. What it is is decided by its first bytes, not by its name
or ``type``: Java's keytool writes PKCS12 since version 9, whatever the suffix says. A directory
with ``site-authority.pem`` needs no truststore: that is how the authority travels with a job.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

from hdfs_utils.config import configuration
from hdfs_utils.errors import BadConfig

AUTHORITY_FILE = "site-authority.pem"
_DEFAULT_CLIENT_FILE = "ssl-client.xml"
_LOCATION = "ssl.client.truststore.location"
_PASSWORD = "ssl.client.truststore.password"  # noqa: S105 - a name
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_TRUSTED = 2
# The truststore of a JRE, with every public authority, is some 200 KB.
MAX_TRUSTSTORE_BYTES = 16 << 20


def tls_context(conf_dir: str | Path | None) -> ssl.SSLContext:
    """Trusts what this machine trusts, and the site's own authority. Every certificate is checked,
    host name included.

    Raises:
        BadConfig: the truststore cannot be read.
    """
    context = ssl.create_default_context()
    if pem := authority(conf_dir):
        context.load_verify_locations(cadata=pem)
    return context


def authority(conf_dir: str | Path | None) -> str:
    """The site's authorities in PEM; empty where it names none.

    Args:
        conf_dir: of Hadoop's configuration; by default that of the environment.

    Raises:
        BadConfig: the truststore cannot be read.
    """
    directory = conf_dir or configuration.conf_dir_from_environment()
    if not directory:
        return ""
    own = Path(directory) / AUTHORITY_FILE
    if own.is_file():
        return _pem_text(_content(own), own)
    core = configuration.load(directory, files=("core-site.xml",))
    name = core.get("hadoop.ssl.client.conf", _DEFAULT_CLIENT_FILE)
    settings = configuration.load(directory, files=(name,))
    location = settings.get(_LOCATION, "")
    if not location:
        return ""
    store = Path(location)
    return read_truststore(_content(store), settings.get(_PASSWORD, ""), store)


def read_truststore(data: bytes, password: str, path: Path) -> str:
    """The certificates of a truststore in PEM.

    Raises:
        BadConfig: it is damaged, or of another format, or the password is wrong.
    """
    if data.startswith(_JKS_MAGIC):
        try:
            found = list(_jks_certificates(data))
        except (struct.error, IndexError, ValueError) as error:
            raise BadConfig("the truststore is damaged", path=str(path)) from error
    elif data[:1] == b"\x30":
        found = _pkcs12_certificates(data, password, path)
    else:
        return _pem_text(data, path)
    if not found:
        raise BadConfig("the truststore has no certificate of an authority", path=str(path))
    return "".join(ssl.DER_cert_to_PEM_cert(each) for each in found)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TRUSTSTORE_BYTES + 1)
    except OSError as error:
        message = f"the truststore cannot be read: {error.strerror}; ssl-client.xml names it"
        raise BadConfig(message, path=str(path)) from error
    if len(data) > MAX_TRUSTSTORE_BYTES:
        raise BadConfig("too large for a truststore", path=str(path))
    return data


def _pem_text(data: bytes, path: Path) -> str:
    text = data.decode("ascii", errors="replace")
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise BadConfig("neither JKS nor PKCS12 nor PEM", path=str(path))
    return text


def _jks_certificates(data: bytes) -> Iterator[bytes]:
    """Java's ``JavaKeyStore``: trusted certificates are plain; the password only seals the whole
    against chance damage."""
    _, version, count = struct.unpack_from(">III", data)
    position = 12
    for _ in range(count):
        (tag,) = struct.unpack_from(">I", data, position)
        if tag != _TRUSTED:
            raise ValueError("a private key in a truststore")
        _, position = _text(data, position + 4)  # the alias
        position += 8  # the date
        if version == 2:
            _, position = _text(data, position)  # "X.509"
        (size,) = struct.unpack_from(">I", data, position)
        position += 4
        if position + size > len(data):
            raise ValueError("cut off")
        yield data[position : position + size]
        position += size


def _text(data: bytes, position: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">H", data, position)
    end = position + 2 + size
    if end > len(data):
        raise ValueError("cut off")
    return data[position + 2 : end], end


def _pkcs12_certificates(data: bytes, password: str, path: Path) -> list[bytes]:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
    except ImportError as error:
        message = "the truststore is PKCS12, and the package cryptography is not installed"
        raise BadConfig(message, path=str(path)) from error
    try:
        store = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError as error:
        message = "cannot be opened: ssl.client.truststore.password is wrong, or it is damaged"
        raise BadConfig(message, path=str(path)) from error
    return [each.certificate.public_bytes(Encoding.DER) for each in store.additional_certs]

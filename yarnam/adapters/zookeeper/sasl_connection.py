"""ZooKeeper by Kerberos: kazoo's connection with a SASL exchange of our own.

kazoo's own way needs pure-sasl and a compiled package ``kerberos``, neither of which yarnam brings.
"""

from __future__ import annotations

import logging
from contextlib import closing

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL

from hdfs_utils.errors import HdfsError
from hdfs_utils.protocols.sasl_gssapi import SaslGssapi

log = logging.getLogger("yarnam.zookeeper")

SERVICE = "zookeeper"
"""First part of the servers' principals: what ZooKeeper's own clients expect, unless told."""


class SaslConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """Authenticates each connection by the process's ticket, or by a keytab."""

    keytab = ""

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """In kazoo's thread, when the session is there. What it raises ends the session."""
        try:
            with closing(SaslGssapi(f"{SERVICE}@{host}", self.keytab)) as exchange:
                self._exchange(exchange, timeout)
        except HdfsError as error:
            log.warning("ZooKeeper at %s: no Kerberos: %s", host, error)
            raise AuthFailedError(str(error)) from error

    def _exchange(self, exchange: SaslGssapi, timeout: float) -> None:
        challenge, xid = b"", 0
        while not exchange.is_complete:
            xid += 1
            self._submit(SASL(exchange.next_token(challenge)), timeout, xid)
            header, buffer, offset = self._read_header(timeout)
            if header.xid != xid or header.err:
                raise AuthFailedError(f"ZooKeeper refuses Kerberos (error {header.err})")
            challenge, _ = SASL.deserialize(buffer, offset)


def by_kerberos(client: KazooClient, keytab: str = "") -> None:
    """Let the client, not started yet, authenticate so."""
    tries = client._conn_retry.copy()  # noqa: SLF001 - as KazooClient makes its own
    connection = SaslConnection(client, tries, logger=client.logger, sasl_options={})
    connection.keytab = keytab
    client._connection = connection  # noqa: SLF001 - there is no other way in

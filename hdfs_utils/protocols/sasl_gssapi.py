"""Kerberos for services that speak SASL (mechanism GSSAPI, RFC 4752), such as ZooKeeper.

Without encryption after it: who wants that uses TLS.
"""

from __future__ import annotations

from hdfs_utils.errors import NotAuthenticated
from hdfs_utils.protocols import gssapi

NO_SECURITY_LAYER = b"\x01\x00\x00\x00"
"""Client's choice: authentication only, and so no buffer."""


class SaslGssapi:
    """The client's side of one exchange.

    Args:
        service: as in ``zookeeper@host``.
        keytab: gets the ticket in place of the process's own credentials; empty means those.
    """

    def __init__(self, service: str, keytab: str = "") -> None:
        self._context = gssapi.Initiator(service, keytab)
        self.is_complete = False

    def next_token(self, challenge: bytes) -> bytes:
        """The answer to ``challenge``, which is empty at first.

        Raises:
            NotAuthenticated: there is no ticket, or the service's answer is not its own.
        """
        if not self._context.is_established:
            return self._context.step(challenge)
        offer = self._context.unwrap(challenge)
        if len(offer) < 4 or not offer[0] & NO_SECURITY_LAYER[0]:
            raise NotAuthenticated(
                "the service insists on encryption by SASL; use TLS", operation="kerberos"
            )
        self.is_complete = True
        return self._context.wrap(NO_SECURITY_LAYER)

    def close(self) -> None:
        """Idempotent."""
        self._context.close()

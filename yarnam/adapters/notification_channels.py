"""Notifications by webhook, Slack-like webhook and mail, with the standard library alone: what runs
on the nodes is only what the runtime archive has (docs/adr/0035)."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Sequence
from dataclasses import asdict
from email.message import EmailMessage
from email.utils import formatdate
from html import escape
from urllib.parse import unquote, urlsplit

from hdfs_utils import HdfsError
from hdfs_utils.config import site_authority
from yarnam.core.model.job_spec import ChannelKind, ChannelSpec
from yarnam.core.model.printable import printable
from yarnam.errors import Unavailable
from yarnam.ports.notifications import Notification
from yarnam.wire.exchange_deadline import ExchangeDeadline
from yarnam.wire.http_request import HttpError, request

TIMEOUT_S = 10.0
"""To connect, and between two bytes."""

LIMIT_S = 30.0
"""For the whole exchange with a receiver."""

MAX_REPLY_BYTES = 1 << 20
"""The body of a receiver's answer is not used."""


class ChannelSender:
    """A ``ports.notifications.NotificationSender``. ``channels``: with their URLs. Thread-safe."""

    def __init__(self, channels: Sequence[ChannelSpec]) -> None:
        self._channels = tuple(channels)

    def describe(self, channel: int) -> str:
        one = self._channels[channel]
        return f"{one.kind.value} at {urlsplit(one.url).hostname}"

    def send(self, channel: int, notification: Notification) -> None:
        one = self._channels[channel]
        if one.kind is ChannelKind.MAIL:
            _mail(one, notification)
        else:
            _post(one, notification)


def _post(channel: ChannelSpec, notification: Notification) -> None:
    # Slack's markup begins with <, as in <!channel>; these three characters are all of it.
    body: dict[str, object] = {"text": escape(printable(notification.text, keep="\n"), quote=False)}
    if channel.kind is ChannelKind.WEBHOOK:
        body = {**asdict(notification), "state": notification.state.value}
    try:
        request(
            channel.url,
            method="POST",
            body=body,
            timeout_s=TIMEOUT_S,
            tls=_tls_context() if channel.url.startswith("https:") else None,
            max_bytes=MAX_REPLY_BYTES,
            limit_s=LIMIT_S,
            follows=False,  # Followed, a POST becomes a GET to wherever the receiver says.
        )
    except HttpError as error:
        # Neither the URL nor what was answered: a receiver may quote the request.
        said = f"HTTP {error.status}" if error.status else "no answer"
        raise Unavailable(said) from None


def _mail(channel: ChannelSpec, notification: Notification) -> None:
    parts = urlsplit(channel.url)
    message = EmailMessage()
    message["Subject"] = " ".join(printable(notification.subject).split())
    message["From"] = channel.sender or f"{notification.user}@{parts.hostname}"
    message["To"] = ", ".join(channel.to)
    message["Date"] = formatdate(notification.at_s)
    message["Message-ID"] = f"<{notification.id}@yarnam>"
    message.set_content(printable(notification.text, keep="\n"))
    try:
        context = _tls_context()
        with (
            ExchangeDeadline(LIMIT_S) as deadline,
            _server(parts.scheme, parts.hostname or "", parts.port or 0, context, deadline) as smtp,
        ):
            if parts.scheme == "smtp":
                if smtp.has_extn("starttls"):
                    smtp.starttls(context=context)
                elif parts.username:
                    # Whoever stands between can leave out the server's offer, to read the password.
                    raise Unavailable("no STARTTLS, and a password is not sent without TLS")
            if parts.username:
                smtp.login(unquote(parts.username), unquote(parts.password or ""))
            smtp.send_message(message)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        code = getattr(error, "smtp_code", None)
        said = f"SMTP {code}" if code else type(error).__name__
        raise Unavailable(said) from None


def _tls_context() -> ssl.SSLContext:
    """Trusts the site's own authority too: receivers are often inside. Raises Unavailable."""
    try:
        return site_authority.tls_context(None)
    except HdfsError as error:
        raise Unavailable(f"the site's certificate authority: {error}") from None


def _server(
    scheme: str, host: str, port: int, context: ssl.SSLContext, deadline: ExchangeDeadline
) -> smtplib.SMTP:
    """``port`` 0: the protocol's own, 25 or 465."""
    kind = _LimitedTls if scheme == "smtps" else _Limited
    return kind(host, port, context, deadline)


class _Limited(smtplib.SMTP):
    """Opens its connection through a deadline."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext, deadline: ExchangeDeadline
    ) -> None:
        self.tls = context
        self.deadline = deadline
        super().__init__(host, port, timeout=TIMEOUT_S)
        self.ehlo_or_helo_if_needed()

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self.deadline.connect((host, port), timeout)


class _LimitedTls(_Limited):
    """The same with TLS from the first byte on."""

    default_port = smtplib.SMTP_SSL_PORT

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self.tls.wrap_socket(super()._get_socket(host, port, timeout), server_hostname=host)

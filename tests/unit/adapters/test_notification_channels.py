"""Notifications as receivers get them: HTTP and SMTP servers on loopback."""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email import message_from_string
from email.policy import default
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.fakes.dripping import Dripping
from yarnam.adapters import notification_channels
from yarnam.adapters.notification_channels import ChannelSender
from yarnam.core.model.job_spec import ChannelKind, ChannelSpec
from yarnam.core.model.job_status import JobState
from yarnam.errors import Unavailable
from yarnam.ports.notifications import Notification
from yarnam.wire.certificates import self_signed

NOTE = Notification(
    id="0123456789abcdef",
    application="application_1_0002",
    name="digits",
    user="me",
    queue="root.dl",
    state=JobState.FAILED,
    at_s=1700000000.0,
    message="rank 3 exited with 1: \x1b[31mKeyError",
    hint="yarnam logs application_1_0002 --rank 3",
    exit_code=90,
)
SECRET = "T0K3N"


class Receiver:
    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []
        self.status = 200
        self.location = ""
        self.server: HTTPServer


@contextmanager
def served(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.bodies.append(json.loads(body))
            self.send_response(found.status)
            if found.location:
                self.send_header("Location", found.location)
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = found.server = HTTPServer(("127.0.0.1", 0), Handler)
    with served(server):
        yield found, f"http://127.0.0.1:{server.server_port}/services/{SECRET}"


class MailHandler(socketserver.StreamRequestHandler):
    """As much of SMTP as a mail takes (RFC 5321)."""

    def handle(self) -> None:
        mails: list[str] = self.server.mails  # type: ignore[attr-defined]
        seen: list[str] = self.server.seen  # type: ignore[attr-defined]
        self.reply("220 loopback")
        while line := self.rfile.readline().decode().strip():
            seen.append(line)
            verb = line.upper().split()[0]
            context: ssl.SSLContext | None = self.server.context  # type: ignore[attr-defined]
            if verb == "EHLO":
                offer = "250-STARTTLS\r\n" if context is not None else ""
                self.reply(f"250-loopback\r\n{offer}250 AUTH PLAIN")
            elif verb == "STARTTLS" and context is not None:
                self.reply("220 go ahead")
                with suppress(OSError):
                    self.connection = context.wrap_socket(self.connection, server_side=True)
                    self.rfile = self.connection.makefile("rb")
                    self.wfile = socketserver._SocketWriter(self.connection)  # type: ignore[attr-defined]
            elif verb == "AUTH":
                self.reply("235 welcome")
            elif verb == "RCPT" and "refused" in line:
                self.reply(f"550 no such user: {line}")
            elif verb == "DATA":
                self.reply("354 go on")
                lines = []
                while (text := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                    lines.append(text)
                mails.append("\n".join(lines))
                self.reply("250 taken")
            elif verb == "QUIT":
                self.reply("221 bye")
                return
            else:
                self.reply("250 ok")

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def reply(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def mail_server() -> Iterator[socketserver.TCPServer]:
    server = socketserver.TCPServer(("127.0.0.1", 0), MailHandler)
    server.mails, server.seen = [], []  # type: ignore[attr-defined]
    server.context = None  # type: ignore[attr-defined]
    with served(server):
        yield server


@pytest.fixture
def tls_mail_server(
    mail_server: socketserver.TCPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> socketserver.TCPServer:
    """With STARTTLS, and a certificate of the site's own authority for `localhost`."""
    start = datetime.now(timezone.utc) - timedelta(minutes=5)
    certificate, key = self_signed("localhost", start, 1, is_authority=True)
    (tmp_path / "site-authority.pem").write_bytes(certificate)
    (tmp_path / "server.pem").write_bytes(certificate + key)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    mail_server.context = context  # type: ignore[attr-defined]
    return mail_server


def test_a_webhook_gets_all_as_json(receiver: tuple[Receiver, str]) -> None:
    found, url = receiver
    ChannelSender([ChannelSpec(ChannelKind.WEBHOOK, url)]).send(0, NOTE)
    (body,) = found.bodies
    assert body["id"] == NOTE.id
    assert (body["state"], body["exit_code"]) == ("FAILED", 90)
    assert body["message"] == NOTE.message, "exact: a program reads it"


def test_slack_gets_a_text_that_is_safe_to_show(receiver: tuple[Receiver, str]) -> None:
    found, url = receiver
    ChannelSender([ChannelSpec(ChannelKind.SLACK, url)]).send(0, NOTE)
    (body,) = found.bodies
    assert body == {
        "text": "digits (application_1_0002) FAILED, user me, queue root.dl\n"
        "rank 3 exited with 1: \\x1b[31mKeyError\n"
        "yarnam logs application_1_0002 --rank 3"
    }


def test_no_secret_is_in_an_error_or_a_description(receiver: tuple[Receiver, str]) -> None:
    """The receiver of this test quotes the path, which has the token."""
    found, url = receiver
    found.status = 404
    sender = ChannelSender([ChannelSpec(ChannelKind.SLACK, url)])
    with pytest.raises(Unavailable) as caught:
        sender.send(0, NOTE)
    assert str(caught.value) == "HTTP 404"
    assert caught.value.__cause__ is None
    assert sender.describe(0) == "slack at 127.0.0.1"
    assert SECRET not in repr(ChannelSpec(ChannelKind.SLACK, url))


def test_nobody_there(unused_port: int) -> None:
    channel = ChannelSpec(ChannelKind.WEBHOOK, f"http://127.0.0.1:{unused_port}/{SECRET}")
    with pytest.raises(Unavailable, match=r"^no answer$"):
        ChannelSender([channel]).send(0, NOTE)


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_mail(tls_mail_server: socketserver.TCPServer) -> None:
    mail_server = tls_mail_server
    port = mail_server.server_address[1]
    channel = ChannelSpec(
        ChannelKind.MAIL,
        f"smtp://user:p%40ss@localhost:{port}",
        to=("a@example.com", "b@example.com"),
        sender="yarnam@example.com",
    )
    ChannelSender([channel]).send(0, NOTE)
    (text,) = mail_server.mails  # type: ignore[attr-defined]
    mail = message_from_string(text, policy=default)
    assert mail["Subject"] == "digits (application_1_0002) FAILED"
    assert mail["To"] == "a@example.com, b@example.com"
    assert mail["Message-ID"] == f"<{NOTE.id}@yarnam>"
    content = mail.get_content()
    assert "\\x1b[31mKeyError" in content
    assert "yarnam logs" in content
    seen = mail_server.seen  # type: ignore[attr-defined]
    assert any(line.startswith("AUTH PLAIN") for line in seen)
    assert sum(line.startswith("rcpt") for line in map(str.lower, seen)) == 2


def test_a_password_is_not_sent_where_starttls_is_missing(
    mail_server: socketserver.TCPServer,
) -> None:
    """A relay between leaves out the server's offer, and reads what comes then."""
    port = mail_server.server_address[1]
    url = f"smtp://user:{SECRET}@127.0.0.1:{port}"
    sender = ChannelSender([ChannelSpec(ChannelKind.MAIL, url, to=("a@example.com",))])
    with pytest.raises(Unavailable, match="no STARTTLS") as caught:
        sender.send(0, NOTE)
    assert SECRET not in str(caught.value)
    assert mail_server.mails == []  # type: ignore[attr-defined]
    verbs = {line.upper().split()[0] for line in mail_server.seen}  # type: ignore[attr-defined]
    assert verbs <= {"EHLO", "QUIT"}


def test_a_mail_without_a_user_name_needs_no_tls(mail_server: socketserver.TCPServer) -> None:
    url = f"smtp://127.0.0.1:{mail_server.server_address[1]}"
    ChannelSender([ChannelSpec(ChannelKind.MAIL, url, to=("a@example.com",))]).send(0, NOTE)
    assert len(mail_server.mails) == 1  # type: ignore[attr-defined]


def test_a_certificate_of_nobody_known_gets_no_password(
    tls_mail_server: socketserver.TCPServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "other"))
    url = f"smtp://user:{SECRET}@localhost:{tls_mail_server.server_address[1]}"
    sender = ChannelSender([ChannelSpec(ChannelKind.MAIL, url, to=("a@example.com",))])
    with pytest.raises(Unavailable, match="SSLCertVerificationError"):
        sender.send(0, NOTE)
    assert not any("AUTH" in line for line in tls_mail_server.seen)  # type: ignore[attr-defined]


def test_a_webhook_inside_has_the_sites_certificate(
    receiver: tuple[Receiver, str], tls_mail_server: socketserver.TCPServer
) -> None:
    found, url = receiver
    server, context = found.server, tls_mail_server.context  # type: ignore[attr-defined]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    https = url.replace("http://127.0.0.1", "https://localhost")
    ChannelSender([ChannelSpec(ChannelKind.WEBHOOK, https)]).send(0, NOTE)
    assert len(found.bodies) == 1


def test_a_mail_that_is_refused_quotes_nothing(tls_mail_server: socketserver.TCPServer) -> None:
    port = tls_mail_server.server_address[1]
    url = f"smtp://user:{SECRET}@localhost:{port}"
    channel = ChannelSpec(ChannelKind.MAIL, url, to=("refused@example.com",))
    sender = ChannelSender([channel])
    with pytest.raises(Unavailable) as caught:
        sender.send(0, NOTE)
    assert str(caught.value) == "SMTPRecipientsRefused"
    assert SECRET not in sender.describe(0)


def test_a_receiver_that_redirects_has_not_taken_it(receiver: tuple[Receiver, str]) -> None:
    found, url = receiver
    found.status, found.location = 302, f"{url}/elsewhere"
    with pytest.raises(Unavailable, match=r"^HTTP 302$"):
        ChannelSender([ChannelSpec(ChannelKind.WEBHOOK, url)]).send(0, NOTE)


def test_a_mail_over_tls_from_the_first_byte(tls_mail_server: socketserver.TCPServer) -> None:
    context: ssl.SSLContext = tls_mail_server.context  # type: ignore[attr-defined]
    tls_mail_server.socket = context.wrap_socket(tls_mail_server.socket, server_side=True)
    url = f"smtps://user:{SECRET}@localhost:{tls_mail_server.server_address[1]}"
    ChannelSender([ChannelSpec(ChannelKind.MAIL, url, to=("a@example.com",))]).send(0, NOTE)
    assert len(tls_mail_server.mails) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("scheme", ["http", "https", "smtp", "smtps"])
def test_a_receiver_that_sends_byte_after_byte_is_left(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification_channels, "LIMIT_S", 0.3)
    first = {"smtp": b"220 ", "http": b"HTTP/1.0 200 OK\r\nX: "}.get(scheme, b"")
    with closing(Dripping(first)) as server:
        url = f"{scheme}://127.0.0.1:{server.port}"
        kind = ChannelKind.MAIL if "smtp" in scheme else ChannelKind.WEBHOOK
        began_s = time.monotonic()
        with pytest.raises(Unavailable):
            ChannelSender([ChannelSpec(kind, url, to=("a@example.com",))]).send(0, NOTE)
        assert time.monotonic() - began_s < notification_channels.TIMEOUT_S


def test_slacks_own_markup_is_text(receiver: tuple[Receiver, str]) -> None:
    found, url = receiver
    note = replace(NOTE, message="<!channel> a & <https://example.com|here>", hint="")
    ChannelSender([ChannelSpec(ChannelKind.SLACK, url)]).send(0, note)
    ((_, text),) = found.bodies[0].items()
    assert isinstance(text, str)
    assert "&lt;!channel&gt; a &amp; &lt;https://example.com|here&gt;" in text

"""TensorBoard as ``yarnam tensorboard`` starts it: with its own arguments, for its own user alone.

TensorBoard itself answers every user of the machine, and shows what its plug-ins can read as the
user who runs it. Here it answers under the same conditions as ``yarnam ui``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from yarnam.web.http.http_messages import text_response
from yarnam.web.http.local_peers import is_loopback_name, is_own_peer
from yarnam.web.http.url_token import ABSENT, UrlToken

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""As WSGI has it."""
CONNECTION = "werkzeug.socket"
"""Werkzeug's key for the accepted socket of a request."""
SECRET_VARIABLE = "YARNAM_TENSORBOARD_TOKEN"  # noqa: S105 - its name
NOT_YOURS = "TensorBoard answers the user who has started it, as http://127.0.0.1:PORT/."


def for_own_user(application: Application, token: UrlToken) -> Application:
    """``application``, which does not get to see the requests of others."""

    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if is_loopback_name(str(environ.get("HTTP_HOST", ""))) and _is_own(environ):
            if token.is_in(str(environ.get("HTTP_COOKIE", ""))):
                return application(environ, start_response)
            query = dict(parse_qsl(str(environ.get("QUERY_STRING", ""))))
            response = token.entry(str(environ.get("PATH_INFO", "/")), query)
            response = response or text_response(HTTPStatus.FORBIDDEN, ABSENT)
        else:
            response = text_response(HTTPStatus.FORBIDDEN, NOT_YOURS)
        headers = [("Content-Type", response.kind), ("Content-Length", str(len(response.body)))]
        if response.location:
            headers += [("Location", response.location), ("Set-Cookie", response.cookie)]
        start_response(f"{response.status} {HTTPStatus(response.status).phrase}", headers)
        return [response.body]

    return guarded


def _is_own(environ: dict[str, Any]) -> bool:
    try:
        connection = environ[CONNECTION]
        return is_own_peer(connection.getpeername()[:2], connection.getsockname()[:2])
    except (KeyError, OSError):
        return False


def main() -> None:
    """With TensorBoard's own arguments; does not return."""
    from absl import app
    from tensorboard import default, main_lib, program
    from tensorboard.plugins import base_plugin

    secret = os.environ.pop(SECRET_VARIABLE)

    class Server(program.WerkzeugServer):  # type: ignore[misc]
        def __init__(self, wsgi_app: Application, flags: Any) -> None:
            super().__init__(for_own_user(wsgi_app, UrlToken(secret, flags.port)), flags)

    main_lib.global_init()
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=Server)
    try:
        app.run(board.main, flags_parser=board.configure)
    except base_plugin.FlagsError as error:
        sys.exit(f"TensorBoard's arguments: {error}")

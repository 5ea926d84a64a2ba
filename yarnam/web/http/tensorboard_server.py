"""TensorBoard as ``yarnam tensorboard`` starts it: with its own arguments, for its own user alone.

TensorBoard itself answers everybody on the machine, and shows what its plug-ins can read as the
user who runs it. It is asked here under the same conditions as ``yarnam ui``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from yarnam.web.http.local_peers import is_loopback_name, is_own_peer

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""As WSGI has it."""


def for_own_user(application: Application) -> Application:
    """``application``, which does not get to see what others ask."""

    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", ""))
        peer, port = str(environ.get("REMOTE_ADDR", "")), int(environ.get("REMOTE_PORT", 0))
        if is_loopback_name(host) and is_own_peer(peer, port):
            return application(environ, start_response)
        body = b"TensorBoard answers the user who has started it, as http://127.0.0.1:PORT/.\n"
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
        start_response("403 Forbidden", headers)
        return [body]

    return guarded


def main() -> None:
    """With TensorBoard's own arguments; does not return."""
    from absl import app
    from tensorboard import default, main_lib, program
    from tensorboard.plugins import base_plugin

    class Server(program.WerkzeugServer):  # type: ignore[misc]
        def __init__(self, wsgi_app: Application, flags: Any) -> None:
            super().__init__(for_own_user(wsgi_app), flags)

    main_lib.global_init()
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=Server)
    try:
        app.run(board.main, flags_parser=board.configure)
    except base_plugin.FlagsError as error:
        sys.exit(f"TensorBoard's arguments: {error}")

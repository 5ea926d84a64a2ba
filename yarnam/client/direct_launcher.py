"""The way into YARN without a JVM: the ResourceManager's REST API.

Skein's own way is its driver, a Java process that takes a second to start and needs Java and
Hadoop's scripts on the submitting machine. The application that YARN gets is the same (see
``skein_specs.submission``). With simple authentication only: with Kerberos Skein's driver collects
the delegation tokens. Where the ResourceManager does not let an application in this way, the driver
does it, as if nothing had been tried.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdfs_utils import HdfsError
from yarnam.adapters.rm_parse import YarnApplication
from yarnam.adapters.skein_launcher import new_security, refusal
from yarnam.client.hdfs_errors import hdfs_errors
from yarnam.client.quick_files import put_once
from yarnam.errors import BadConfig, NoPermission, Unavailable, UsageError, YarnamError
from yarnam.model.ids import ApplicationId
from yarnam.ports.submission import Launcher

if TYPE_CHECKING:
    from skein_specs.submission import Stored
    from yarnam.client.site import Site

TAKEN_LIMIT_S = 60.0
"""How long YARN may think about an application before it accepts or refuses it."""

_POLL_S = (0.02, 0.2)
"""From and to: a small cluster decides in milliseconds."""

_UNDECIDED = frozenset({"NEW", "NEW_SAVING", "SUBMITTED", ""})
_PARALLEL_WRITES = 8

_log = logging.getLogger(__name__)


class DirectLauncher:
    """A ``ports.submission.Launcher`` that speaks to the ResourceManager itself.

    Args:
        site: where to.
        class_path: the site's yarn.application.classpath; empty: Hadoop's default.
        open_driver: the other way in.
    """

    def __init__(self, site: Site, class_path: str, open_driver: Callable[[], Launcher]) -> None:
        self._site = site
        self._class_path = class_path
        self._open_driver = open_driver
        self._driver: Launcher | None = None

    def start(self) -> None:
        """Nothing to get ready."""

    def wait(self) -> str:
        """Ask for an application, as a submit would, and leave it unused."""
        began = time.monotonic()
        try:
            self._site.rm.new_application()
        except _NO_WAY as error:
            return self._driver_instead(error).wait()
        return f"the ResourceManager's REST API takes jobs ({time.monotonic() - began:.2f} s)"

    def new_security(self) -> Any:
        return new_security()

    def submit(self, application_spec: Any) -> ApplicationId:
        try:
            application = self._site.rm.new_application()
        except _NO_WAY as error:
            return self._driver_instead(error).submit(application_spec)
        return self._submit(ApplicationId(application), application_spec)

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def _driver_instead(self, error: YarnamError) -> Launcher:
        _log.info("Skein's driver submits: %s", error.message)
        self._driver = self._driver or self._open_driver()
        return self._driver

    def _submit(self, application: ApplicationId, application_spec: Any) -> ApplicationId:
        from skein_specs.submission import Submission, class_path

        submission = Submission(application_spec, lang=os.environ.get("LANG", ""))
        directory = self._site.places.skein_staging(application)
        was_sent = False
        try:
            stored = self._store(submission, directory)
            context = submission.context(
                application,
                directory,
                stored,
                class_path=class_path(self._class_path),
                user=self._site.user,
            )
            was_sent = True
            self._send(application, context)
            self._await_verdict(application)
        except BaseException:
            self._undo(application, directory, was_sent=was_sent)
            raise
        return application

    # ---- the application's directory ---------------------------------------------------------

    def _store(self, submission: Any, directory: str) -> dict[str, Stored]:
        """Write everything; the message last, since it says where the rest is."""
        from skein_specs.submission import JAR_FILE, SPEC_FILE

        files = self._site.files
        with hdfs_errors(f"making {directory}"):
            files.mkdirs(directory, 0o700)
        with ThreadPoolExecutor(_PARALLEL_WRITES, thread_name_prefix="skein") as pool:
            jar = pool.submit(self._jar)
            contents = {
                name: pool.submit(self._put, f"{directory}/{name}", data)
                for name, data in submission.contents().items()
            }
            local = {
                path: pool.submit(self._put, f"{directory}/{name}", Path(path).read_bytes())
                for path, name in submission.local_sources().items()
            }
            unseen = {uri: pool.submit(self._look, uri) for uri in submission.unseen()}
            stored = {
                name: future.result() for name, future in {**contents, **local, **unseen}.items()
            }
            stored[JAR_FILE] = jar.result()
        message = submission.completed(stored)
        stored[SPEC_FILE] = self._put(f"{directory}/{SPEC_FILE}", message)
        return stored

    def _put(self, target: str, data: bytes) -> Stored:
        with hdfs_errors(f"writing {target}"):
            self._site.quick.put(target, data)
        return self._look(target)

    def _look(self, uri: str) -> Stored:
        from skein_specs.submission import Stored

        with hdfs_errors(f"looking at {uri}"):
            status = self._site.files.stat(uri)
        return Stored(uri, status.length, status.mtime_ms)

    def _jar(self) -> Stored:
        """Skein's jar, on HDFS once for each of its versions."""
        data = skein_jar().read_bytes()
        digest = hashlib.sha256(data).hexdigest()[:20]
        target = f"{self._site.places.runtimes}/skein-{digest}.jar"
        with hdfs_errors(f"uploading {target}"):
            if not self._site.files.exists(target):
                put_once(self._site.files, target, data)
        return self._look(target)

    # ---- the ResourceManager -----------------------------------------------------------------

    def _send(self, application: ApplicationId, context: Mapping[str, Any]) -> None:
        try:
            self._site.rm.submit_application(context)
        except Unavailable as error:
            # Without an answer it may have been taken; an answer that is an error says more.
            if self._found(application) is not None:
                return
            raise refusal(error.message) or error from None
        except (NoPermission, UsageError) as error:
            raise refusal(error.message) or Unavailable(
                f"YARN did not take the application: {error.message}", hint=error.hint
            ) from error

    def _await_verdict(self, application: ApplicationId) -> None:
        """YARN looks at the queue and at who may use it only after it has taken the application."""
        deadline = time.monotonic() + TAKEN_LIMIT_S
        pause_s = _POLL_S[0]
        silent: Unavailable | None = None
        while True:
            try:
                found, silent = self._found(application), None
            except Unavailable as error:  # it restarts: what it took is in its state store
                found, silent = None, error
            state = found.state if found is not None else ""
            if found is not None and state not in _UNDECIDED:
                if state in ("FAILED", "KILLED"):
                    said = found.diagnostics or f"it is {state}"
                    raise refusal(said) or Unavailable(
                        f"YARN did not take the application: {said}",
                        hint="'yarnam doctor' checks the parts one by one.",
                    )
                return
            if time.monotonic() > deadline:
                raise silent or Unavailable(
                    f"YARN has not accepted {application} within {TAKEN_LIMIT_S:g} s"
                    f" (it is {state or 'not known'})",
                    hint="'yarnam doctor' checks the parts one by one.",
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_S[1])

    def _found(self, application: ApplicationId) -> YarnApplication | None:
        return self._site.rm.application(application)

    def _undo(self, application: ApplicationId, directory: str, *, was_sent: bool) -> None:
        if was_sent:
            with suppress(YarnamError):
                self._site.rm.kill(application)
        with suppress(HdfsError):
            self._site.files.delete(directory, recursive=True)


_NO_WAY = (NoPermission, UsageError, Unavailable)
"""Of the very first question: this ResourceManager lets no application in by HTTP."""


def skein_jar() -> Path:
    """The jar of the installed package, found without importing it. Raises BadConfig."""
    found = importlib.util.find_spec("skein")
    if found is None or found.origin is None:
        raise BadConfig("the package skein is not installed", hint="Reinstall yarnam with pip.")
    return Path(found.origin).parent / "java" / "skein.jar"

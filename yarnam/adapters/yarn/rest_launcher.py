"""The way into YARN without a JVM: the ResourceManager's REST API.

Skein's own way is its driver, a Java process that takes a second to start and needs Java and
Hadoop's scripts on the submitting machine. The application that YARN gets is the same (see
``skein_specs.submission``), but for its containers, which outlive their AM: the driver cannot ask
for that. Where the ResourceManager does not let an application in this way, the driver does it, as
if nothing had been tried.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from hdfs_utils import HdfsError
from hdfs_utils.concurrency.retry import Backoff, retry
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.small_files import SmallFiles, put_once
from yarnam.adapters.job_tokens import JobTokens
from yarnam.adapters.skein.driver import new_security, refusal, skein_jar
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.core.model.ids import ApplicationId
from yarnam.core.model.job_spec import AmSpec
from yarnam.errors import NoPermission, Unavailable, UsageError, YarnamError
from yarnam.ports.job_access import Launcher

with on_first_use():
    from skein_specs import submission as specs

ACCEPT_LIMIT_S = 60.0
"""How long YARN may think about an application before it accepts or refuses it."""

_POLL = Backoff(first_s=0.02, cap_s=0.2, is_jittered=False)
"""A small cluster decides in milliseconds."""

_UNDECIDED = frozenset({"NEW", "NEW_SAVING", "SUBMITTED", ""})
_PARALLEL_WRITES = 8

CLUSTER_FILE = ".yarnam-cluster"
"""In an application's directory: the ResourceManager's URL. Who finds the directory later knows by
it which cluster to ask."""

_log = logging.getLogger(__name__)


class SubmitApi(Protocol):
    """The part of ``ResourceManager`` that a launcher needs."""

    @property
    def url(self) -> str: ...

    def application(self, app_id: str) -> YarnApplication | None: ...

    def kill(self, app_id: str, user: str = "") -> None: ...

    def new_application(self) -> str: ...

    def submit_application(self, context: Mapping[str, Any]) -> None: ...


class RestLauncher:
    """A ``ports.job_access.Launcher`` that speaks to the ResourceManager itself.

    Args:
        rm: the ResourceManager's REST API.
        small_files: writes the application's files.
        user: who submits.
        staging: the directory for an application's files, by its id.
        jars: the directory where Skein's jar is kept.
        class_path: the site's yarn.application.classpath; empty: Hadoop's default.
        open_driver: opens the other way in; ``None`` means there is no other.
        accept_limit_s: how long YARN may think about an application, in seconds.
        must_be_own: raises NoPermission where others could have put there what lies at a path.
        tokens: gets a job's delegation tokens, also for these file systems beside the default
            one; ``None`` means the site has none.
    """

    def __init__(
        self,
        rm: SubmitApi,
        small_files: SmallFiles,
        *,
        user: str,
        staging: Callable[[str], str],
        jars: str,
        class_path: str,
        open_driver: Callable[[], Launcher] | None,
        must_be_own: Callable[[str], None],
        accept_limit_s: float = ACCEPT_LIMIT_S,
        tokens: Callable[[Sequence[str]], JobTokens] | None = None,
    ) -> None:
        self._rm = rm
        self._small_files = small_files
        self._files = small_files.files
        self._user = user
        self._staging = staging
        self._jars = jars
        self._accept_limit_s = accept_limit_s
        self._class_path = class_path
        self._open_driver = open_driver
        self._must_be_own = must_be_own
        self._driver: Launcher | None = None
        self._allotted = ""
        """The id for the next submit; empty means none is allotted."""
        self._tokens = tokens
        self._tokens_end_s: float | None = None
        self._accepted_queue = ""

    def start(self) -> None:
        """Nothing to get ready."""

    def wait(self) -> str:
        """Ask for an application, as a submit would, and leave it unused."""
        began = time.monotonic()
        try:
            self._rm.new_application()
        except _REST_REFUSED as error:
            return self._driver_instead(error).wait()
        return f"the ResourceManager's REST API takes jobs ({time.monotonic() - began:.2f} s)"

    def new_security(self) -> Any:
        return new_security()

    def allot(self) -> bool:
        try:
            self._allotted = self._rm.new_application()
        except _REST_REFUSED as error:
            return self._driver_instead(error).allot()
        return True

    def submit(
        self, application_spec: Any, am: AmSpec, *, keep_unknown: bool = False
    ) -> ApplicationId:
        if not self._allotted:
            self.allot()
        if not self._allotted and self._driver is not None:
            return self._driver.submit(
                application_spec,
                am,
                keep_unknown=keep_unknown,
            )
        application, self._allotted = self._allotted, ""
        submission = specs.Submission(
            application_spec,
            attempts_interval_s=am.attempts_interval_s,
            lang=os.environ.get("LANG", ""),
            keeps_containers=am.absence_s > 0,
        )
        return self._submit(ApplicationId(application), submission, keep_unknown=keep_unknown)

    def tokens_end_s(self) -> float | None:
        return self._tokens_end_s

    def accepted_queue(self) -> str:
        return self._accepted_queue

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def _driver_instead(self, error: YarnamError) -> Launcher:
        if self._open_driver is None:
            raise error
        _log.info("Skein's driver submits: %s", error.message)
        self._driver = self._driver or self._open_driver()
        return self._driver

    def _submit(
        self, application: ApplicationId, submission: specs.Submission, *, keep_unknown: bool
    ) -> ApplicationId:
        directory = self._staging(application)
        was_sent = False
        try:
            stored = self._store(submission, directory)
            context = submission.context(
                application,
                directory,
                stored,
                class_path=specs.class_path(self._class_path),
                user=self._user,
            )
            if self._tokens is not None:
                tokens = self._tokens(submission.file_systems)
                self._tokens_end_s = tokens.until_s
                entries = [{"key": key, "value": val} for key, val in tokens.by_alias.items()]
                context["am-container-spec"]["credentials"] = {"tokens": {"entry": entries}}
            was_sent = True
            self._send(application, context)
            self._await_verdict(application)
        except BaseException:
            self._undo(application, directory, was_sent=was_sent, keep_unknown=keep_unknown)
            raise
        return application

    # ---- the application's directory ---------------------------------------------------------

    def _store(self, submission: Any, directory: str) -> dict[str, specs.Stored]:
        """Write everything; the message last, since it says where the rest is."""
        with hdfs_errors(f"making {directory}"):
            self._files.mkdirs(directory, 0o700)
        self._must_be_own(directory)
        with ThreadPoolExecutor(_PARALLEL_WRITES, thread_name_prefix="skein") as pool:
            jar = pool.submit(self._jar)
            cluster = pool.submit(self._put, f"{directory}/{CLUSTER_FILE}", self._rm.url.encode())
            contents = {
                name: pool.submit(self._put, f"{directory}/{name}", data)
                for name, data in submission.contents().items()
            }
            local = {
                path: pool.submit(self._put, f"{directory}/{name}", Path(path).read_bytes())
                for path, name in submission.local_sources().items()
            }
            unseen = {uri: pool.submit(self._stat, uri) for uri in submission.unseen()}
            stored = {
                name: future.result() for name, future in {**contents, **local, **unseen}.items()
            }
            stored[specs.JAR_FILE] = jar.result()
            cluster.result()
        message = submission.completed(stored)
        stored[specs.SPEC_FILE] = self._put(f"{directory}/{specs.SPEC_FILE}", message)
        return stored

    def _put(self, target: str, data: bytes) -> specs.Stored:
        with hdfs_errors(f"writing {target}"):
            self._small_files.put(target, data)
        return self._stat(target)

    def _stat(self, uri: str) -> specs.Stored:
        with hdfs_errors(f"reading {uri}"):
            status = self._files.stat(uri)
        return specs.Stored(uri, status.length, status.mtime_ms)

    def _jar(self) -> specs.Stored:
        """Skein's jar, on HDFS once for each of its versions."""
        data = skein_jar().read_bytes()
        digest = hashlib.sha256(data).hexdigest()[:20]
        target = f"{self._jars}/skein-{digest}.jar"
        with hdfs_errors(f"uploading {target}"):
            if not self._files.exists(target):
                put_once(self._files, target, data)
        self._must_be_own(target)
        return self._stat(target)

    # ---- the ResourceManager -----------------------------------------------------------------

    def _send(self, application: ApplicationId, context: Mapping[str, Any]) -> None:
        try:
            self._rm.submit_application(context)
        except Unavailable as error:
            # Without an answer it may have been taken; an answer that is an error says more.
            if self._rm.application(application) is not None:
                return
            raise refusal(error.message) or error from None
        except (NoPermission, UsageError) as error:
            raise refusal(error.message) or Unavailable(
                f"YARN did not take the application: {error.message}", hint=error.hint
            ) from error

    def _await_verdict(self, application: ApplicationId) -> None:
        """YARN checks the queue and its ACLs only after it has accepted the application."""
        # An RM that restarts meanwhile does not answer: what it took is in its state store.
        found = retry(
            lambda: self._decided(application),
            self._accept_limit_s,
            is_retriable=lambda error: isinstance(error, Unavailable),
            backoff=_POLL,
        )
        if found.state in ("FAILED", "KILLED"):
            said = found.diagnostics or f"it is {found.state}"
            raise refusal(said) or Unavailable(
                f"YARN did not take the application: {said}",
                hint="'yarnam doctor' checks the parts one by one.",
            )
        self._accepted_queue = found.queue

    def _decided(self, application: ApplicationId) -> YarnApplication:
        """Raises Unavailable while YARN has neither accepted nor refused it."""
        found = self._rm.application(application)
        if found is None or found.state in _UNDECIDED:
            state = found.state if found is not None else ""
            raise Unavailable(
                f"YARN has not accepted {application} within {self._accept_limit_s:g} s"
                f" (it is {state or 'not known'})",
                hint="'yarnam doctor' checks the parts one by one.",
            )
        return found

    def _undo(
        self, application: ApplicationId, directory: str, *, was_sent: bool, keep_unknown: bool
    ) -> None:
        if was_sent:
            try:
                self._rm.kill(application)
            except UsageError:
                pass  # YARN does not know it.
            except YarnamError:
                if keep_unknown:
                    return
        with suppress(HdfsError):
            self._files.delete(directory, recursive=True)


_REST_REFUSED = (NoPermission, UsageError, Unavailable)
"""Raised by the first call, these mean that the ResourceManager accepts no applications by HTTP."""

"""What the AM leaves in YARN: for ``yarn application -status``, the web pages, the REST API."""

from __future__ import annotations

from yarnam.adapters.skein.broker import DIAGNOSTICS_LIMIT, diagnostics
from yarnam.core.model.outcomes import Verdict, VerdictKind


def test_the_exit_code_comes_first() -> None:
    verdict = Verdict(VerdictKind.FAILED, 90, "worker-0 failed\n  | Traceback", "yarnam logs x")
    assert diagnostics(verdict) == (
        "yarnam: USER_FAILED (exit code 90)\nworker-0 failed\n  | Traceback\nyarnam logs x"
    )


def test_it_is_printable_and_can_be_sent() -> None:
    told = diagnostics(Verdict(VerdictKind.FAILED, 90, "a\x1b]52;c;x\x07\u202eb\udcff\r", ""))
    assert told.endswith("\na\\x1b]52;c;x\\x07\\u202eb\\udcff\\r")
    told.encode()  # protobuf takes nothing else
    long = diagnostics(Verdict(VerdictKind.FAILED, 90, "\x1b" * 9000, ""))
    assert len(long) == DIAGNOSTICS_LIMIT

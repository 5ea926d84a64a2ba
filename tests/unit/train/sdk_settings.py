"""Puts a test into a job: what AM and agent write into ``YARNAM_SDK``."""

from __future__ import annotations

import json
import os

import pytest

from yarnam.train._job.job_context import VARIABLE


def set_sdk(monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
    """Add settings to those that are there."""
    known = json.loads(os.environ.get(VARIABLE, "{}"))
    monkeypatch.setenv(VARIABLE, json.dumps({**known, **settings}))

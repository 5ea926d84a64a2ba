"""A submit gives a notebook its secret and its directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.world import World, job_spec
from yarnam.client.submit import submit_job
from yarnam.client.submit.submit_job import as_notebook
from yarnam.client.submit.upload import without_secrets
from yarnam.client.user_paths import UserPaths
from yarnam.core.model.job_spec import NOTEBOOK_TOKEN, CheckpointSpec, NotebookSpec
from yarnam.errors import BadConfig
from yarnam.wire.codec import encode

PATHS = UserPaths("hdfs://memory/user/me")


def test_a_notebook_gets_a_new_secret_and_a_directory() -> None:
    given = job_spec(notebook=NotebookSpec(), checkpoint=CheckpointSpec(mirror="notebooks"))
    one, other = as_notebook(given, PATHS), as_notebook(given, PATHS)
    tokens = {dict(made.env)[NOTEBOOK_TOKEN] for made in (one, other)}
    assert len(tokens) == 2
    assert all(len(token) == 48 for token in tokens)
    assert one.checkpoint.directory == "hdfs://memory/user/me/.yarnam/notebooks/hello"
    own = replace(given, checkpoint=CheckpointSpec("/mine"))
    assert as_notebook(own, PATHS).checkpoint.directory == "/mine"


def test_what_is_stored_of_the_job_has_no_secret() -> None:
    job = as_notebook(job_spec(notebook=NotebookSpec()), PATHS)
    token = dict(job.env)[NOTEBOOK_TOKEN]
    public, hidden = without_secrets(job)
    assert hidden == {NOTEBOOK_TOKEN: token}
    assert token.encode() not in encode(public)


def test_a_site_without_sessions_has_no_notebooks() -> None:
    with pytest.raises(BadConfig, match="this site has sessions off"):
        as_notebook(job_spec(notebook=NotebookSpec(), interactive=False), PATHS)


def test_another_job_is_as_it_was() -> None:
    assert as_notebook(job_spec(), PATHS) == job_spec()


def test_nothing_that_a_submit_stores_has_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Skein uploads the file with it into a private directory."""
    monkeypatch.setattr(submit_job.secrets, "token_hex", lambda size: "ab" * size)
    world = World(tmp_path)
    spec = {"version": 1, "name": "nb", "queue": "root.dl", "gpus": 1, "notebook": {}}
    token = "ab" * submit_job.TOKEN_BYTES
    job = world.client.submit(spec)
    stored = world.left_on_hdfs()
    assert any(path.endswith("/job.json") for path in stored)
    assert not [path for path in stored if token.encode() in world.files.read_bytes(path)]
    assert token not in repr(world.launcher.submitted)
    record = job.record().job
    assert dict(record.env)[NOTEBOOK_TOKEN] == ""
    assert record.checkpoint.directory.endswith("/user/me/.yarnam/notebooks/nb")

"""The identity of a job's program, known before the job is submitted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.site import Site
from yarnam.client.submit.archives import pack_folder, sha256_of
from yarnam.client.submit.pre_run_choice import ShippedContent, program_of
from yarnam.client.submit.upload import environment_target, without_secrets
from yarnam.core.model.job_spec import JobSpec
from yarnam.spec.shipping.shipped_folder import shipped_folder


def program_key(site: Site, job: JobSpec) -> str:
    """The identity of the job's program, as a submit now would record it; empty if its environment
    is still to be packed. Reads what the job ships. Raises BadSpec, Unavailable."""
    environment = job.environment
    if environment.packed_from is not None and not environment.archive:
        return ""
    target = environment_target(site.paths, environment)
    public, _ = without_secrets(replace(job, environment=target))
    shipped = [*_files(site, job), *_environment(site, environment.archive, target.archive)]
    return program_of(public, shipped).key


def _files(site: Site, job: JobSpec) -> Iterator[ShippedContent]:
    for file in job.files:
        local = Path(file.source)
        if "://" in file.source:
            yield _on_hdfs(site, file.name, file.source)
        elif local.is_dir():
            with tempfile.TemporaryDirectory(prefix="yarnam-plan-") as scratch:
                packed = Path(scratch, "packed.tar.gz")
                pack_folder(shipped_folder(local, uses_git=file.uses_git_ignore), packed)
                yield ShippedContent(file.name, sha256_of(packed))
        else:
            yield ShippedContent(file.name, sha256_of(local))


def _environment(site: Site, source: str, target: str) -> Iterator[ShippedContent]:
    """Identify it as the job names it: by its content's hash, or by the user's path."""
    if not target:
        return
    if "://" in source and not source.startswith(f"{site.paths.environments}/"):
        yield replace(_on_hdfs(site, "environment", target), sha256=target)
    else:
        size = Path(source).stat().st_size if "://" not in source else _size(site, source)
        yield ShippedContent("environment", target, size)


def _on_hdfs(site: Site, name: str, source: str) -> ShippedContent:
    with hdfs_errors(f"reading {source}"):
        status = site.files.stat(source)
    return ShippedContent(name, "", status.length, status.mtime_ms)


def _size(site: Site, source: str) -> int:
    with hdfs_errors(f"reading {source}"):
        return site.files.stat(source).length

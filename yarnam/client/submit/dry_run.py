"""Lists what a submit would write to HDFS, without writing it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.environments import packed_environment
from yarnam.client.environments.interpreter_archive import own_interpreter
from yarnam.client.environments.runtime_archive import runtime_source
from yarnam.client.site import Site
from yarnam.client.submit.hdfs_store import stored_archive, stored_environment
from yarnam.core.model.job_spec import JobSpec, ShippedFile
from yarnam.spec.shipping.shipped_folder import shipped_folder


@dataclass(frozen=True, slots=True)
class Upload:
    """One thing that containers get. ``size_bytes`` None: not known before it is packed."""

    name: str
    source: str
    size_bytes: int | None = None
    is_there: bool = False
    """Nothing to upload: it is on HDFS already."""
    ignored_files: int = 0
    """Files that ignore files name."""
    notices: tuple[str, ...] = ()


def planned_uploads(site: Site, job: JobSpec) -> list[Upload]:
    """The output of ``submit --dry-run``. Raises Unavailable when HDFS does not answer."""
    uploads = []
    for what, name in (
        ("yarnam's own runtime", runtime_source().file_name),
        ("the interpreter of AM and agents", own_interpreter().file_name),
    ):
        uploads.append(_stored(site, what, site.paths.runtimes, name))
    if (packed_from := job.environment.packed_from) is not None:
        recipe = packed_environment.recipe_of(packed_from, site.cache, site.environ)
        uploads += _environment(site, recipe)
    if job.environment.archive:
        uploads.append(_upload(ShippedFile("environment", job.environment.archive)))
    uploads += [_upload(file) for file in job.files]
    return uploads


def _stored(site: Site, what: str, directory: str, name: str) -> Upload:
    with hdfs_errors(f"checking {directory}"):
        found = stored_archive(site.files, directory, name)
    return Upload(what, found or f"{directory}/{name}", is_there=found is not None)


def _environment(site: Site, recipe: packed_environment.Recipe) -> list[Upload]:
    directory = site.paths.environments
    with hdfs_errors(f"checking {directory}"):
        names = stored_environment(site.files, directory, recipe.key)
    whats = ("environment", *("environment's large packages" for _ in names[1:]))
    pairs = zip(whats, names or [recipe.file_name], strict=True)
    return [_stored(site, what, directory, name) for what, name in pairs]


def _upload(file: ShippedFile) -> Upload:
    if "://" in file.source:
        return Upload(file.name, file.source, is_there=True)
    path = Path(file.source)
    if not path.is_dir():
        return Upload(file.name, file.source, path.stat().st_size)
    shipped = shipped_folder(path, uses_git=file.uses_git_ignore)
    # Unpacked; the archive is smaller.
    return Upload(
        file.name,
        file.source,
        shipped.size,
        ignored_files=shipped.ignored_files,
        notices=shipped.notices(file.name),
    )

"""What the tasks of a job wrote, when its ApplicationMaster cannot settle it any more."""

from __future__ import annotations

from yarnam.client.checks import file_system_of
from yarnam.client.hdfs_errors import hdfs_errors
from yarnam.client.site import Site
from yarnam.model.job import JobSpec
from yarnam.wire.output_places import partial_place, staging_of


def settle_outputs(site: Site, job: JobSpec, application: str) -> None:
    """Of a job that was killed and is gone: kept or discarded, as its spec says. Harmless to
    repeat, and where there is nothing. Raises YarnamError."""
    if not job.output:
        return
    from hdfs_utils.outputs import Outputs

    files, target = file_system_of(site, job.output)
    with hdfs_errors(f"settling what was written for {job.output}"):
        outputs = Outputs(files, target, staging_of(target, application), application)
        if job.storing.keep_on_failure:
            outputs.keep(partial_place(target, application))
        else:
            outputs.discard()

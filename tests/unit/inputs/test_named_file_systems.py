"""The file systems for which a job needs tokens."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.placement.clusters import job
from yarnam.core.inputs.named_file_systems import named_file_systems
from yarnam.core.model.job_spec import CheckpointSpec, DataInput, ShippedFile


def test_all_that_the_spec_names() -> None:
    named = replace(
        job(2, 1),
        inputs=(DataInput("a", "hdfs://one/in"), DataInput("b", "swebhdfs://nn:9871/in")),
        files=(ShippedFile("file", "/local/file"), ShippedFile("f", "hdfs://two/f")),
        output="hdfs://one/out",
        checkpoint=CheckpointSpec("viewfs://all/ckpt"),
    )
    assert named_file_systems(named) == (
        "hdfs://one", "swebhdfs://nn:9871", "hdfs://two", "viewfs://all"
    )  # fmt: skip
    assert named_file_systems(replace(job(2, 1), output="/plain/path")) == ()

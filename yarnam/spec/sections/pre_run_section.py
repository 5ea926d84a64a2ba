"""Section of the spec about the pre-run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from yarnam.core.model.job_spec import PreRunSpec
from yarnam.spec.sections.section_base import TextOrMapping
from yarnam.spec.values.fields import DurationBetween, text_off

_PRE_RUN = PreRunSpec()


class PreRun(TextOrMapping):
    """Try one process of the job in a container of its own before the gang is acquired: see
    [pre-run](../how-to/pre-run.md). May be written as text: the `mode`."""

    text_key: ClassVar[str] = "mode"

    mode: Annotated[Literal["off", "auto", "always"], BeforeValidator(text_off)] = "off"
    """`always`: at each submit. `auto`: for gangs of at least `min_gpus`, and only when this code,
    environment and command have not passed before. `off`: never, as a program may need all of its
    processes."""
    steps: Annotated[int, Field(ge=1, le=1000)] = _PRE_RUN.steps
    """The number of steps, as reported by `yarnam.train.report`, after which it has passed."""
    time_limit: Annotated[float, DurationBetween(1.0, 3600.0)] = _PRE_RUN.time_limit_s
    """The time after which a process that has not failed has passed."""
    min_gpus: Annotated[int, Field(ge=1, le=1_000_000)] = _PRE_RUN.min_gpus
    """`auto`: the smallest gang to try, in GPUs."""
    gpu: bool = _PRE_RUN.gpu
    """Give it the GPUs of one process. `false`: none, for programs that also run without."""

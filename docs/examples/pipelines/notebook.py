"""For a notebook: a live view of a job, with ipywidgets where they are installed."""

from __future__ import annotations

import yarnam
from yarnam.core.model.job_status import JobStatus


def words(status: JobStatus) -> str:
    step = f", step {status.step} of {status.total_steps}" if status.step is not None else ""
    loss = f", loss {status.loss:.4g}" if status.loss is not None else ""
    return f"{status.state.value}{step}{loss}"


def show(job: yarnam.Job) -> None:
    """Follow the job in the cell's output. Interrupting the cell leaves the job running."""
    try:
        from IPython.display import display
        from ipywidgets import HTML, IntProgress, VBox
    except ImportError:
        for status in job.watch():
            print(words(status))
        return
    bar, text = IntProgress(description=job.id[-4:]), HTML()
    display(VBox([bar, text]))
    for status in job.watch():
        bar.max, bar.value = status.total_steps or 1, status.step or 0
        text.value = words(status)

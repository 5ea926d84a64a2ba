"""A commented starter spec that is itself valid."""

from __future__ import annotations

from yarnam.core.frameworks.registry import NAMES, framework_named
from yarnam.errors import UsageError

_HEAD = """\
# A job for `yarnam submit`. Check it with `yarnam spec validate {file}`.
# All keys: yarnam docs spec, or `yarnam spec schema` for your editor.
version: 1
name: my-job

# The full queue name. `yarnam doctor` shows whether you may use it.
queue: root.default
"""

_COMMAND = """\
{comment}framework: {framework}

# A list of arguments, passed unchanged; a single string is a line for bash.
command: {command}
"""

_SIZE_BY_GPUS = """\
# The total number of GPUs: the planner chooses how many containers with how many GPUs each. CPU
# and memory are proportional.
gpus: 2
# Or a range, for an elastic job that grows and shrinks: gpus: {min: 2, max: 8}
# vcores_per_gpu: 4
# memory_per_gpu: 16GiB
#
# Or choose the containers yourself:
# roles:
#   worker: {tasks: 2, gpus: 4, memory: 64GiB, vcores: 16}
"""

_SIZE_BY_ROLES = """\
# The gang: all tasks of all roles start together, or none does.
roles:
"""

_TAIL = """\
# Files to ship with the job. Paths are relative to this file.
{code}# files:
#   - settings.json
#   - {source: hdfs:///models/base.tar.gz, archive: true, name: base}

# The Python on the nodes, or a packed one, unpacked as `environment`.
# environment: {python: /opt/python3/bin/python3}
# environment: {archive: hdfs:///envs/training.tar.gz, python: bin/python}

# env:
#   LOG_LEVEL: info
#   API_TOKEN: {from: client}   # taken from your shell at submit, never shown

# data:
#   inputs:
#     - hdfs:///data/digits
#   outputs: hdfs:///results/my-job   # appears when all tasks have succeeded
# checkpoint: {directory: hdfs:///checkpoints/my-job, keep: 3}

# placement:
#   locality: {node: preferred, rack: required}
#   exclude_nodes: [node17.example.org]
#   gpu_model: same             # or any, or a name such as A100
# gang: {hold_timeout: 2min, attempts: 10, backoff: {base: 5s, cap: 5min}}
# retry: {max_restarts: 2, on_user_failure: 0}
"""

_CODE = """\
code: .   # this directory, as the directory `code`; python finds modules beside train.py
"""


def template(framework: str = "command", file: str = "job.yaml") -> str:
    """The starter. Raises UsageError for an unknown framework."""
    if framework not in NAMES:
        raise UsageError(f"there is no starter for {framework!r}; use one of {', '.join(NAMES)}")
    given = framework_named(framework).starter
    command = _COMMAND.format(comment=given.comment, framework=framework, command=given.command)
    size = _SIZE_BY_ROLES + given.roles if given.roles else _SIZE_BY_GPUS
    code = _CODE if "code/" in given.command + given.roles else f"# {_CODE}"
    tail = _TAIL.replace("{code}", code)
    return "\n".join((_HEAD.replace("{file}", file), command, size, tail))

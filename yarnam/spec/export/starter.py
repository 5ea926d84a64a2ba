"""A commented starter spec that is itself valid."""

from __future__ import annotations

from yarnam.errors import UsageError

_HEAD = """\
# A job for `yarnam submit`. Check it with `yarnam spec validate {file}`.
# All keys: docs/reference/spec.md, or `yarnam spec schema` for your editor.
version: 1
name: my-job

# The full queue name. `yarnam doctor` shows whether you may use it.
queue: root.default
"""

_COMMANDS = {
    "command": """\
# Plain processes with the generic variables (YARNAM_RANK, YARNAM_WORLD_SIZE, ...).
framework: command

# A list of arguments, passed unchanged; a single string is a line for bash.
command: [/bin/sh, -c, 'echo "rank $YARNAM_RANK of $YARNAM_WORLD_SIZE on $(hostname)"']
""",
    "jax": """\
# One process per GPU; jax.distributed.initialize() gets COORDINATOR_ADDRESS, COORDINATOR_PORT,
# NUM_PROCESSES and PROCESS_ID from the environment.
framework: jax

# A list of arguments, passed unchanged; a single string is a line for bash.
command: [python3, code/train.py, --epochs, 10]
""",
    "pytorch": """\
# One process per GPU; init_process_group() reads MASTER_ADDR, RANK, WORLD_SIZE and LOCAL_RANK.
framework: pytorch

# A list of arguments, passed unchanged; a single string is a line for bash.
command: [python3, code/train.py, --epochs, 10]
""",
    "tensorflow": """\
# One process per task; tf.distribute reads TF_CONFIG.
framework: tensorflow

# A list of arguments, passed unchanged; a single string is a line for bash.
command: [python3, code/train.py, --epochs, 10]
""",
}

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
  chief: {tasks: 1, gpus: 1}
  worker: {tasks: 1, gpus: 1}
  # ps: {tasks: 2, memory: 8GiB, vcores: 2}
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

FRAMEWORKS = tuple(_COMMANDS)


def template(framework: str = "command", file: str = "job.yaml") -> str:
    """The starter. Raises UsageError for an unknown framework."""
    if framework not in _COMMANDS:
        raise UsageError(
            f"there is no starter for {framework!r}; use one of {', '.join(FRAMEWORKS)}"
        )
    size = _SIZE_BY_ROLES if framework == "tensorflow" else _SIZE_BY_GPUS
    code = f"# {_CODE}" if framework == "command" else _CODE
    tail = _TAIL.replace("{code}", code)
    return "\n".join((_HEAD.replace("{file}", file), _COMMANDS[framework], size, tail))

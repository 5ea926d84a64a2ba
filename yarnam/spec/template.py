"""A commented starter spec that is itself valid."""

from __future__ import annotations

from yarnam.errors import UsageError

_HEAD = """\
# A job for `yarnam submit`. Check it with `yarnam spec validate {file}`.
# All keys: docs/reference/spec.md, or `yarnam spec schema` for your editor.
version: 1
name: my-job

# The queue's full name. `yarnam doctor` says whether you may use it.
queue: root.default
"""

_COMMANDS = {
    "command": """\
# Plain processes with the generic variables (YARNAM_RANK, YARNAM_WORLD_SIZE, ...).
framework: command

# A list of arguments, each passed on byte for byte; a single text would be a line for bash.
command: [/bin/sh, -c, 'echo "rank $YARNAM_RANK of $YARNAM_WORLD_SIZE on $(hostname)"']
""",
    "jax": """\
# One process per GPU, with COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES and PROCESS_ID
# in its environment for jax.distributed.initialize().
framework: jax

# A list of arguments, each passed on byte for byte; a single text would be a line for bash.
command: [python3, code/train.py, --epochs, 10]
""",
    "pytorch": """\
# One process per GPU; init_process_group() finds MASTER_ADDR, RANK, WORLD_SIZE and LOCAL_RANK.
framework: pytorch

# A list of arguments, each passed on byte for byte; a single text would be a line for bash.
command: [python3, code/train.py, --epochs, 10]
""",
    "tensorflow": """\
# One process per task; tf.distribute finds TF_CONFIG in its environment.
framework: tensorflow

# A list of arguments, each passed on byte for byte; a single text would be a line for bash.
command: [python3, code/train.py, --epochs, 10]
""",
}

_SIZE_BY_GPUS = """\
# So many GPUs in all: the planner chooses how many containers of how many GPUs. CPU and memory
# come in proportion.
gpus: 2
# Or a range, for a job that grows and shrinks while it runs: gpus: {min: 2, max: 8}
# vcores_per_gpu: 4
# memory_per_gpu: 16GiB
#
# Or say it yourself:
# roles:
#   worker: {tasks: 2, gpus: 4, memory: 64GiB, vcores: 16}
"""

_SIZE_BY_ROLES = """\
# The gang: all tasks of all roles start together, or none.
roles:
  chief: {tasks: 1, gpus: 1}
  worker: {tasks: 1, gpus: 1}
  # ps: {tasks: 2, memory: 8GiB, vcores: 2}
"""

_TAIL = """\
# What travels with the job. Paths are relative to this file.
{code}# files:
#   - settings.json
#   - {source: hdfs:///models/base.tar.gz, archive: true, name: base}

# The Python on the nodes; or a packed one, unpacked as `environment`.
# environment: {python: /opt/python3/bin/python3}
# environment: {archive: hdfs:///envs/training.tar.gz, python: bin/python}

# env:
#   LOG_LEVEL: info
#   API_TOKEN: {from: client}   # taken from your shell at submit, never shown

# data:
#   inputs:
#     - hdfs:///data/digits
#   outputs: hdfs:///results/my-job   # there when all have succeeded, whole
# checkpoint: {directory: hdfs:///checkpoints/my-job, keep: 3}

# placement:
#   locality: {node: preferred, rack: required}
#   exclude_nodes: [node17.example.org]
#   gpu_model: same             # or any, or a name such as A100
# gang: {hold_timeout: 2min, attempts: 10, backoff: {base: 5s, cap: 5min}}
# retry: {max_restarts: 2, on_user_failure: 0}
"""

_CODE = """\
code: .   # this directory, as the directory `code`; python finds train.py's neighbours there
"""

FRAMEWORKS = tuple(_COMMANDS)


def template(framework: str = "command", file: str = "job.yaml") -> str:
    """The starter. Raises UsageError for an unknown framework."""
    if framework not in _COMMANDS:
        raise UsageError(f"no starter for {framework!r}; one of {', '.join(FRAMEWORKS)}")
    size = _SIZE_BY_ROLES if framework == "tensorflow" else _SIZE_BY_GPUS
    code = f"# {_CODE}" if framework == "command" else _CODE
    tail = _TAIL.replace("{code}", code)
    return "\n".join((_HEAD.replace("{file}", file), _COMMANDS[framework], size, tail))

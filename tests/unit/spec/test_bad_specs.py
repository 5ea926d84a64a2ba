"""Wrong specs and exactly what is said about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnam.core.frameworks.registry import FORMER, NAMES
from yarnam.errors import BadSpec, ExitCode
from yarnam.spec import parse_spec_dict, parse_spec_file, parse_spec_text

HEAD = """\
version: 1
name: digits
queue: root.research
command: [python3, train.py]
"""
"""Four good lines; the cases begin in line 5."""


SOME = "roles: {worker: {tasks: {min: 2, max: 8}}}"
CHECKPOINTS = "gpus: {min: 4, max: 8}\ncheckpoint: {directory: /c/d}\n"


def complaints(text: str) -> list[str]:
    with pytest.raises(BadSpec) as caught:
        parse_spec_text(text, "job.yaml", base_dir="/nowhere", environ={})
    assert caught.value.exit_code is ExitCode.BAD_SPEC
    assert caught.value.message.splitlines() == [str(p) for p in caught.value.problems]
    return [line.removeprefix("job.yaml:") for line in caught.value.message.splitlines()]


CASES = [
    # Notebooks.
    ("notebook: {}", "4:1: command: a notebook runs its own server: remove command"),
    # Who may see it.
    (
        "gpus: 4\nacls: {view: [ann, 'bob carl']}",
        "6:20: acls.view[1]: must be a user's name, `group:` and a name, or `*`",
    ),
    (
        "gpus: 4\nacls: {modify: ['group:']}",
        "6:17: acls.modify[0]: must be a user's name, `group:` and a name, or `*`",
    ),
    # Unknown keys.
    ("gpu: 4", "5:1: gpu: unknown key; did you mean gpus?"),
    ("gpus: 4\nqueu: x", "6:1: queu: unknown key; did you mean queue?"),
    (
        "gpus: 4\nhold_timeout: 1s",
        ("6:1: hold_timeout: unknown key here; did you mean gang.hold_timeout?"),
    ),
    ("gpus: 4\nvcores: 4", "6:1: vcores: unknown key; did you mean vcores_per_gpu?"),
    (
        "gpus: 4\nretry: {qqq: 1}",
        (
            "6:9: retry.qqq: unknown key; allowed here: max_restarts, on_user_failure, "
            "more_memory, rules, blacklist"
        ),
    ),
    ("roles:\n  worker:\n    gpu: 4", "7:5: roles.worker.gpu: unknown key; did you mean gpus?"),
    (
        "roles: {worker: {replicas: 4}}",
        ("5:18: roles.worker.replicas: unknown key; did you mean tasks?"),
    ),
    ("roles: {worker: {cpus: 4}}", "5:18: roles.worker.cpus: unknown key; did you mean vcores?"),
    ("gpus: 1\nenv: {A: {form: client}}", "6:11: env.A.form: unknown key; did you mean from?"),
    (
        "gpus: 1\ngang: {backoff: {bse: 1s}}",
        ("6:18: gang.backoff.bse: unknown key; did you mean base?"),
    ),
    # Wrong types and units.
    ("gpus: four", "5:7: gpus: must be a whole number, not text"),
    ("gpus: '4'", "5:7: gpus: must be a whole number, not text; write 4 without quotes"),
    ("gpus: 4.5", "5:7: gpus: must be a whole number, not a fraction"),
    ("gpus: true", "5:7: gpus: must be a whole number, not true or false"),
    ("gpus: [4]", "5:7: gpus: must be a whole number, not a list"),
    (
        "gpus: 010",
        (
            "5:7: gpus: `010` is an octal number in YAML 1.1 and a decimal in 1.2; write a"
            " plain decimal number"
        ),
    ),
    ("gpus: 0", "5:7: gpus: must be at least 1, not 0"),
    ("gpus: -3", "5:7: gpus: must be at least 1, not -3"),
    ("gpus: 100001", "5:7: gpus: must be at most 100000, not 100001"),
    ("gpus:", "5:1: gpus: has no value; write one or remove the key"),
    ("gpus: 4\nmemory_per_gpu: 8", "6:17: memory_per_gpu: a size needs a unit: 8GiB or 8MiB"),
    (
        "gpus: 4\nmemory_per_gpu: 8gib",
        ("6:17: memory_per_gpu: 'gib' is not a size unit; did you mean 8GiB?"),
    ),
    (
        "gpus: 4\nmemory_per_gpu: 1MiB",
        ("6:17: memory_per_gpu: must be from 256MiB to 64TiB, not 1MiB"),
    ),
    (
        "gpus: 4\nmemory_per_gpu: [8GiB]",
        ("6:17: memory_per_gpu: must be a size such as 512MiB or 8GiB, not a list"),
    ),
    (
        "gpus: 4\ngang: {hold_timeout: 90}",
        ("6:22: gang.hold_timeout: a duration needs a unit: 90s, 90min or 90h"),
    ),
    (
        "gpus: 4\ngang: {hold_timeout: 1:30}",
        (
            "6:22: gang.hold_timeout: `1:30` is a number in base 60"
            " in YAML 1.1 and text in 1.2; write a duration such as 90s or 1h30m"
        ),
    ),
    ("gpus: 4\ngang: {hold_timeout: 2d}", "6:22: gang.hold_timeout: must be from 1s to 1d, not 2d"),
    (
        "gpus: 4\ngang: {look_before_ask: yes}",
        (
            "6:25: gang.look_before_ask: `yes` without quotes is true in YAML 1.1 and text in 1.2; "
            "write 'yes' to mean the text"
        ),
    ),
    (
        "gpus: 4\ngang: {look_before_ask: 1}",
        ("6:25: gang.look_before_ask: must be true or false, not a number"),
    ),
    (
        "gpus: 4\nduration: 5h\ntime_limit: 4h",
        "6:1: duration: is longer than time_limit, which ends the job before",
    ),
    (
        "gpus: 4\ntime_limit: 30s\nam: {stop_grace: 1min}",
        "6:1: time_limit: leaves no time to run: the stop alone takes up to 65 s (am.stop_grace)",
    ),
    ("gpus: 4\ntime_limit: 4", "6:13: time_limit: a duration needs a unit: 4s, 4min or 4h"),
    ("gpus: 4\ngang: 3", "6:7: gang: must be a mapping of keys to values, not a number"),
    ("gpus: 4\ntags: a", "6:7: tags: must be a list, not text"),
    ("gpus: 4\ntags: [8]", "6:8: tags[0]: must be text, not a number; quote it: '8'"),
    ("gpus: 4\nenv: [A]", "6:6: env: must be a mapping of names to values, not a list"),
    ("gpus: 4\nenv: {A: [1]}", "6:10: env.A: must be text, not a list"),
    (
        "gpus: 4\nenv: {A: on}",
        ("6:10: env.A: true, false, yes, no, on and off have a meaning in YAML; quote the word"),
    ),
    ("gpus: 4\nfiles: [3]", "6:9: files[0]: must be text, not a number; quote it: '3'"),
    ("gpus: 4\nfiles: [[a]]", "6:9: files[0]: must be text or a mapping with `source`, not a list"),
    ("gpus: 4\nfiles: [{name: a}]", "6:9: files[0].source: missing"),
    ("gpus: 4\nframework: 7", f"6:12: framework: 7 is not one of {', '.join(NAMES)}"),
    (
        "gpus: 4\nframework: mxnet",
        f"6:12: framework: mxnet is not supported any more: {FORMER['mxnet']}",
    ),
    (
        "gpus: 4\nframework: pytroch",
        (f"6:12: framework: 'pytroch' is not one of {', '.join(NAMES)}; did you mean pytorch?"),
    ),
    (
        "gpus: 4\nplacement: {locality: {node: require}}",
        (
            "6:30: placement.locality.node: 'require' is"
            " not one of required, preferred, unconstrained; did you mean required?"
        ),
    ),
    (
        "gpus: 4\nplacement: {strategy: packed}",
        ("6:23: placement.strategy: 'packed' is not one of pack, spread; did you mean pack?"),
    ),
    ("gpus: 4\ncheckpoint: {keep: 3}", "6:1: checkpoint.directory: missing"),
    # Elastic.
    ("gpus: {min: 8, max: 4}", "5:8: gpus.min: min 8 is greater than max 4"),
    (
        "gpus: {min: 4, max: 4}",
        "5:1: gpus: min and max are equal: write gpus: 4 for a fixed size",
    ),
    ("gpus: {min: 4}", "5:1: gpus.max: missing; write for example max: 16"),
    (
        "gpus: {min: 4, max: 8, step: 2}",
        "5:24: gpus.step: unknown key; allowed here: min, max, choose, batch",
    ),
    (
        "gpus: {min: 4, max: 8, batch: per-process}",
        "5:24: gpus.batch: has no effect without choose: advice",
    ),
    (
        "gpus: {min: 4, max: 8, choose: advise}",
        "5:32: gpus.choose: 'advise' is not one of advice; did you mean advice?",
    ),
    (
        "gpus: {min: 4, max: 8, choose: advice}\nelastic: {grow: false}",
        (
            "6:1: elastic: has no effect: with choose: advice the gang keeps one size; remove one"
            " of them"
        ),
    ),
    ("gpus: {min: 0, max: 8}", "5:13: gpus.min: must be at least 1, not 0"),
    ("gpus: {min: two, max: 8}", "5:13: gpus.min: must be a whole number, not text"),
    (
        "roles: {worker: {tasks: 2, gpus: {min: 1, max: 2}}}",
        (
            "5:34: roles.worker.gpus: a task has a fixed size: write gpus: 2, and make the role's"
            " tasks a range such as tasks: {min: 2, max: 8}"
        ),
    ),
    (
        "roles: {ps: {tasks: {min: 1, max: 2}}, worker: {tasks: 2}}",
        (
            "5:14: roles.ps.tasks: role ps cannot be elastic: its tasks share the parameters "
            "between them"
        ),
    ),
    (
        "roles: {a: {tasks: {min: 1, max: 2}}, b: {tasks: {min: 1, max: 3}}}",
        "5:43: roles.b.tasks: only one role can be elastic, and a is already",
    ),
    (
        "gpus: 4\nelastic: {patience: 1s}",
        (
            "6:1: elastic: the job has no elastic size: give a role a range such as tasks: {min: "
            "2, max: 4}, or the job gpus: {min: 4, max: 16}"
        ),
    ),
    (
        "gpus: {min: 4, max: 8}\nelastic: {schedule: [{epoch: 0, size: 4}]}",
        (
            "6:11: elastic.schedule: needs a `checkpoint`: each change of size starts the processes"
            " again"
        ),
    ),
    (
        f"{SOME}\nelastic: {{restart: false}}",
        (
            "6:11: elastic.restart: framework command cannot go on when tasks come or go: use"
            " horovod or torchrun, or remove this key"
        ),
    ),
    (
        f"{SOME}\nframework: torchrun\nelastic: {{restart: false}}\ndata: {{outputs: /out}}",
        (
            "8:8: data.outputs: elastic.restart: false: the output of a lost task would be missing:"
            " remove one of them"
        ),
    ),
    (
        (
            f"{SOME}\nframework: torchrun\nelastic: {{restart: false}}\n"
            "data: {inputs: [{path: /in, shard: files}]}"
        ),
        (
            "8:29: data.inputs[0].shard: elastic.restart: false: nobody would read the share of a"
            " lost task: use none"
        ),
    ),
    (
        (
            "roles: {worker: {tasks: {min: 2, max: 8}}, board: {service: true}}\n"
            "framework: horovod\nelastic: {restart: false}"
        ),
        (
            "5:44: roles.board: with elastic.restart: false the job has one role: only its tasks"
            " come and go"
        ),
    ),
    (
        (
            f"{SOME}\nframework: torchrun\nelastic: {{restart: false}}\n"
            'env: {PET_RDZV_CONF: "is_host=1"}'
        ),
        (
            "8:7: env.PET_RDZV_CONF: framework torchrun sets it where elastic.restart is false:"
            " remove it"
        ),
    ),
    (
        CHECKPOINTS + "elastic: {schedule: [{epoch: 0, size: 6}]}",
        "7:33: elastic.schedule[0].size: the job can have 4 to 8 GPUs in steps of 4, not 6",
    ),
    (
        CHECKPOINTS + "elastic: {schedule: [{epoch: 0, step: 0, size: 4}]}",
        "7:22: elastic.schedule[0]: needs either `epoch` or `step`",
    ),
    (
        CHECKPOINTS + "elastic: {schedule: [{size: 4}]}",
        "7:22: elastic.schedule[0]: needs either `epoch` or `step`",
    ),
    (
        CHECKPOINTS + "elastic: {schedule: [{epoch: 3, size: 4}, {epoch: 3, size: 8}]}",
        "7:43: elastic.schedule[1]: comes no later than the entry before it",
    ),
    (
        CHECKPOINTS + "elastic: {schedule: [{epoch: 3, size: 4}, {step: 30, size: 8}]}",
        "7:43: elastic.schedule[1]: one schedule counts either epochs or steps",
    ),
    (
        CHECKPOINTS + "elastic: {schedule: [{epoch: -1, size: 4}]}",
        "7:30: elastic.schedule[0].epoch: must be at least 0, not -1",
    ),
    (
        "roles: {worker: {tasks: {min: 2, max: 8}}}\nplacement: {strategy: spread, max_nodes: 4}",
        "6:31: placement.max_nodes: strategy spread needs one node per task: at least 8, not 4",
    ),
    # Not yet.
    (
        "gpus: 4\nplacement: {gpu_model: '?!'}",
        "6:24: placement.gpu_model: must be same, any, or words of a model name such as A100",
    ),
    (
        "gpus: 4\ngpu_model: A100",
        (
            "6:1: gpu_model: unknown key here; did you mean placement.gpu_model or"
            " roles.<name>.gpu_model?"
        ),
    ),
    (
        "roles: {worker: {gpus: 1}, ps: {gpu_model: A100}}",
        "5:33: roles.ps.gpu_model: role ps has no GPUs",
    ),
    (
        "gpus: 4\nplacement: {anti_affinity: [ps]}",
        (
            "6:29: placement.anti_affinity[0]: needs roles; to keep all tasks on separate nodes, "
            "write strategy: spread"
        ),
    ),
    (
        "roles: {worker: {gpus: 1}, ps: {}}\nplacement: {anti_affinity: [[ps, workr]]}",
        ("6:29: placement.anti_affinity[0]: there is no role workr; did you mean worker?"),
    ),
    (
        "roles: {worker: {gpus: 1}, ps: {}}\nplacement: {anti_affinity: [[ps]]}",
        (
            "6:29: placement.anti_affinity[0]: a list needs at least two roles; for one role write "
            "ps"
        ),
    ),
    (
        "gpus: 4\nplacement: {include_nodes: ['n1:8041']}",
        ("6:29: placement.include_nodes[0]: must be a host name as YARN shows it, without port"),
    ),
    (
        "gpus: 4\nplacement: {include_nodes: [n1], exclude_nodes: [n1]}",
        "6:13: placement.include_nodes: all of these nodes are also in exclude_nodes",
    ),
    (
        "gpus: 4\nretry: {more_memory: {max: 32GiB}}",
        (
            "6:23: retry.more_memory.max: needs roles: with gpus alone the size of a container is "
            "not known before submit"
        ),
    ),
    (
        "roles: {worker: {gpus: 1, memory: 8GiB}}\nretry: {more_memory: {max: 8GiB}}",
        "6:23: retry.more_memory.max: no container can grow: each has 8192 MiB or more without it",
    ),
    (
        "gpus: 4\nretry: {more_memory: {factor: 1.0}}",
        "6:31: retry.more_memory.factor: must be at least 1.1, not 1.0",
    ),
    (
        "gpus: 4\ndocker: x",
        "6:1: docker: not a key here: write environment: {docker: ...}",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, restore: latest}",
        "6:38: checkpoint.restore: must be newest, none or a step number, not text",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, best: {metric: acc, mode: most}}",
        "6:55: checkpoint.best.mode: 'most' is not one of min, max",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, mirror: /tmp/ckpt}",
        "6:37: checkpoint.mirror: must be a path below the working directory, as in `ckpt/`",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, mirror: a/../b}",
        "6:37: checkpoint.mirror: must be a path below the working directory, as in `ckpt/`",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, mirror: .}",
        "6:37: checkpoint.mirror: must be a path below the working directory, as in `ckpt/`",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, mirror: .yarnam-bin}",
        "6:37: checkpoint.mirror: names that begin with `.yarnam` are yarnam's own",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, mirror: " + "n" * 256 + "}",
        "6:37: checkpoint.mirror: a name has more than 255 bytes",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, mirror_from: each}",
        "6:42: checkpoint.mirror_from: has no effect without `mirror`",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, mirror: c, mirror_from: all}",
        "6:53: checkpoint.mirror_from: 'all' is not one of rank-0, each",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, mirror: c/, async: true}",
        (
            "6:41: checkpoint.async: applies to code that saves by `yarnam.train.checkpoint`, not "
            "to `mirror`"
        ),
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, mirror: c/, memory: true}",
        (
            "6:41: checkpoint.memory: applies to code that saves by `yarnam.train.checkpoint`, not "
            "to `mirror`"
        ),
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, memory: 4GiB}",
        "6:37: checkpoint.memory: must be true or false, not text",
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /c, every: 10m}",
        "6:36: checkpoint.every: must be a whole number, not text",
    ),
    (
        "gpus: 4\ndata: {inputs: [{path: /d, mode: copy}]}",
        "6:34: data.inputs[0].mode: 'copy' is not one of stream, localize, cache",
    ),
    (
        "gpus: 4\ndata: {inputs: [{path: /d, on_corrupt: ignore}]}",
        ("6:40: data.inputs[0].on_corrupt: 'ignore' is not one of fail, skip, quarantine"),
    ),
    (
        "gpus: 4\ndata: {inputs: [{path: /d, max_skipped: 0.1}]}",
        "6:41: data.inputs[0].max_skipped: `0.1` needs a percent sign, as in 0.1 %",
    ),
    (
        "gpus: 4\ndata: {inputs: [{path: /d, max_skipped: 101 %}]}",
        (
            "6:41: data.inputs[0].max_skipped: '101 %' is not a percentage from 0 % to 100 %, such "
            "as 0.1 %"
        ),
    ),
    (
        "gpus: 4\ndata: {inputs: [{path: /d, verify: no}]}",
        "6:36: data.inputs[0].verify: 'no' is not one of off, sample, full",
    ),
    (
        "gpus: 4\ndata: {inputs: ['/d/**/*.rec']}",
        (
            "6:17: data.inputs[0]: `**` is not supported; a pattern that matches a directory "
            "includes all files below it"
        ),
    ),
    (
        "gpus: 4\ndata: {outputs: '/d/*'}",
        "6:17: data.outputs: must be a directory, not a pattern",
    ),
    (
        "gpus: 4\ndata: {inputs: [{path: /d, shard: records}]}",
        "6:35: data.inputs[0].shard: 'records' is not one of none, files",
    ),
    (
        "gpus: 4\ndata: {outputs: [/a, /b]}",
        ("6:17: data.outputs: a job commits one directory; write several below it"),
    ),
    (
        "gpus: 4\ndata: {outputs: {replace: true}}",
        "6:8: data.outputs.path: missing",
    ),
    (
        "gpus: 4\ndata: {outputs: {path: /o, on_failure: leave}}",
        "6:40: data.outputs.on_failure: 'leave' is not one of discard, keep",
    ),
    (
        "gpus: 4\ndata: {outputs: {path: o}}",
        ("6:24: data.outputs.path: must not be relative: write hdfs:///... or an absolute path"),
    ),
    # Combinations.
    ("", "1:1: has neither gpus nor roles; write for example gpus: 4"),
    (
        "gpus: 4\nroles: {worker: {gpus: 4}}",
        ("6:1: roles: gpus and roles cannot be used together: remove one"),
    ),
    ("roles: {}", "5:8: roles: has no role; write for example worker: {tasks: 2, gpus: 4}"),
    ("roles: {a: {}, a: {}}", "5:16: roles.a: duplicate key; first used in line 5"),
    (
        "roles: {Worker_1: {}}",
        (
            "5:9: roles.Worker_1: a role name must start with a-z and consist of a-z, 0-9 and `-`, "
            "at most 40 characters"
        ),
    ),
    ("roles: {worker: {tasks: 0}}", "5:25: roles.worker.tasks: must be at least 1, not 0"),
    (
        "roles: {worker: {tasks: 10001}}",
        "5:25: roles.worker.tasks: must be at most 10000, not 10001",
    ),
    (
        "roles: {a: {tasks: 9000}, b: {tasks: 9000}}",
        "5:8: roles: 18000 tasks in total; at most 10000 are allowed",
    ),
    (
        "roles: {a: {tasks: 10000, gpus: 11}}",
        "5:8: roles: 110000 GPUs in total; at most 100000 are allowed",
    ),
    (
        "roles: {worker: {gpus: 4, processes_per_task: 0}}",
        ("5:47: roles.worker.processes_per_task: must be at least 1, not 0"),
    ),
    (
        "roles: {worker: {gpus: 4, processes_per_task: 8}}",
        ("5:27: roles.worker.processes_per_task: 8 processes cannot share 4 GPUs evenly"),
    ),
    (
        "roles: {worker: {gpus: 4, processes: per-gpu, processes_per_task: 4}}",
        (
            "5:47: roles.worker.processes_per_task: processes and processes_per_task cannot be "
            "used together: remove one"
        ),
    ),
    # Rules of roles.
    (
        "roles: {ps: {service: true}}",
        "5:8: roles: no role has to succeed: at least one must be neither a service nor optional",
    ),
    (
        "roles: {chief: {optional: true}, w: {completion: chief}}",
        "5:8: roles: no role has to succeed: at least one must be neither a service nor optional",
    ),
    (
        "roles: {w: {tasks: 2, completion: {at_least: 3}}}",
        "5:36: roles.w.completion.at_least: the role has only 2 tasks",
    ),
    (
        "roles: {w: {completion: {wait: all}}}",
        "5:25: roles.w.completion: needs exactly one of at_least and succeed",
    ),
    (
        "roles: {w: {after: {role: ps, until: ended}}, ps: {}}",
        "5:13: roles.w.after: ps is a service, which ends last: wait until it is ready",
    ),
    (
        "roles: {w: {tasks: {min: 1, max: 3}, after: {role: a, until: ended}}, a: {}}",
        "5:38: roles.w.after: a change of size of w would run a again: give it a fixed size",
    ),
    (
        "roles: {w: {completion: some}}",
        "5:25: roles.w.completion: 'some' is not one of all, any, chief",
    ),
    (
        "roles: {w: {}, e: {tasks: {min: 1, max: 3}, optional: true}}",
        (
            "5:45: roles.e.optional: an elastic role needs all of its tasks, since a change of "
            "size restarts them"
        ),
    ),
    (
        "roles: {w: {early_exit: fail}}",
        "5:13: roles.w.early_exit: only a service has it; write service: true",
    ),
    (
        "roles: {w: {}, s: {service: true, completion: any}}",
        (
            "5:35: roles.s.completion: a service has none: it is stopped when the other roles are "
            "complete"
        ),
    ),
    (
        "roles: {ps: {after: w}, w: {after: ps}}",
        "5:14: roles.ps.after: role ps waits for w, which waits for it in turn",
    ),
    ("roles: {w: {after: w}}", "5:20: roles.w.after: role w cannot start after itself"),
    (
        "roles: {master: {}, w: {after: {role: mater}}}",
        "5:25: roles.w.after: there is no role mater; did you mean master?",
    ),
    (
        "roles: {ps: {ready: {port: web}}, w: {after: {role: ps, until: ready}}}",
        "5:22: roles.ps.ready.port: the role has no port web; add it: ports: [web]",
    ),
    (
        "roles: {ps: {ready: {timeout: 1min}}, w: {}}",
        "5:14: roles.ps.ready: no role starts after ps",
    ),
    ("roles: {w: {depends_on: ps}}", "5:13: roles.w.depends_on: unknown key; did you mean after?"),
    (
        "roles: {worker: {processes: per-gpu}}",
        "5:18: roles.worker.processes: per-gpu: the role has no GPUs",
    ),
    (
        "roles: {worker: {}}\nmemory_per_gpu: 8GiB",
        ("6:1: memory_per_gpu: has no effect: no role has GPUs"),
    ),
    (
        "gpus: 4\nprocesses: per-task",
        (
            "6:1: processes: with `gpus` the planner chooses the tasks and starts one process per "
            "GPU; use roles to run one process per task"
        ),
    ),
    (
        "roles: {a: {gpus: 1}, b: {gpus: 1}}\nframework: jax",
        ("5:23: roles.b: framework jax runs the same program in all processes: use one role"),
    ),
    (
        "roles: {ps: {}}\nframework: tensorflow",
        ("5:1: roles: framework tensorflow needs a role chief or worker"),
    ),
    (
        "roles: {worker: {}, evalutor: {}}\nframework: tensorflow",
        (
            "5:21: roles.evalutor: framework tensorflow has only the roles chief, worker, ps, "
            "evaluator; did you mean evaluator?"
        ),
    ),
    (
        "roles: {chief: {tasks: 2}}\nframework: tensorflow",
        ("5:17: roles.chief.tasks: framework tensorflow allows one chief, not 2"),
    ),
    (
        "roles: {worker: {tasks: 8}}\nplacement: {strategy: spread, max_nodes: 4}",
        ("6:31: placement.max_nodes: strategy spread needs one node per task: at least 8, not 4"),
    ),
    (
        "gpus: 4\nplacement: {strategy: spread, locality: {node: required}}",
        (
            "6:42: placement.locality.node: conflicts with strategy spread: required asks for as "
            "few nodes as possible, spread for one node per task; remove one"
        ),
    ),
    (
        "gpus: 4\nplacement: {exclude_nodes: ['n1:8041']}",
        ("6:29: placement.exclude_nodes[0]: must be a host name as YARN shows it, without port"),
    ),
    (
        "gpus: 4\ngang: {hold_timeout: 10min, wait_timeout: 5min}",
        ("6:8: gang.hold_timeout: hold_timeout must not be longer than wait_timeout"),
    ),
    (
        "gpus: 4\ngang: {localize_timeout: 10min, wait_timeout: 5min}",
        ("6:8: gang.localize_timeout: localize_timeout must not be longer than wait_timeout"),
    ),
    (
        "gpus: 4\ngang: {localize_timeout: 2s}",
        ("6:26: gang.localize_timeout: must be from 10s to 1d, not 2s"),
    ),
    (
        "gpus: 4\ngang: {backoff: {base: 10s, cap: 5s}}",
        ("6:18: gang.backoff.base: base must not be longer than cap"),
    ),
    (
        "gpus: 4\nenv: {YARNAM_RANK: 0}",
        ("6:7: env.YARNAM_RANK: yarnam sets this variable: remove it"),
    ),
    (
        "gpus: 4\nframework: pytorch\nenv: {RANK: 0}",
        ("7:7: env.RANK: framework pytorch sets this variable: remove it"),
    ),
    (
        "gpus: 4\nenv: {A-B: 0}",
        (
            "6:7: env.A-B: a variable name must consist of letters, digits and `_`, and not start "
            "with a digit"
        ),
    ),
    (
        "gpus: 4\nenv: {TOKEN: {from: client}}",
        ("6:14: env.TOKEN: TOKEN is not set in the submitting environment"),
    ),
    (
        "gpus: 4\nenv: {TOKEN: x}\nsecret_env: [TOKN]",
        (
            "7:14: secret_env[0]: is not in env; did you mean TOKEN? (to take it from the "
            "submitting environment, write TOKN: {from: client} in env)"
        ),
    ),
    (
        "roles: {a: {env: {T: x}}, b: {env: {T: z}}}\nsecret_env: [T]",
        ("5:37: roles.b.env.T: a secret variable must have the same value in all roles"),
    ),
    (
        "gpus: 4\nports: [ui, UI]",
        (
            "6:13: ports[1]: a port name must start with a-z and consist of a-z, 0-9 and `_`, at "
            "most 40 characters"
        ),
    ),
    ("gpus: 4\nports: [ui, ui]", "6:13: ports[1]: duplicate port name"),
    (
        "gpus: 4\nports: [task]",
        "6:9: ports[0]: the port name task is reserved; choose another name",
    ),
    ("gpus: 4\ntags: [yarnam-x]", "6:8: tags[0]: tags that begin with yarnam are reserved"),
    ("gpus: 4\ntags: [a, b, c, d, e, f, g, h, i]", "6:7: tags: at most 7 tags are allowed, not 9"),
    # Data.
    (
        "gpus: 4\ndata: {inputs: [digits]}",
        ("6:17: data.inputs[0]: must not be relative: write hdfs:///... or an absolute path"),
    ),
    (
        "gpus: 4\ndata: {inputs: ['hfds:///d']}",
        ("6:17: data.inputs[0]: hfds:// is not a supported file system; did you mean hdfs?"),
    ),
    (
        "gpus: 4\ndata: {inputs: ['s3://b/d']}",
        (
            "6:17: data.inputs[0]: s3:// is not a supported file system; use one of hdfs, viewfs, "
            "webhdfs, swebhdfs"
        ),
    ),
    (
        "gpus: 4\ndata: {inputs: ['file:///d']}",
        "6:17: data.inputs[0]: file:// has other files on each node; use hdfs://",
    ),
    (
        "gpus: 4\ndata: {inputs: ['hdfs://nn:8020']}",
        ("6:17: data.inputs[0]: needs an absolute path, such as hdfs:///data/digits"),
    ),
    (
        "gpus: 4\ndata: {inputs: [/a/d, /b/d]}",
        ("6:23: data.inputs[1]: two inputs are named d; rename one"),
    ),
    (
        "gpus: 4\ndata: {inputs: [/d], outputs: 'hdfs:///d/out'}",
        (
            "6:22: data.outputs: overlaps /d: inputs, outputs and checkpoints need separate "
            "directories"
        ),
    ),
    (
        "gpus: 4\ndata: {outputs: /o}\ncheckpoint: {directory: /o/}",
        (
            "7:14: checkpoint.directory:"
            " overlaps /o: inputs, outputs and checkpoints need separate directories"
        ),
    ),
    (
        "gpus: 4\ncheckpoint: {directory: /}",
        ("6:25: checkpoint.directory: must be a directory below the root"),
    ),
    # What travels.
    ("gpus: 4\nfiles: [a.txt]", "6:9: files[0]: no such file: /nowhere/a.txt"),
    (
        "gpus: 4\nfiles: [{source: ~/a.txt}]",
        ("6:18: files[0].source: no such file: /nowhere/~/a.txt (`~` is not expanded)"),
    ),
    ("gpus: 4\ncode: src", "6:7: code: no such file: /nowhere/src"),
    ("gpus: 4\ncode: 'hdfs:///src'", "6:7: code: must be a local directory"),
    (
        "gpus: 4\nfiles: ['https://x/a']",
        ("6:9: files[0]: cannot ship from https://; use a local path or hdfs://"),
    ),
    (
        "gpus: 4\nfiles: [{source: 'hdfs:///a', archive: true}]",
        (
            "6:18: files[0].source: is not an archive that YARN can unpack (.tar.gz, .tgz, .tar, "
            ".zip): hdfs:///a"
        ),
    ),
    (
        "gpus: 4\nfiles: [{source: 'hdfs:///a.zip', archive: true, executable: true}]",
        ("6:62: files[0].executable: an archive is unpacked and cannot be executable"),
    ),
    (
        "gpus: 4\nfiles: ['hdfs:///x/a', 'hdfs:///y/a']",
        ("6:24: files[1]: two files are named a; rename one"),
    ),
    (
        "gpus: 4\nfiles: [{source: 'hdfs:///a', name: b/c}]",
        (
            "6:37: files[0].name: needs a plain file name in the working directory; add name: "
            "(letters, digits, `.`, `_`, `+`, `=`, `@`, `-`)"
        ),
    ),
    (
        "gpus: 4\nfiles: [{source: 'hdfs:///a', name: environment}]",
        ("6:37: files[0].name: the name 'environment' is reserved; choose another name"),
    ),
    (
        "gpus: 4\nenvironment: {python: venv/bin/python}",
        ("6:23: environment.python: must be an absolute path or a name on the nodes' PATH"),
    ),
    (
        "gpus: 4\nenvironment: {archive: 'hdfs:///e.tgz', python: /usr/bin/python3}",
        ("6:49: environment.python: must be a path inside the archive, such as bin/python"),
    ),
]


@pytest.mark.parametrize(("rest", "expected"), CASES, ids=[case[0][:60] for case in CASES])
def test_one_problem_one_exact_line(rest: str, expected: str) -> None:
    assert complaints(HEAD + rest + "\n") == [expected]


HEADS = [
    (
        "default",
        (
            "3:8: queue: `default` is not a full queue name: the Fair Scheduler reads it as `no "
            "queue` and picks one by its placement rules; write the full name, such as root.default"
        ),
    ),
    ("root", "3:8: queue: `root` is not a leaf queue; write a full name such as root.research"),
    ("research", "3:8: queue: must be the full queue name; did you mean root.research?"),
    ("root..x", "3:8: queue: must be a full queue name such as root.research"),
    ("'root.a b'", "3:8: queue: must be a full queue name such as root.research"),
    ("{name: dl}", "3:8: queue: must be the full queue name; did you mean root.dl?"),
    ("{placement: exact}", "3:1: queue.name: missing"),
    (
        "{name: root.dl, placement: exactly}",
        "3:35: queue.placement: 'exactly' is not one of exact; did you mean exact?",
    ),
]


@pytest.mark.parametrize(("queue", "expected"), HEADS)
def test_queues_that_are_no_full_names(queue: str, expected: str) -> None:
    assert complaints(HEAD.replace("root.research", queue) + "gpus: 1\n") == [expected]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("version: 2", "1:10: version: this version of yarnam reads format version 1, not 2"),
        ("version: '1'", "1:10: version: this version of yarnam reads format version 1, not '1'"),
        ("version: true", "1:10: version: this version of yarnam reads format version 1, not True"),
        ("# none", "2:1: version: missing; write for example version: 1"),
    ],
)
def test_versions(line: str, expected: str) -> None:
    assert complaints(HEAD.replace("version: 1", line) + "gpus: 1\n") == [expected]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("[]", "4:10: command: is empty; write for example [python3, train.py]"),
        ("['']", "4:10: command: the first argument names the program and must not be empty"),
        ("' '", "4:10: command: is empty"),
        (
            "yes",
            (
                "4:10: command: `yes` without quotes is true in YAML 1.1 and text in 1.2; write "
                "'yes' to mean the text"
            ),
        ),
        (
            "[sh, true]",
            (
                "4:15: command[1]: true, false, yes, no, on and off have a meaning in YAML; quote "
                "the word"
            ),
        ),
        ("[sh, [a]]", "4:15: command[1]: must be text, not a list"),
        (
            "{a: b}",
            (
                "4:10: command: must be a list of arguments or a shell line, as in [python3,"
                ' train.py] or "python3 train.py", not a mapping'
            ),
        ),
        (
            f"[sh, {'x' * 131072}]",
            "4:15: command[1]: is 131072 bytes long; Linux allows at most 131071",
        ),
    ],
)
def test_commands(command: str, expected: str) -> None:
    text = HEAD.replace("[python3, train.py]", command)
    assert complaints(text + "gpus: 1\n") == [expected]


def test_no_command_at_all() -> None:
    text = HEAD.replace("command: [python3, train.py]", "gpus: 1")
    assert complaints(text) == [
        "1:1: command: missing; write for example command: [python3, train.py]"
    ]
    text = HEAD.replace("command: [python3, train.py]", "roles: {a: {command: [x]}, b: {}}")
    assert complaints(text) == ["4:28: roles.b.command: missing, and the job has no command"]


def test_all_problems_at_once_in_file_order() -> None:
    text = """\
version: 2
nmae: x
queue: default
roles:
  worker: {gpu: 4, tasks: 0, memory: 8, env: {DEBUG: yes}}
  Bad_: {gpus: 1}
framework: jxa
gang: {hold_timeout: 90, attempts: 3, attempts: 4}
hold_timeout: 3s
files: [a, {source: b, exec: true}, 8]
data: {inputs: [{path: x, mode: zzzzz}, hdfs:///a], outputs: hdfs:///a/b}
environment: ~
"""
    paths = [line.split(": ")[:2] for line in complaints(text)]
    assert paths == [
        ["1:10", "version"],
        ["2:1", "nmae"],
        ["3:8", "queue"],
        ["5:3", "roles.worker.command"],
        ["5:12", "roles.worker.gpu"],
        ["5:27", "roles.worker.tasks"],
        ["5:38", "roles.worker.memory"],
        ["5:54", "roles.worker.env.DEBUG"],
        ["6:3", "roles.Bad_"],
        ["6:3", "roles.Bad_.command"],
        ["7:12", "framework"],
        ["8:22", "gang.hold_timeout"],
        ["8:39", "gang.attempts"],
        ["9:1", "hold_timeout"],
        ["10:9", "files[0]"],
        ["10:21", "files[1].source"],
        ["10:24", "files[1].exec"],
        ["10:37", "files[2]"],
        ["11:24", "data.inputs[0].path"],
        ["11:33", "data.inputs[0].mode"],
        ["11:53", "data.outputs"],
        ["12:1", "environment"],
    ]


def test_problems_are_structured_too() -> None:
    with pytest.raises(BadSpec) as caught:
        parse_spec_text(HEAD + "gpu: 4\n", "job.yaml")
    (problem,) = caught.value.problems
    assert (problem.source, problem.line, problem.column) == ("job.yaml", 5, 1)
    assert (problem.path, problem.message) == ("gpu", "unknown key; did you mean gpus?")


def test_a_long_list_of_problems_is_cut_in_the_message_only() -> None:
    text = HEAD + "gpus: 1\n" + "".join(f"zz{n}q: 1\n" for n in range(80))
    with pytest.raises(BadSpec) as caught:
        parse_spec_text(text, "job.yaml")
    assert len(caught.value.problems) == 80
    assert caught.value.message.splitlines()[-1] == "job.yaml: and 30 more problems"


def test_values_of_variables_are_never_quoted() -> None:
    secret = "hunter2"
    bad = (
        f"gpus: 1\nenv:\n  A: [{secret}]\n  B: {{from: {secret}}}\n  C-: {secret}\n"
        f"  D: {{{secret}: x}}\nsecret_env: [E]\n"
    )
    text = "\n".join(complaints(HEAD + bad))
    assert text.count("env.") >= 3
    # The key of a mapping is shown, as any unknown key is; values are not.
    assert text.replace(f"env.D.{secret}: unknown key", "").count(secret) == 0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfeh\x00", ":1:1: is not UTF-8 (UTF-16); save the file as UTF-8"),
        (b"name: x\nqueue: \xe4\n", ":2:8: is not UTF-8 (byte 0xe4); save the file as UTF-8"),
        (b"", ":1:1: is empty; `yarnam spec init` prints a starter"),
        (b"a" * (2**20 + 1), ": is larger than 1 MiB: this is not a job spec"),
    ],
)
def test_files_that_are_no_specs(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(content)
    with pytest.raises(BadSpec) as caught:
        parse_spec_file(file)
    assert caught.value.message == f"{file}{expected}"
    assert [str(problem) for problem in caught.value.problems] == [caught.value.message]


def test_no_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"none\.yaml: no such file"):
        parse_spec_file(tmp_path / "none.yaml")
    with pytest.raises(BadSpec, match="is a directory; name the spec file in it"):
        parse_spec_file(tmp_path)
    with pytest.raises(BadSpec, match="cannot be read"):
        parse_spec_file("a\0b")


def test_mappings_from_python_name_keys_without_lines() -> None:
    with pytest.raises(BadSpec) as caught:
        parse_spec_dict({"version": 1, "name": "x", "queue": "default", "gpu": 4, "command": "ls"})
    assert [str(problem).split(": ")[:2] for problem in caught.value.problems] == [
        ["spec", "queue"],
        ["spec", "gpu"],
    ]


NOTEBOOK = "version: 1\nname: nb\nqueue: root.a\nnotebook: {}\n"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("interactive: false", "5:1: interactive: a notebook is reached by a session: remove"),
        ("pre_run: always", "5:1: pre_run: a notebook has nothing to try: remove pre_run"),
        ("hang: {timeout: 1h}", "5:1: hang: a notebook is not watched for hangs"),
        ("framework: pytorch", "5:1: framework: a notebook has none"),
        ("memory_per_gpu: 1GiB", "5:1: memory_per_gpu: has no effect without GPUs"),
        ("gpus: {min: 1, max: 2}", "5:1: gpus: a notebook has one size: write a number"),
        ("roles: {a: {tasks: 2}}", "5:1: roles: a notebook is one task"),
        ("roles: {a: {command: [x]}}", "5:13: roles.a.command: a notebook runs its own server"),
        ("ports: [notebook]", "5:9: ports[0]: the port name notebook is reserved"),
        (
            "checkpoint: {directory: /c, mirror: d}",
            "5:29: checkpoint.mirror: the files that are kept are those in notebooks",
        ),
    ],
)
def test_what_a_notebook_cannot_have(more: str, expected: str) -> None:
    [complaint] = complaints(NOTEBOOK + more)
    assert complaint.startswith(expected)

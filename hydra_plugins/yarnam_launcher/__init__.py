"""Hydra's launcher of yarnam: ``hydra/launcher=yarnam`` runs each job of a sweep as a job on YARN.

Hydra looks for plug-ins in the namespace ``hydra_plugins`` alone, so this is not a room of yarnam.
It runs this file before the module is known: annotations have to be types, not their texts.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Dict, Optional  # noqa: UP035 - OmegaConf reads the types at run time

from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, filter_overrides, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

import yarnam

log = logging.getLogger(__name__)


@dataclass
class YarnamLauncherConf:
    """``spec``: as in a spec's file, without ``command``; the other keys are ``map_array``'s."""

    _target_: str = "hydra_plugins.yarnam_launcher.YarnamLauncher"
    spec: Dict[str, Any] = field(default_factory=dict)  # noqa: UP006
    calls_per_job: int = 1
    most_at_once: int = 0
    idempotency_key: str = ""
    conf_dir: Optional[str] = None  # noqa: UP045


ConfigStore.instance().store(
    group="hydra/launcher", name="yarnam", node=YarnamLauncherConf, provider="yarnam"
)


class YarnamLauncher(Launcher):
    """A function executor behind Hydra's interface. ``launch`` returns what each job has returned,
    in their order; it raises what the first that was lost has raised, after all have ended."""

    def __init__(
        self,
        spec: Any = None,
        calls_per_job: int = 1,
        most_at_once: int = 0,
        idempotency_key: str = "",
        conf_dir: str | None = None,
    ) -> None:
        self._spec: Any = {} if spec is None else OmegaConf.to_container(spec, resolve=True)
        self._calls_per_job = calls_per_job
        self._most_at_once = most_at_once
        self._idempotency_key = idempotency_key
        self._conf_dir = conf_dir

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self._context, self._function, self._config = hydra_context, task_function, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        setup_globals()
        numbers = range(initial_job_idx, initial_job_idx + len(job_overrides))
        # Composed here: the files that the configuration is made of are not on the nodes.
        own = [
            self._own_config(list(overrides), number)
            for number, overrides in zip(numbers, job_overrides, strict=True)
        ]
        run = call_of(self._context, self._function, Singleton.get_state())
        # A sweeper may launch several batches.
        key = f"{self._idempotency_key}/{initial_job_idx}" if self._idempotency_key else ""
        with yarnam.Client(self._conf_dir) as client:
            name = str(self._config.hydra.job.name)
            executor = client.executor({"name": name, **self._spec})
            calls = executor.map_array(
                run,
                own,
                calls_per_job=self._calls_per_job,
                most_at_once=self._most_at_once,
                idempotency_key=key,
            )
            log.info("Launched %d jobs as the array %s", len(numbers), calls.array.id)
            for error in [call.exception() for call in calls.calls]:
                if error is not None:
                    raise error
            return calls.results()

    def _own_config(self, overrides: list[str], number: int) -> DictConfig:
        log.info("\t#%d : %s", number, " ".join(filter_overrides(overrides)))
        own = self._context.config_loader.load_sweep_config(self._config, overrides)
        with open_dict(own.hydra.job):
            own.hydra.job.id = str(number)
            own.hydra.job.num = number
        return own


def call_of(context: HydraContext, function: TaskFunction, singletons: Any) -> Any:
    """The function that a container runs, with the configuration of one job of the sweep.
    Pickled by value, for yarnam's code is not in the job's Python."""

    def run_one(config: DictConfig) -> Any:
        from hydra.core.singleton import Singleton
        from hydra.core.utils import run_job, setup_globals

        Singleton.set_state(singletons)
        setup_globals()
        return run_job(
            hydra_context=context,
            task_function=function,
            config=config,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )

    return run_one

"""Gangs that run when the simulation begins: they hold their room until they end."""

from __future__ import annotations

from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import RunningGang
from yarnam.sim.sim_settings import InitialGang
from yarnam.sim.world import World
from yarnam.sim.yarn_model.containers import Container


class InitialGangRun:
    """One such gang. It asks for nothing more."""

    def __init__(self, gang: InitialGang, world: World) -> None:
        self._gang = gang
        self._world = world

    def start(self) -> None:
        gang, rm = self._gang, self._world.rm
        settings = rm.settings
        size = Resources(settings.memory_mib_per_gpu // 2, settings.vcores_per_gpu // 2, 1).times(
            gang.size
        )
        app = rm.register_running(gang.queue, size, gang.pieces, self)
        names = rm.nodes.names
        self._world.tickets.launched(
            RunningGang(
                gang.name,
                gang.queue,
                gang.gpus,
                gang.declared_ends_s,
                tuple((names[node], count * gang.size) for node, count in gang.pieces),
                gang.began_s,
            )
        )

        def end() -> None:
            self._world.tickets.gone(gang.name)
            rm.unregister(app)

        self._world.timeline.at(gang.ends_s, end)

    def granted(self, container: Container) -> None:
        """Never: it asks for nothing."""

    def ended(self, container: Container, end: ContainerEnd) -> None:
        """The gang continues with the rest: its fate does not matter here."""

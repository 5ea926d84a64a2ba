"""The simulator: many jobs, each with the real gang machine and the real planner, on a model of
YARN in virtual time. Start at ``simulation``.

What is real: ``yarnam.gang.step``, ``yarnam.placement.plan`` and ``yarnam.queues.turn``. What is
modelled: the ResourceManager (``resource_manager``), the ticket office (``line``), agents and
processes (``gang_job``). Nothing in the ApplicationMaster knows of the simulator.
"""

from yarnam.sim.report import Report, report, table
from yarnam.sim.settings import Mishap, Mode, RmSettings, SimJob, SimSettings, Workload
from yarnam.sim.simulation import Outcome, simulate
from yarnam.sim.workload import WorkloadSettings, mishaps, shaken, workload

__all__ = [
    "Mishap",
    "Mode",
    "Outcome",
    "Report",
    "RmSettings",
    "SimJob",
    "SimSettings",
    "Workload",
    "WorkloadSettings",
    "mishaps",
    "report",
    "shaken",
    "simulate",
    "table",
    "workload",
]

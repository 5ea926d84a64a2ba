"""The simulator: many jobs, each with the real gang machine and the real planner, on a model of
YARN in virtual time. Start at ``simulation``.

What is real: ``yarnam.core.gang.step``, ``yarnam.core.placement.plan`` and
``yarnam.core.admission.decide``. What is modelled: the ResourceManager (``resource_manager``), the
ticket queue (``sim_tickets``), agents and processes (``gangs``). Nothing in the
ApplicationMaster knows of the simulator.
"""

from yarnam.sim.report import Report, report, table
from yarnam.sim.sim_settings import Fault, Mode, RmSettings, SimJob, SimSettings, Workload
from yarnam.sim.simulation import Outcome, simulate
from yarnam.sim.workload import WorkloadSettings, faults, perturbed, workload

__all__ = [
    "Fault",
    "Mode",
    "Outcome",
    "Report",
    "RmSettings",
    "SimJob",
    "SimSettings",
    "Workload",
    "WorkloadSettings",
    "faults",
    "perturbed",
    "report",
    "simulate",
    "table",
    "workload",
]

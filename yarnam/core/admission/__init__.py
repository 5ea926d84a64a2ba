"""Order among the jobs that wait for the same GPUs. Fairness among queues stays YARN's."""

from yarnam.core.admission.decision import Ask, Decision, Planner, admit, decide
from yarnam.core.admission.wait_queue import QueueSnapshot

__all__ = ["Ask", "Decision", "Planner", "QueueSnapshot", "admit", "decide"]

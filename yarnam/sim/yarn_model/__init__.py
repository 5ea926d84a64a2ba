"""The model of YARN: nodes, the queues of the Fair Scheduler, preemption."""

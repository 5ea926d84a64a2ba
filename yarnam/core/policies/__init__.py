"""Policies: in which order the jobs of a queue run, which of them are suspended for others, and on
how many GPUs elastic ones run. Each is a pure function of all jobs' tickets, the capacity and the
time (``scheduling_policy``), so every ApplicationMaster computes the same schedule alone and
carries out its own row. The simulator calls the same functions (``yarnam.sim.ideal``). To add one:
a module in ``shipped`` and a name in ``policy_registry``."""

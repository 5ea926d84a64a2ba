"""The resources of a task on its node: GPUs, ports, an address."""

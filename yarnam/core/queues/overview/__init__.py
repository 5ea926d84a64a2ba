"""The administrator's view: GPUs in use and out of use, nodes, alerts."""

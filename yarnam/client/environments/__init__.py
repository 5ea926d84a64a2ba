"""Environments for the nodes: the interpreter that jobs bring along, and the packed environments of
user code."""

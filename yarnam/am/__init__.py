"""The ApplicationMaster: the loop that folds events over the gang machine and acts on the world.

Start at ``loop``. Ports come in by injection; ``yarnam.cli.containers.am_process`` wires the real
ones.
"""

"""The embedded cluster: real Hadoop daemons on this machine, without root.

``EmbeddedCluster`` is the way in; the other modules are its parts::

    shape -> plan      what is asked for; what is decided (addresses, ports, devices)
    prepare            Java, jars, configuration files, commands
    boot, lifecycle    start in order, wait for readiness, take down, clean up after a crash
    processes, record  who was started, written down before use
"""

from __future__ import annotations

from yarnam.cluster.embedded import Daemon, EmbeddedCluster
from yarnam.cluster.shape import ClusterShape, Node, NodeOverride

__all__ = ["ClusterShape", "Daemon", "EmbeddedCluster", "Node", "NodeOverride"]

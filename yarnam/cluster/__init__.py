"""The embedded cluster: real Hadoop daemons on this machine, without root. ``EmbeddedCluster``
is the way in; the other modules are its parts.
"""

from __future__ import annotations

from yarnam.cluster.embedded import Daemon, EmbeddedCluster
from yarnam.cluster.shape import ClusterShape, Node, NodeOverride

__all__ = ["ClusterShape", "Daemon", "EmbeddedCluster", "Node", "NodeOverride"]

"""The ideal model of the world: a cluster whose GPUs are counted, or filled node by node, without
YARN, heartbeats or start-up times other than those that are stated. Simulators of published papers
have it so. The policies are the real ones (``yarnam.core.policies``)."""

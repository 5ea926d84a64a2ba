"""The data that all jobs of a cluster share in ZooKeeper, whoever wrote it."""

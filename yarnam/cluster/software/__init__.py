"""Java and Hadoop's jars: found, downloaded, verified."""

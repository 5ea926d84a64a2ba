"""Hadoop's configuration files and commands of the embedded cluster."""

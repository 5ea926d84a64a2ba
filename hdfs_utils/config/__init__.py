"""Hadoop's configuration: site files, nameservices, delegation tokens."""

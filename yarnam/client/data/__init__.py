"""Data on HDFS: verification, blacklist, transfers."""

"""Stores on HDFS."""

"""HDFS's wire protocols."""

"""The outside world behind the ports: Skein, the RM's REST API, HDFS, gRPC, the clock."""

"""How a checkpoint lies on HDFS: manifest, shards, values."""

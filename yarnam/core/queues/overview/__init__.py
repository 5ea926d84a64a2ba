"""What an administrator looks for: GPUs in use and out of use, nodes, alerts."""

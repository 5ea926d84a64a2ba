"""Metrics for MLflow and TensorBoard."""

"""Curves fitted to what jobs report: loss over steps, speed over GPUs, service of past jobs."""

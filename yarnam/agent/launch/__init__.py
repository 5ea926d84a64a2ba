"""Starting a task's training processes, and their logs."""

"""Programs that run the command of a process, where a framework needs one around it.

They are started by their path with -I -S: they import nothing of yarnam or of the user's."""

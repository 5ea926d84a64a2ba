"""Starting, probing and stopping the daemons."""

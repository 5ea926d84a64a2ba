"""The guards and operations of the rows in ``gang.transitions``, by phase."""

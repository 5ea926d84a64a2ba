"""What is done in each phase: guards and operations of the rows in ``gang.transitions``."""

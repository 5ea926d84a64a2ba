"""The contenders in the model of YARN: jobs with the real gang machine, ask-and-hold launchers,
gangs that run from the start."""

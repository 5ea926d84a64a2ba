"""The inputs of a job while it runs: suspicions, checks, and what each epoch excludes."""

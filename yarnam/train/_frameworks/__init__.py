"""Settings for frameworks that need some."""

"""Files of a user's killed submits and ended jobs, which later submits remove."""

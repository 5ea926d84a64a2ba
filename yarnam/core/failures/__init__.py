"""Why a process failed, and which failure of a gang came first: rules over evidence, all values."""

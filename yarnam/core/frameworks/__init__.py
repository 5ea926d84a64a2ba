"""What each framework needs of a gang: variables, ports, roles. One module each in `supported`."""

"""The requirements of each framework on a gang: variables, ports, roles. Each has one module in
`supported`."""

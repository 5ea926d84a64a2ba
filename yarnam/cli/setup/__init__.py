"""Commands on clusters, nodes and specs."""

"""Black-box test of a cluster over HTTP: processes, clients, faults, a history and its judge."""

"""The live picture of the cluster: client, snapshot, sweep, assumed decisions, lease."""

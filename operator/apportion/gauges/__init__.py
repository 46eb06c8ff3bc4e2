"""What only the operator knows of the cluster, as gauges for Prometheus: computed when it asks, in slices, by the replica that acts."""

"""What is plugged into this node: the values, the protocol of the backends, and the backends themselves."""

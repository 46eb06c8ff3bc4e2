"""What devices and the room on nodes are worth to the demand."""

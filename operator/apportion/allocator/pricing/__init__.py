"""Values of devices to the demand that is expected."""

"""What one tenant's pods notice of a full cluster for which thousands of others' pods wait, with a quota for each tenant."""

module apportion.dev/testbed/witness

go 1.26.0

module apportion.dev/testbed/inspector

go 1.26.0

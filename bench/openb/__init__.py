"""The openb trace: a production cluster that fills up, pod by pod, until nothing fits."""

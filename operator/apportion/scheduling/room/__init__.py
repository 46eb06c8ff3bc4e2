"""Room: which nodes could take a pod beside its devices, as kube-scheduler will see them."""

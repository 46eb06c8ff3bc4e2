"""The kubelet's side: registration and the DRA plugin's two calls over unix sockets."""

#!/bin/sh
# A network plugin (CNI) that gives a pod an interface and an address, and no way out: `eth0` and its other end are both in the pod's
# own network namespace, so nothing of it is on the host, and it ends with the namespace.
# In: CNI_COMMAND, CNI_NETNS, CNI_IFNAME, CNI_CONTAINERID. Out: a result of CNI 1.0.0.
set -e
case "$CNI_COMMAND" in
ADD)
  address="198.18.96.$(( $(printf %s "$CNI_CONTAINERID" | cksum | cut -d' ' -f1) % 250 + 2 ))/32"
  inside="nsenter --net=$CNI_NETNS ip"
  $inside link add "$CNI_IFNAME" type veth peer name far
  $inside address add "$address" dev "$CNI_IFNAME"
  $inside link set "$CNI_IFNAME" up
  $inside link set far up
  $inside link set lo up
  cat >&1 <<RESULT
{"cniVersion": "1.0.0", "interfaces": [{"name": "$CNI_IFNAME", "sandbox": "$CNI_NETNS"}],
 "ips": [{"address": "$address", "interface": 0}]}
RESULT
  ;;
VERSION)
  echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}'
  ;;
esac

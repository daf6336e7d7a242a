# SPDX-License-Identifier: MIT
# Runs in the guest: brings up siw on eth0, then leaves the rest to the agent.
# shellcheck source=/dev/null
. /out/lab.env

# Only a kernel with modules needs this.
modprobe -a virtio_net siw rdma_ucm ib_uverbs 8021q 2>/dev/null
ip addr add "$GUEST_IP/24" dev eth0
ip addr add "$GUEST_IP6/64" dev eth0 nodad
ip link set eth0 mtu "$MTU" up
# A peer that has gone shows within seconds.
echo 4 >/proc/sys/net/ipv4/tcp_retries2
# Without TIME_WAIT, no port of an earlier connection is in a new one's way.
echo 0 >/proc/sys/net/ipv4/tcp_max_tw_buckets
rdma link add siw0 type siw netdev eth0 || exit 1
ip link add link eth0 name eth0.7 type vlan id 7
ip addr add "$GUEST_IP_VLAN/24" dev eth0.7
ip link set eth0.7 up
rdma link add siw7 type siw netdev eth0.7
dmesg --clear
: >/out/ready
"$AGENT" /out
dmesg >/out/dmesg
exit 0

#!/bin/sh
# Two hosts on this machine: network namespaces with a cable between them, torchrun on each, one run over both.
# DDP and FSDP train for twenty steps, and what they learn is compared with one process alone. As root, on Linux.
#     scripts/two_hosts.sh [python]
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
python=$(command -v "${1:-$root/.venv/bin/python}")
tag=hw$$
first=10.77.0.1 second=10.77.0.2 port=29400
work=$(mktemp -d)
pids=""

clean() {
    # Only what this script has started and made.
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ip netns del "$tag-a" 2>/dev/null || true
    ip netns del "$tag-b" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" = 0 ] || { echo "two_hosts.sh: network namespaces need root" >&2; exit 1; }
command -v ip >/dev/null || { echo "two_hosts.sh: ip is missing (package iproute2)" >&2; exit 1; }

ip netns add "$tag-a"
ip netns add "$tag-b"
ip link add "$tag-l" netns "$tag-a" type veth peer name "$tag-r" netns "$tag-b"
for end in "a $first $tag-l" "b $second $tag-r"; do
    set -- $end
    ip -n "$tag-$1" address add "$2/24" dev "$3"
    ip -n "$tag-$1" link set lo up
    ip -n "$tag-$1" link set "$3" up
done

cat > "$work/jobs.json" <<END
[{"directory": "$work/ddp", "kind": "ddp", "save": 10}, {"directory": "$work/fsdp", "kind": "fsdp", "save": 10},
 {"directory": "$work/tensor", "tensor": 2}]
END

host() { # namespace, address, interface, whether the processes meet here
    OMP_NUM_THREADS=1 PYTHONPATH=$root GLOO_SOCKET_IFNAME=$3 exec ip netns exec "$tag-$1" timeout 300 "$python" \
        -m torch.distributed.run --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-id "$tag" \
        --rdzv-endpoint "$first:$port" --rdzv-conf "is_host=$4" --local-addr "$2" \
        "$root/tests/runs/worker.py" "$work/jobs.json"
}

began=$(date +%s)
host a $first "$tag-l" 1 > "$work/a.log" 2>&1 & a=$!
host b $second "$tag-r" 0 > "$work/b.log" 2>&1 & b=$!
pids="$a $b"
failed=0
wait "$a" || failed=1
wait "$b" || failed=1
if [ "$failed" = 1 ]; then
    tail -n 40 "$work/a.log" "$work/b.log" >&2
    exit 1
fi
sent=$(ip netns exec "$tag-a" cat "/sys/class/net/$tag-l/statistics/tx_bytes")
echo "two hosts finished after $(($(date +%s) - began)) s; the first one sent $sent bytes over the cable"
OMP_NUM_THREADS=1 PYTHONPATH=$root "$python" "$root/scripts/compare_hosts.py" "$work"

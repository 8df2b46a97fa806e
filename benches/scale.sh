#!/usr/bin/env bash
# Thousands of open streams: memory for each, what the driver counts, and what the client adds to the latency.
#
#   benches/scale.sh [--smoke] [--streams N]
#
# Server on the first processor that this shell may use, the client with one core on the last one. By default 5,000 and 16,000 streams with a
# token each second; about two minutes. With --smoke 500 streams for some seconds, to show that everything works: its figures mean nothing.
#
# Needs a descriptor for each stream in either process (ulimit -Hn), and 200 beside them.
set -euo pipefail
cd "$(dirname "$0")/.."

smoke=0 sizes=(5000 16000)
while [ $# -gt 0 ]; do
    case $1 in
        --smoke) smoke=1 sizes=(500) ;;
        --streams) sizes=("${2:?--streams needs a number}") && shift ;;
        *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
    shift
done
ttft_ms=6000 itl_ms=1000 tokens=15
if [ $smoke = 1 ]; then
    ttft_ms=500 itl_ms=100 tokens=5
fi

cargo build --quiet --release --bins -p ringload -p ringload-mock-server -p ringload-benches
bin=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d "${TMPDIR:-/tmp}/ringload-scale.XXXXXX")
server_pid=
stop_server() {
    [ -n "$server_pid" ] || return 0
    kill "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
    server_pid=
}
trap 'stop_server; rm -rf "$work"' EXIT

allowed=$(taskset -cp $$) && allowed=${allowed##*: }
server_cpu=${allowed%%[,-]*} client_cpu=${allowed##*[,-]}
echo "ringload $(git rev-parse --short HEAD 2>/dev/null || echo 'of no commit'), server on processor $server_cpu, client on processor $client_cpu"
echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), load average $(cut -d' ' -f1 /proc/loadavg)"
[ $smoke = 0 ] || echo "smoke run: the figures mean nothing"

for STREAMS in "${sizes[@]}"; do
    exec {said}< <(exec taskset -c "$server_cpu" "$bin/ringload-mock-server" --port 0 --osl "$tokens" --ttft "$ttft_ms" --itl "$itl_ms")
    server_pid=$!
    read -r _ _ MOCK_URL <&"$said"
    exec {said}<&-
    export MOCK_URL STREAMS
    echo
    echo "P6: $STREAMS streams, a token each $itl_ms ms"
    if ! "$bin/hold_streams" --streams "$STREAMS" --mock "$MOCK_URL" --artifacts "$work/artifacts" -- \
        taskset -c "$client_cpu" "$bin/ringload" profile --config benches/configs/streams.yaml --cores 1 --ui none \
        --output-artifact-dir "$work/artifacts" --overwrite 2>"$work/log"; then
        tail -5 "$work/log" >&2
        exit 1
    fi
    echo "P4: the same streams"
    "$bin/ledger_diff" --records "$work/artifacts/profile_export.jsonl" --mock "$MOCK_URL" --phase profiling
    stop_server
done

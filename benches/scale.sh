#!/usr/bin/env bash
# Thousands of open streams, and more cores than one: memory of a stream, what the client adds to the latency, and what a second core brings.
#
#   benches/scale.sh [--smoke] [--repeats N] [--streams N] [FIGURE...]
#
# Figures, all of them by default; docs/performance.md has their targets, and says what they mean:
#   P6   5,000 and 16,000 streams with a token each second: memory of a stream, what the driver counts; and P4 for the same streams
#   P10  requests per second with one core and with two, and what the coordinator takes
#
# Server on the first processor that this shell may use, one core on the last one; P10 says where it puts two. About four minutes; with
# --smoke 500 streams for some seconds, to show that everything works: its figures mean nothing.
#
# Needs a descriptor for each stream in either process (ulimit -Hn), and 200 beside them.
smoke=0 repeats=5 sizes=(5000 16000) figures=()
source "$(dirname "$0")/figures.bash"
while [ $# -gt 0 ]; do
    case $1 in
        --smoke) smoke=1 sizes=(500) ;;
        --repeats) repeats=${2:?--repeats needs a number} && shift ;;
        --streams) sizes=("${2:?--streams needs a number}") && shift ;;
        P6 | P10) figures+=("$1") ;;
        *) usage ;;
    esac
    shift
done
[ ${#figures[@]} -gt 0 ] || figures=(P6 P10)
ttft_ms=6000 itl_ms=1000 tokens=15 load_ms=2000
if [ $smoke = 1 ]; then
    repeats=1 ttft_ms=500 itl_ms=100 tokens=5 load_ms=300
fi
build

P6() {
    local STREAMS command
    for STREAMS in "${sizes[@]}"; do
        start_server --osl "$tokens" --ttft "$ttft_ms" --itl "$itl_ms"
        export STREAMS
        ringload streams.yaml 1
        echo "P6: $STREAMS streams, a token each $itl_ms ms"
        or_its_log "$STREAMS streams" "$bin/hold_streams" --streams "$STREAMS" --mock "$MOCK_URL" --artifacts "$work/artifacts" -- \
            taskset -c "$client_cpu" "${command[@]}"
        echo "P4: the same streams"
        "$bin/ledger_diff" --records "$work/artifacts/profile_export.jsonl" --mock "$MOCK_URL" --phase profiling
        stop_server
        echo
    done
}

# bout CORES : one run on the last CORES processors, under what P10 has set.
bout() {
    local cores=$1 command
    start_server --fast --ledger-capacity 1 --osl 1 --threads "$threads"
    export CONNECTIONS=256 STREAMING=false RECORDS=true LOAD=${load_ms}ms
    ringload saturate.yaml "$(list "${processors[@]: -$cores}")"
    measured "cores: $cores" "$work/runs" --load-s "$((load_ms / 1000)).$((load_ms % 1000 / 100))" --artifacts "$work/artifacts" -- "${command[@]}"
    stop_server
}

# list NUMBER... : with commas between.
list() {
    local IFS=,
    echo "$*"
}

P10() {
    # One processor for the client's other threads, two for cores, the rest for the server.
    local threads=$((${#processors[@]} - 3)) server_cpu=$server_cpu client_cpu=$allowed numbers=(1 2)
    echo "P10: small JSON answer, 256 connections; target: 1.8 times the requests with two cores, a coordinator's share below 0.05"
    if [ $threads -lt 1 ]; then
        threads=1 numbers=(1)
        echo "  only ${#processors[@]} processors: two cores, the client's other threads and a server cannot have one each, and what a second core"
        echo "  brings cannot be told here; the coordinator's share of a processor beside one core is true"
    else
        server_cpu=$(list "${processors[@]:0:threads}")
        client_cpu=$(list "${processors[@]: -3}")
        echo "  server on $server_cpu, client on $client_cpu; with a server_busy_share near $threads the server is the limit"
    fi
    rm -f "$work/runs"
    alternate bout "${numbers[@]}"
    "$bin/compare" "$work/runs" requests_per_s coordinator_share cores_us_per_request server_busy_share
    echo
}

host_lines
echo
for figure in "${figures[@]}"; do "$figure"; done

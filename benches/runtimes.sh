#!/usr/bin/env bash
# What carrying the bytes costs: ringload's reactor beside monoio, tokio and glommio.
#
#   benches/runtimes.sh [--smoke] [--repeats N]
#
# Every contestant is one thread in a closed loop, sends the same bytes and reads answers with the engine's parser; see
# benches/src/bin/runtime_client. Server on the first processor that this shell may use, the client on the last one. Contestants alternate
# within each repetition, each against a server of its own; medians and ratios are printed. About eight minutes; with --smoke some seconds
# after the build, to show that everything works: its figures mean nothing.
#
# Builds with the feature `runtimes` of ringload-benches, which pulls some sixty crates that nothing else here needs.
smoke=0 repeats=5
source "$(dirname "$0")/figures.bash"
while [ $# -gt 0 ]; do
    case $1 in
        --smoke) smoke=1 ;;
        --repeats) repeats=${2:?--repeats needs a number} && shift ;;
        *) usage ;;
    esac
    shift
done
if [ $smoke = 1 ]; then
    repeats=1
fi
build --features runtimes

# bout CONTESTANT : one run of one contestant against a fresh server, under what `load` has set.
bout() {
    local contestant=$1 runtime=${1%% *}
    start_server --ledger-capacity 1 "${server_flags[@]}"
    measured "$contestant" "$work/runs" -- "$bin/runtime_client" --runtime "$runtime" --server "${MOCK_URL#http://}" \
        --connections "$connections" --requests "$requests" --directory "$work" "${client_flags[@]}"
    stop_server
}

# load TITLE FIELD CONNECTIONS REQUESTS CLIENT_FLAGS SERVER_FLAG... : runs all contestants and shows the field.
load() {
    local title=$1 field=$2 connections=$3 requests=$4 client_flags=($5)
    shift 5
    local server_flags=("$@")
    if [ $smoke = 1 ]; then requests=$((connections * 4)); fi
    rm -f "$work/runs"
    alternate bout ringload "ringload again" monoio monoio-default tokio glommio
    echo "$title, $connections connections, $requests requests"
    "$bin/compare" "$work/runs" "$field"
    echo
}

host_lines
echo "$repeats repetitions"
echo
load "small JSON answer" cpu_us_per_request 64 200000 "" --fast --osl 1
load "small JSON answer" cpu_us_per_request 1024 200000 "" --fast --osl 1
load "streamed answer of 32 tokens in one write" cpu_us_per_request 64 150000 --streaming --fast --osl 32
load "streams of 64 tokens, a write for each as soon as the one before is done" cpu_us_per_token 256 8000 --streaming --ttft 0 --itl 0 --osl 64
load "streams of 32 tokens, each 10 to 50 ms behind the one before" cpu_us_per_token 1024 4096 --streaming --ttft 30 --itl 30 --jitter 0.66 --osl 32

#!/usr/bin/env bash
# First figures of ringload on this machine, beside other clients where they are installed.
#
#   benches/first_figures.sh [--smoke] [--repeats N]
#
# Server on the first processor that this shell may use, the whole client process on the last one. Contestants alternate within each
# repetition, each against a server of its own; medians and ratios are printed, see docs/performance.md for what they mean. About three
# minutes; with --smoke under 20 seconds after the build, to show that everything works: its figures mean nothing.
#
# Optional: wrk (apt-get install wrk) and oha (cargo install oha).
set -euo pipefail
cd "$(dirname "$0")/.."

smoke=0 repeats=5
while [ $# -gt 0 ]; do
    case $1 in
        --smoke) smoke=1 ;;
        --repeats) repeats=${2:?--repeats needs a number} && shift ;;
        *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
    shift
done
load_s=2 paced_s=10 records=100000
if [ $smoke = 1 ]; then
    repeats=1 load_s=1 paced_s=1 records=5000
fi

cargo build --quiet --release --bins -p ringload -p ringload-mock-server -p ringload-benches
bin=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d "${TMPDIR:-/tmp}/ringload-figures.XXXXXX")
log=$work/log
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

# start_server FLAG... : a fresh server; its address is in $MOCK_URL afterwards.
start_server() {
    exec {said}< <(exec taskset -c "$server_cpu" "$bin/ringload-mock-server" --port 0 "$@")
    server_pid=$!
    read -r _ _ MOCK_URL <&"$said"
    exec {said}<&-
    export MOCK_URL
}

# measured NAME FILE CPU_OF_FLAG... -- COMMAND... : runs a client on $client_cpu, appends its line to FILE.
measured() {
    local name=$1 file=$2
    shift 2
    if ! taskset -c "$client_cpu" "$bin/cpu_of" --name "$name" --mock "$MOCK_URL" --append "$file" "$@" >/dev/null 2>"$log"; then
        echo "first_figures: $name failed:" >&2
        tail -5 "$log" >&2
        exit 1
    fi
}

ringload() { # CONFIG, as a command line in $command
    command=("$bin/ringload" profile --config "benches/configs/$1" --cores 1 --ui none --output-artifact-dir "$work/artifacts" --overwrite)
}

# one_bout CONTESTANT FILE CONNECTIONS SERVER_FLAG... : one run of one contestant against a fresh server.
one_bout() {
    local contestant=$1 file=$2 connections=$3
    local target command=() extra=()
    shift 3
    start_server --fast --ledger-capacity 1 "$@"
    target=$MOCK_URL/v1/chat/completions
    export CONNECTIONS=$connections LOAD_S=$load_s RECORDS=true
    case $contestant in
        ringload*)
            if [ "$contestant" = "ringload, no records" ]; then RECORDS=false; fi
            ringload saturate.yaml
            extra=(--artifacts "$work/artifacts")
            ;;
        wrk) command=(wrk -t1 -c"$connections" -d"${load_s}s" -s "$work/post.lua" "$target") ;;
        oha) command=(oha --no-tui -c "$connections" -z "${load_s}s" -m POST -T application/json -D "$work/body.json" "$target") ;;
    esac
    measured "$contestant" "$file" --load-s "$load_s" "${extra[@]}" -- "${command[@]}"
    stop_server
    # ringload runs first and leaves the bytes that the others send.
    if [ ! -s "$work/body.json" ]; then
        "$bin/request_body" "$work/artifacts/inputs.json" >"$work/body.json"
    fi
}

# saturate TITLE CONNECTIONS STREAMING SERVER_FLAG...
saturate() {
    local title=$1 connections=$2 streaming=$3
    local contestants=(ringload "ringload again" "ringload, no records" "${others[@]}") count index repeat
    shift 3
    export STREAMING=$streaming
    rm -f "$work/body.json" "$work/runs"
    count=${#contestants[@]}
    for ((repeat = 0; repeat < repeats; repeat++)); do
        # Each repetition begins with another contestant, so that none has a fixed place.
        for ((index = 0; index < count; index++)); do
            one_bout "${contestants[(index + repeat) % count]}" "$work/runs" "$connections" "$@"
        done
    done
    echo "$title"
    # The whole process, then its cores alone: what the load cost while it ran, without the reading back and writing of records after it.
    "$bin/compare" "$work/runs" cpu_us_per_request cores_us_per_request requests_per_s
    echo
}

# paced STREAMS LOAD_S TOKENS SERVER_FLAG... : records beside the ledger, request by request.
paced() {
    local streams=$1 seconds=$2 tokens=$3
    shift 3
    start_server --osl "$tokens" "$@"
    export STREAMS=$streams LOAD_S=$seconds
    ringload paced.yaml
    measured "$streams streams" "$work/paced" -- "${command[@]}"
    echo "P4: $streams streams of $tokens tokens, server flags: $*"
    "$bin/ledger_diff" --records "$work/artifacts/profile_export.jsonl" --mock "$MOCK_URL" --phase profiling
    stop_server
    echo
}

# edges NAME FIELD CONFIG SERVER_FLAG... : the idle ends of a run. The server has nothing to do there, so the client has all processors.
edges() {
    local name=$1 field=$2 config=$3 client_cpu=$allowed repeat
    shift 3
    rm -f "$work/edges"
    for ((repeat = 0; repeat < repeats; repeat++)); do
        start_server --fast "$@"
        ringload "$config"
        measured "$name" "$work/edges" --edges -- "${command[@]}"
        stop_server
    done
    "$bin/compare" "$work/edges" "$field"
}

others=()
for tool in wrk oha; do
    if command -v "$tool" >/dev/null; then others+=("$tool"); fi
done
cat >"$work/post.lua" <<LUA
local file = assert(io.open("$work/body.json", "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = "application/json"
file:close()
LUA

echo "ringload $(git rev-parse --short HEAD 2>/dev/null || echo 'of no commit'), $repeats repetitions of $load_s s, server on processor $server_cpu, client on processor $client_cpu"
echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), load average $(cut -d' ' -f1 /proc/loadavg)"
[ "$server_cpu" != "$client_cpu" ] || echo "only one processor: server and client disturb each other, and the figures mean nothing"
command -v wrk >/dev/null || echo "wrk is not installed and left out; to compare: apt-get install wrk"
command -v oha >/dev/null || echo "oha is not installed and left out; to compare: cargo install oha"
[ $smoke = 0 ] || echo "smoke run: the figures mean nothing"
echo

saturate "P1: small JSON answer, 64 connections" 64 false --osl 1
saturate "P1: small JSON answer, 1,024 connections" 1024 false --osl 1
saturate "P2: streamed answer of 32 tokens in one write, 64 connections" 64 true --osl 32

if [ $smoke = 1 ]; then
    paced 64 $paced_s 20 --ttft 100 --itl 10
else
    paced 256 $paced_s 91 --ttft 100 --itl 10
    paced 4096 $paced_s 20 --ttft 100 --itl 100
fi

echo "P7: from exec to the first request at the server, 1,000 prompts of 512 tokens; target 100 ms"
edges ringload exec_to_first_request_ms startup.yaml
export REQUESTS=$records
for STREAMING in false true; do
    export STREAMING
    echo "P7: from the last response to exit, $records records, streaming $STREAMING; target 200 ms"
    edges ringload last_response_to_exit_ms count.yaml --osl 32
done

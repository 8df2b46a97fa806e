#!/usr/bin/env bash
# What a request and an event cost ringload beside other clients, and how true its figures are.
#
#   benches/compare.sh [--smoke] [--repeats N] [--with-aiperf VENV] [FIGURE...]
#
# Figures, all of them by default; docs/performance.md has their targets, and says what they mean:
#   P1   small answer, 64 and 1,024 connections: processor time of a request
#   P2   streamed answer of 32 tokens in one write, 64 connections: processor time of a request
#   P3   streamed answers, a write for each event: processor time of an event, saturated and paced
#   P4   paced streams: what the client adds to the server's own times, request by request
#   P7   the idle ends of a run: exec to first request, last response to exit
#   P9   P1 at 64 connections with records and without
#
# Server on the first processor that this shell may use, the whole client process on the last one. Contestants alternate within each
# repetition, each against a server of its own; medians and ratios are printed. Ten minutes for all; with --smoke under 20 seconds after the
# build, to show that everything works: its figures mean nothing.
#
# Contestants are ringload, ringload again, and wrk (apt-get install wrk) and oha (cargo install --locked oha) where they are on PATH.
# --with-aiperf adds VENV/bin/aiperf to P2, with all processors, for a minute and a half more. AIPerf fetches the table of its tokenizer from the
# network once, or takes it from TIKTOKEN_CACHE_DIR.
smoke=0 repeats=5 aiperf='' figures=()
source "$(dirname "$0")/figures.bash"
while [ $# -gt 0 ]; do
    case $1 in
        --smoke) smoke=1 ;;
        --repeats) repeats=${2:?--repeats needs a number} && shift ;;
        --with-aiperf)
            aiperf=${2:?--with-aiperf needs a virtual environment} && shift
            # The caller's path, and figures.bash has gone elsewhere.
            aiperf=$(cd "$OLDPWD" && realpath -m -- "$aiperf")/bin/aiperf
            ;;
        P[1-4] | P7 | P9) figures+=("$1") ;;
        *) usage ;;
    esac
    shift
done
[ ${#figures[@]} -gt 0 ] || figures=(P1 P2 P3 P4 P7 P9)
load_ms=2000 paced_s=10 paced_tokens=32 records=100000 scheduled=1000000
if [ $smoke = 1 ]; then
    repeats=1 load_ms=300 paced_s=1 paced_tokens=8 records=5000 scheduled=5000
fi
build

# bout CONTESTANT : one run of one contestant against a fresh server, under what `saturate` has set.
bout() {
    local contestant=$1 target command=() flags=() load_ms=$load_ms client_cpu=$client_cpu
    start_server --ledger-capacity 1 "${server_flags[@]}"
    target=$MOCK_URL/v1/chat/completions
    case $contestant in
        wrk) load_ms=$(((load_ms + 999) / 1000 * 1000)) ;; # wrk counts whole seconds
        aiperf) load_ms=5000 client_cpu=$allowed ;;
    esac
    export CONNECTIONS=$connections STREAMING=$streaming LOAD=${load_ms}ms RECORDS=true
    case $contestant in
        ringload*)
            if [ "$contestant" = "ringload, no records" ]; then RECORDS=false; fi
            ringload saturate.yaml 1
            flags=(--artifacts "$work/artifacts")
            ;;
        wrk) command=(wrk -t1 -c"$connections" -d"$((load_ms / 1000))s" -s "$work/post.lua" "$target") ;;
        oha) command=(oha --no-tui -c "$connections" -z "${load_ms}ms" -m POST -T application/json -D "$work/body.json" "$target") ;;
        aiperf)
            command=(timeout 120 "$aiperf" profile --model mock-model --url "$MOCK_URL" --endpoint-type chat --streaming
                --concurrency "$connections" --benchmark-duration $((load_ms / 1000)) --benchmark-grace-period 0
                --custom-dataset-type inputs-json --input-file "$work/inputs.json" --tokenizer builtin --use-server-token-count
                --no-server-metrics --no-gpu-telemetry --ui none --output-artifact-dir "$work/aiperf")
            ;;
    esac
    measured "$contestant" "$work/runs" --load-s "$((load_ms / 1000)).$(printf %03d $((load_ms % 1000)))" "${flags[@]}" -- "${command[@]}"
    stop_server
    # ringload runs first and leaves the requests that the others send.
    if [ ! -s "$work/body.json" ]; then
        cp "$work/artifacts/inputs.json" "$work/inputs.json"
        or_its_log request_body "$bin/request_body" "$work/inputs.json" >"$work/body.json"
    fi
}

# saturate TITLE CONNECTIONS STREAMING SERVER_FLAG... : runs all in `contestants` and shows `fields`.
saturate() {
    local title=$1 connections=$2 streaming=$3
    shift 3
    local server_flags=("$@")
    rm -f "$work/body.json" "$work/runs"
    alternate bout "${contestants[@]}"
    echo "$title"
    "$bin/compare" "$work/runs" "${fields[@]}"
    echo
}

# cpu_* is the whole process, cores_* what the load cost while it ran, without what comes before and after it.
per_request=(cpu_us_per_request cores_us_per_request requests_per_s)
per_event=(cpu_us_per_token cores_us_per_token tokens_per_s server_busy_share)

P1() {
    local contestants=(ringload "ringload again" "${others[@]}") fields=("${per_request[@]}")
    saturate "P1: small JSON answer, 64 connections; target ratios: wrk 1.25, oha 2" 64 false --fast --osl 1
    saturate "P1: small JSON answer, 1,024 connections; target ratios: wrk 1.5, oha 2" 1024 false --fast --osl 1
}

P2() {
    local contestants=(ringload "ringload again" "${others[@]}") fields=("${per_request[@]}")
    if [ -n "$aiperf" ]; then contestants+=(aiperf); fi
    saturate "P2: streamed answer of 32 tokens in one write, 64 connections; target ratios: wrk 1, oha 3, aiperf's rate 1/150" 64 true --fast --osl 32
}

P3() {
    local contestants=(ringload "ringload again" "${others[@]}") fields=("${per_event[@]}")
    saturate "P3: streams of 64 tokens, a write for each as soon as the one before is done, 256 connections; target 140,000 tokens/s per core" \
        256 true --ttft 0 --itl 0 --osl 64
    local load_ms=$((load_ms * 2))
    saturate "P3: 1,024 streams of $paced_tokens tokens, each 10 to 50 ms behind the one before; target 8 us per token" \
        1024 true --ttft 30 --itl 30 --jitter 0.66 --osl "$paced_tokens"
}

P4() {
    if [ $smoke = 1 ]; then
        paced 64 1s 20 --ttft 100 --itl 10
    else
        paced 256 1s 91 --ttft 100 --itl 10
        paced 4096 2s 20 --ttft 100 --itl 100
        echo "The same, but all streams begin at once, and so a token of each is due at the same time:"
        paced 256 1ms 91 --ttft 100 --itl 10
        paced 4096 1ms 20 --ttft 100 --itl 100
    fi
}

# paced STREAMS RAMP TOKENS SERVER_FLAG... : records beside the ledger, request by request.
paced() {
    local streams=$1 tokens=$3
    export RAMP=$2
    shift 3
    start_server --osl "$tokens" "$@"
    export STREAMS=$streams LOAD=${paced_s}s
    ringload paced.yaml 1
    measured "$streams streams" "$work/paced" -- "${command[@]}"
    echo "P4: $streams streams of $tokens tokens, begun over $RAMP, server flags: $*"
    "$bin/ledger_diff" --records "$work/artifacts/profile_export.jsonl" --mock "$MOCK_URL" --phase profiling
    stop_server
    echo
}

P7() {
    echo "P7: from exec to the first request at the server, 1,000 prompts of 512 tokens; target 100 ms"
    edges exec_to_first_request_ms startup.yaml
    echo "P7: the same, a schedule of $scheduled entries in a file, of which every second is late by more than its neighbour; target 1,000 ms"
    export TRACE=$work/trace.jsonl
    awk -v entries=$scheduled 'BEGIN {
        for (entry = 0; entry < entries; entry++) {
            timestamp = (entry % 2 ? entry - 1 : entry + 1) / 8
            printf "{\"timestamp\": %.3f, \"text\": \"request %d of a trace\", \"output_length\": 16}\n", timestamp, entry
        }
    }' >"$TRACE"
    edges exec_to_first_request_ms schedule.yaml
    rm "$TRACE"
    export REQUESTS=$records STREAMING
    for STREAMING in false true; do
        echo "P7: from the last response to exit, $records records, streaming $STREAMING; target 200 ms"
        edges last_response_to_exit_ms count.yaml --osl 32
    done
    echo
}

# edges FIELD CONFIG SERVER_FLAG... : the idle ends of a run. The server has nothing to do there, so the client has all processors.
edges() {
    local field=$1 config=$2 client_cpu=$allowed repeat
    shift 2
    rm -f "$work/edges"
    for ((repeat = 0; repeat < repeats; repeat++)); do
        # To remove the files of the run before would count as start.
        rm -rf "$work/artifacts"
        start_server --fast "$@"
        ringload "$config" 1
        measured ringload "$work/edges" --edges -- "${command[@]}"
        stop_server
    done
    "$bin/compare" "$work/edges" "$field"
}

P9() {
    local contestants=("ringload, no records" ringload "ringload again") fields=("${per_request[@]}")
    saturate "P9: small JSON answer, 64 connections, with records and without; target 5 % more for them" 64 false --fast --osl 1
}

others=() missing=()
for tool in wrk oha; do
    if command -v "$tool" >/dev/null; then others+=("$tool"); else missing+=("$tool"); fi
done
if [ -n "$aiperf" ] && [ ! -x "$aiperf" ]; then
    missing+=("$aiperf") && aiperf=''
fi
cat >"$work/post.lua" <<LUA
local file = assert(io.open("$work/body.json", "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = "application/json"
file:close()
LUA

host_lines
echo "$repeats repetitions of $load_ms ms"
for tool in "${missing[@]}"; do echo "$tool is not there and is left out"; done
echo
for figure in "${figures[@]}"; do "$figure"; done

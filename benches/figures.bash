# What the scripts with figures share: programs, processors, a server for each run, and turns of contestants. To be sourced, from anywhere.
#
# Afterwards: the working directory is the repository's root, $bin holds the programs, $work is a directory that goes away at the end,
# $processors are the numbers of the processors that this shell may use, $server_cpu the first and $client_cpu the last of them.
set -euo pipefail
script=$(basename "$0" .sh)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# usage: prints the comment at the head of the script and ends it.
usage() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "benches/$script.sh" >&2
    exit 2
}

# build CARGO_FLAG... : the programs, with these flags for those of the benches.
build() {
    cargo build --quiet --release --bins -p ringload -p ringload-mock-server
    cargo build --quiet --release --bins -p ringload-benches "$@"
    bin=${CARGO_TARGET_DIR:-target}/release
}

work=$(mktemp -d "${TMPDIR:-/tmp}/ringload-$script.XXXXXX")
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
processors=()
for range in ${allowed//,/ }; do
    for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do processors+=("$cpu"); done
done
server_cpu=${processors[0]} client_cpu=${processors[-1]}

# host_lines: what the figures are measured with, first of all.
host_lines() {
    echo "ringload $(git rev-parse --short HEAD 2>/dev/null || echo 'of no commit'), server on processor $server_cpu, client on processor $client_cpu"
    echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), load average $(cut -d' ' -f1 /proc/loadavg)"
    [ "$server_cpu" != "$client_cpu" ] || echo "only one processor: server and client disturb each other, and the figures mean nothing"
    [ "$smoke" = 0 ] || echo "smoke run: the figures mean nothing"
}

# start_server FLAG... : a fresh server on $server_cpu; its address is in $MOCK_URL afterwards.
start_server() {
    exec {said}< <(exec taskset -c "$server_cpu" "$bin/ringload-mock-server" --port 0 "$@")
    server_pid=$!
    read -r _ _ MOCK_URL <&"$said"
    exec {said}<&-
    export MOCK_URL
}

# or_its_log NAME COMMAND... : runs a command, its standard error in $log; the end of it is shown if the command fails, and the script ends.
or_its_log() {
    local name=$1
    shift
    if ! "$@" 2>"$log"; then
        echo "$script: $name failed:" >&2
        tail -5 "$log" >&2
        exit 1
    fi
}

# measured NAME FILE CPU_OF_FLAG... -- COMMAND... : runs a client on $client_cpu, appends its line to FILE.
measured() {
    local name=$1 file=$2
    shift 2
    or_its_log "$name" taskset -c "$client_cpu" \
        "$bin/cpu_of" --name "$name" --mock "$MOCK_URL" --server "$server_pid" --append "$file" "$@" >/dev/null
}

# ringload CONFIG CORES : the command line of a run, in $command.
ringload() {
    command=("$bin/ringload" profile --config "benches/configs/$1" --cores "$2" --ui none
        --output-artifact-dir "$work/artifacts" --overwrite)
}

# alternate BOUT CONTESTANT... : in each of $repeats repetitions, BOUT CONTESTANT for each; each repetition begins with another one, so that none
# has a fixed place.
alternate() {
    local bout=$1 count=$(($# - 1)) repeat index
    shift
    local contestants=("$@")
    for ((repeat = 0; repeat < repeats; repeat++)); do
        for ((index = 0; index < count; index++)); do
            "$bout" "${contestants[(index + repeat) % count]}"
        done
    done
}

#!/usr/bin/env bash
# Runs every bench and the scripts with figures for a moment each, to show that they work; the figures mean nothing.
#
#   benches/smoke.sh
#
# Under a minute after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
export RINGLOAD_BENCH_SMOKE=1
# Criterion would keep the figures of this run as the base of the next comparison; they are no base for anything.
criterion_home=$(mktemp -d "${TMPDIR:-/tmp}/ringload-smoke.XXXXXX")
trap 'rm -rf "$criterion_home"' EXIT
CRITERION_HOME=$criterion_home cargo bench --quiet -p ringload-benches
benches/compare.sh --smoke
benches/scale.sh --smoke

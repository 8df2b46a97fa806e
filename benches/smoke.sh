#!/usr/bin/env bash
# Runs every bench and the scripts with figures for a moment each, to show that they work; the figures mean nothing.
#
#   benches/smoke.sh
#
# Under a minute after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
export RINGLOAD_BENCH_SMOKE=1
# Optimising a dozen programs as wholes takes minutes, and figures that mean nothing need none of it.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
# Criterion would keep the figures of this run as the base of the next comparison; they are no base for anything.
criterion_home=$(mktemp -d "${TMPDIR:-/tmp}/ringload-smoke.XXXXXX")
trap 'rm -rf "$criterion_home"' EXIT
CRITERION_HOME=$criterion_home cargo bench --quiet -p ringload-benches
benches/compare.sh --smoke
benches/scale.sh --smoke

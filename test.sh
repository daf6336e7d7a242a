#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and tests everything:
#   build/       the normal build: all suites but slow ones; interop needs root
#   build-asan/  address and undefined-behaviour sanitizers
#   build-tsan/  thread sanitizer, suite 'threaded'
#   build-rel/   the library and the programs as a distribution builds them: no warning there either
# Usage: ./test.sh [--quick]     --quick: the normal build only
# The last line of output is "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

QUICK=no
case "${1:-}" in
'') ;;
--quick) QUICK=yes ;;
*)
    echo "usage: ./test.sh [--quick]" >&2
    exit 2
    ;;
esac

# One "passed failed skipped" line per run.
COUNTS=()
# Set when something failed that is no test: a build.
BROKEN=0

# Configures once; later, meson itself sees changed build files.
configure() {
    local dir=$1
    shift
    [[ -f $dir/build.ninja ]] || meson setup "$dir" "$@" >"$dir.log" 2>&1
}

# What is built of a folder; empty: all.
TARGETS=()

# build DIR OPTIONS...: configures and compiles; output goes to DIR.log and is shown on failure.
build() {
    local dir=$1
    echo "== $dir: build"
    if configure "$@" && ninja -C "$dir" "${TARGETS[@]}" >"$dir.log" 2>&1; then
        return 0
    fi
    # A folder that an older meson or a broken first run left behind is configured anew, once.
    if [[ -d $dir ]] && ! grep -q 'FAILED:' "$dir.log" && rm -rf "$dir" &&
        configure "$@" && ninja -C "$dir" "${TARGETS[@]}" >"$dir.log" 2>&1; then
        return 0
    fi
    grep -E -A 15 'FAILED:|ERROR|error:' "$dir.log" | head -n 60 || tail -n 20 "$dir.log"
    echo "== $dir: build failed, see $dir.log"
    BROKEN=$((BROKEN + 1))
    return 1
}

# Prints the counts of a run and, on the error channel, what failed with the end of its output.
read_results() {
    python3 -B - "$1" <<'EOF'
import json, sys

kinds = {"OK": 0, "EXPECTEDFAIL": 0, "SKIP": 2}
counts = [0, 0, 0]
try:
    lines = open(sys.argv[1], encoding="utf-8", errors="replace").read().splitlines()
except FileNotFoundError:
    lines = []
for line in lines:
    test = json.loads(line)
    kind = kinds.get(test["result"], 1)
    counts[kind] += 1
    if kind == 1:
        print(f"-- {test['result']}: {test['name']}", file=sys.stderr)
        out = (test.get("stdout") or "") + (test.get("stderr") or "")
        print("\n".join("   " + l for l in out.splitlines()[-40:]), file=sys.stderr)
print(*counts)
EOF
}

# run DIR MESON-TEST-ARGS...
run() {
    local dir=$1 log=$1/meson-logs/testlog.json counts rc=0
    shift
    echo "== $dir: test"
    rm -f "$log"
    # A line for each test as it ends; all of the output is in the log.
    "${WRAP[@]}" meson test -C "$dir" --no-rebuild --print-errorlogs "$@" 2>&1 | tee "$dir.log" |
        grep --line-buffered -E '^ *[0-9]+/[0-9]+ ' || rc=$?
    counts=$(read_results "$log")
    COUNTS+=("$counts")
    # meson counts its failed tests in the exit code; a failure without one is meson's own.
    if [[ $rc -ne 0 && $(cut -d' ' -f2 <<<"$counts") -eq 0 ]]; then
        tail -n 20 "$dir.log"
        BROKEN=$((BROKEN + 1))
    fi
    echo "== $dir: $(awk '{ print $1 " passed, " $2 " failed, " $3 " skipped" }' <<<"$counts")"
}

WRAP=(env)

./setup.sh

if build build; then
    NOT=(--no-suite slow)
    if [[ $(id -u) -ne 0 ]]; then
        echo "== not root: suite interop is left out"
        NOT+=(--no-suite interop)
    fi
    run build "${NOT[@]}"
fi

if [[ $QUICK == no ]]; then
    # gcc's sanitizers; the first finding ends a test, or it would pass with a report nobody reads.
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:abort_on_error=1
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:abort_on_error=1
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
    # Without -O1 the sanitizers' own inlining makes gcc warn about code that is fine.
    SAN=(-Dbuildtype=debug -Doptimization=1 -Db_lundef=false)

    if CC=gcc build build-asan "${SAN[@]}" -Db_sanitize=address,undefined; then
        run build-asan --no-suite slow --no-suite lint --no-suite interop -t 4
    fi
    if CC=gcc build build-tsan "${SAN[@]}" -Db_sanitize=thread -Dc_args=-Wno-tsan; then
        # The thread sanitizer of gcc 12 cannot place its shadow under strong address
        # randomisation, which newer kernels have.
        setarch "$(uname -m)" -R true 2>/dev/null && WRAP=(setarch "$(uname -m)" -R)
        run build-tsan --suite threaded --no-suite slow -t 4
        WRAP=(env)
    fi

    # More optimisation sees more; without assertions nothing may be missing.
    TARGETS=(programs)
    build build-rel -Dbuildtype=release -Db_ndebug=true || true
    TARGETS=()
fi

# A build that failed is a failure too, or the sum could look clean.
printf '%s\n' "0 $BROKEN 0" "${COUNTS[@]}" |
    awk '{ p += $1; f += $2; s += $3 }
         END { print p " passed, " f " failed, " s " skipped"; exit f > 0 }'

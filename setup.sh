#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Prepares a Debian machine for building and testing uiw: installs the packages that are missing
# (as root) and unpacks lwIP's Debian source into subprojects/lwip. Safe to run again: with
# everything in place it needs no network and takes a second.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Without these nothing builds.
ESSENTIAL=(meson ninja-build pkg-config gcc libc6-dev libpcap-dev libisal-dev libssl-dev
    libcmocka-dev libjansson-dev dpkg-dev xz-utils patch python3)
# Peers, tools and fuzzers for the tests, and what the lint suite calls.
FOR_TESTS=(rdmacm-utils perftest ibverbs-utils libibverbs-dev librdmacm-dev iproute2 tshark tcpdump
    ethtool iperf3 valgrind flex bison bc clang libclang-rt-dev clang-format clang-tidy
    chromium chromium-driver gnuplot-nox)

LWIP_SUITE=trixie
LWIP_VERSION='2.2.1+dfsg1-1+deb13u1'
LWIP_ORIG_SHA=83729c274c499d3348e9fbbe043a3113f3fa8953e7efddc7c21c7fcbb1f2b7b1
LWIP_DEBIAN_SHA=faa343b3c76d69080240ae1323932b7348fa1d0042f6ad29bd286246660720a9
LWIP_DIR=subprojects/lwip
LWIP_STAMP=$LWIP_DIR/.uiw-stamp

die() {
    echo "setup.sh: error: $*" >&2
    exit 1
}

say() {
    echo "setup.sh: $*"
}

TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT

# Runs a command silently; its output is worth reading only when it fails.
quietly() {
    local log=$TMP/log
    if ! "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        return 1
    fi
}

# ---- Packages ----

missing_of() {
    local p
    for p in "$@"; do
        [[ $(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true) == installed ]] ||
            echo "$p"
    done
}

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"
}

# The lock timeout covers dpkg only; the package lists have a lock of their own.
apt_update() {
    local try
    for try in 1 2 3 4 5 6; do
        quietly apt -qq update && return 0
        grep -q 'Could not get lock' "$TMP/log" || return 1
        say "package lists are locked by another process (try $try), waiting"
        sleep 10
    done
    return 1
}

install_packages() {
    local essential all
    mapfile -t essential < <(missing_of "${ESSENTIAL[@]}")
    mapfile -t all < <(missing_of "${ESSENTIAL[@]}" "${FOR_TESTS[@]}")
    [[ ${#all[@]} -gt 0 ]] || return 0
    if [[ $(id -u) -ne 0 ]]; then
        say "not root, so these packages stay missing: ${all[*]}"
        [[ ${#essential[@]} -eq 0 ]] || die "cannot build without: ${essential[*]}"
        return 0
    fi
    say "installing: ${all[*]}"
    apt_update || die "apt-get update failed"
    quietly apt -qq -y --no-install-recommends install "${all[@]}" ||
        die "apt-get install failed"
}

# ---- lwIP ----

# Prints "URI<tab>KEY" for every binary source with component main that the machine's apt uses,
# from one-line lists and from deb822 files; KEY is empty when none is named.
apt_sources() {
    local dir=/etc/apt f
    for f in "$dir/sources.list" "$dir"/sources.list.d/*.list; do
        [[ -r $f ]] && awk '
            $1 == "deb" {
                key = ""
                i = 2
                if ($i ~ /^\[/) {
                    for (;; i++) {
                        opt = $i
                        gsub(/[][]/, "", opt)
                        if (opt ~ /^signed-by=/) key = substr(opt, 11)
                        if ($i ~ /\]$/ || i > NF) break
                    }
                    i++
                }
                for (j = i + 2; j <= NF && $j !~ /^#/; j++)
                    if ($j == "main") { print $i "\t" key; break }
            }' "$f"
    done
    for f in "$dir"/sources.list.d/*.sources; do
        [[ -r $f ]] && awk '
            function flush(  n, i, uri) {
                if (types ~ / deb / && comps ~ / main / && enabled !~ / (no|false|0) /) {
                    n = split(uris, uri, " ")
                    for (i = 1; i <= n; i++) print uri[i] "\t" key
                }
                types = comps = uris = enabled = key = field = ""
            }
            /^#/ { next }
            /^[ \t]*$/ { flush(); next }
            /^[ \t]/ { line = $0 }
            /^[^ \t]/ {
                field = tolower($0); sub(/:.*/, "", field)
                line = $0; sub(/^[^:]*:/, "", line)
            }
            {
                gsub(/[ \t]+/, " ", line)
                if (field == "types") types = types " " line " "
                else if (field == "components") comps = comps " " line " "
                else if (field == "uris") uris = uris " " line
                else if (field == "enabled") enabled = " " tolower(line) " "
                else if (field == "signed-by" && line ~ /^ *\//) { key = line; gsub(/ /, "", key) }
            }
            END { flush() }' "$f"
    done
    return 0
}

default_key() {
    local k
    for k in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
        [[ -r $k ]] && echo "$k" && return 0
    done
    return 1
}

# Downloads into $TMP/dl from one mirror, with apt settings of its own: the machine's lists and
# sources stay as they are.
fetch_from() {
    local uri=$1 key=$2 a=$TMP/apt
    rm -rf "$a" "$TMP/dl"
    mkdir -p "$a/lists/partial" "$a/cache/archives/partial" "$TMP/dl"
    echo "deb-src [signed-by=$key] $uri $LWIP_SUITE main" >"$a/sources.list"
    # The scratch directory is private to us, so apt's download user could not write to it.
    local opts=(-o "Dir::Etc::SourceList=$a/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$a/lists" -o "Dir::Cache=$a/cache"
        -o "APT::Sandbox::User=$(id -un)" -o APT::Update::Error-Mode=any)
    apt -qq "${opts[@]}" update >"$TMP/fetch.log" 2>&1 || return 1
    (cd "$TMP/dl" && apt -qq "${opts[@]}" source --download-only lwip) >>"$TMP/fetch.log" 2>&1
}

fetch_lwip() {
    local uri key fallback
    fallback=$(default_key || true)
    : >"$TMP/fetch.log"
    while IFS=$'\t' read -r uri key; do
        key=${key:-$fallback}
        [[ -n $key ]] || continue
        fetch_from "$uri" "$key" && return 0
    done < <(apt_sources | awk '!/security/ && !seen[$0]++')
    tail -n 5 "$TMP/fetch.log" >&2
    die "no Debian source of this machine serves lwip from $LWIP_SUITE (offline, or no mirror?)"
}

has_sha() {
    [[ $(sha256sum <"$1") == "$2  -" ]]
}

# Sets VERSION, ORIG and DEBIAN from what was downloaded, or stops.
check_lwip() {
    local dsc=("$TMP"/dl/lwip_*.dsc)
    [[ ${#dsc[@]} -eq 1 && -r ${dsc[0]} ]] || die "apt delivered no single lwip .dsc"
    VERSION=$(sed -n 's/^Version: //p' "${dsc[0]}")
    [[ $VERSION =~ ^2\.2\.1\+dfsg1-1\+deb13u[0-9]+$ ]] ||
        die "$LWIP_SUITE has lwip $VERSION, which was never built with uiw (want $LWIP_VERSION)"
    ORIG=$TMP/dl/lwip_2.2.1+dfsg1.orig.tar.xz
    DEBIAN=$TMP/dl/lwip_$VERSION.debian.tar.xz
    has_sha "$ORIG" "$LWIP_ORIG_SHA" || die "wrong SHA-256: $(basename "$ORIG")"
    if [[ $VERSION != "$LWIP_VERSION" ]]; then
        say "notice: lwip $VERSION is newer than the pinned $LWIP_VERSION; apt's signature holds"
    else
        has_sha "$DEBIAN" "$LWIP_DEBIAN_SHA" || die "wrong SHA-256: $(basename "$DEBIAN")"
    fi
}

unpack_lwip() {
    local new=$TMP/lwip name
    mkdir "$new"
    tar -xf "$ORIG" -C "$new" --strip-components=1 || die "cannot unpack $(basename "$ORIG")"
    tar -xf "$DEBIAN" -C "$new" || die "cannot unpack $(basename "$DEBIAN")"
    while read -r name _; do
        [[ -n $name && $name != \#* ]] || continue
        quietly patch -d "$new" -p1 --fuzz=0 --no-backup-if-mismatch -s \
            -i "$new/debian/patches/$name" || die "lwIP patch does not apply: $name"
    done <"$new/debian/patches/series"
    rm -rf "$LWIP_DIR"
    cp -r "$new" "$LWIP_DIR"
    echo "$VERSION $LWIP_ORIG_SHA" >"$LWIP_STAMP"
    say "lwip $VERSION is in $LWIP_DIR"
}

get_lwip() {
    if [[ -r $LWIP_STAMP && $(<"$LWIP_STAMP") == *" $LWIP_ORIG_SHA" ]]; then
        return 0
    fi
    fetch_lwip
    check_lwip
    unpack_lwip
}

# Our build file and port go over the source on every run, and only where they differ, so that
# an edit reaches the build and nothing else is rebuilt.
overlay_lwip() {
    local src=subprojects/packagefiles/lwip f
    while IFS= read -r -d '' f; do
        f=${f#"$src"/}
        cmp -s "$src/$f" "$LWIP_DIR/$f" || install -D -m 644 "$src/$f" "$LWIP_DIR/$f"
    done < <(find "$src" -type f -print0)
}

command -v dpkg-query >/dev/null || die "this script knows only Debian (no dpkg here)"
install_packages
get_lwip
overlay_lwip
say "ready"

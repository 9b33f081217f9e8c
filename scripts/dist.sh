#!/usr/bin/env bash
# `make dist`: one archive for each target with the static `viv`, its man pages, completions, licences and the systemd
# unit; their checksums; and the files of the container image. All of it lands in target/dist.
#
#   scripts/dist.sh [targets …]      default: x86_64 and aarch64 Linux; one of them must run on this machine
#
# The same commit, toolchain and pins give the same bytes. The compiler for C comes from PyPI into an environment of its
# own below target/dist; only the standard libraries of the targets are added to the Rust toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly pins=("cargo-zigbuild==0.24.1" "ziglang==0.16.0")
target_dir="${CARGO_TARGET_DIR:-target}"
case "$target_dir" in /*) ;; *) target_dir="$PWD/$target_dir" ;; esac
readonly target_dir
readonly out="$target_dir/dist"
readonly tools="$out/tools"
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)

say() { printf 'dist: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

version="$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)"
readonly version
# The time of the commit, so that a second build has the same archive.
commit_time="$(git log -1 --format=%ct 2>/dev/null || echo 0)"
readonly commit_time

install_tools() {
    [ "$(cat "$tools/pins" 2>/dev/null)" = "${pins[*]}" ] && return
    command -v python3 >/dev/null || die "python3 is needed to fetch the C compiler; install it, for instance with \`apt-get install python3 python3-venv\`"
    say "fetching ${pins[*]} (about 110 MB)"
    rm -rf "$tools"
    python3 -m venv "$tools" || die "python3 cannot make a virtual environment; install it, for instance with \`apt-get install python3-venv\`"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${pins[@]}" ||
        die "pip cannot install ${pins[*]}; is the network there?"
    echo "${pins[*]}" >"$tools/pins"
}

add_std() {
    local libs
    libs="$(rustc --print sysroot)/lib/rustlib/$1/lib"
    [ -d "$libs" ] || rustup target add "$1" ||
        die "the standard library for $1 is not installed, and \`rustup target add $1\` failed"
}

# Paths of this machine are left out of the binary: they are nobody's business and differ elsewhere.
remaps() {
    local sources
    printf -- '--remap-path-prefix=%s=viv' "$PWD"
    for sources in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
        printf -- ' --remap-path-prefix=%s=crates/' "$sources"
    done
}

build() {
    say "building viv $version for $1"
    PATH="$tools/bin:$PATH" RUSTFLAGS="$(remaps)" CARGO_ZIGBUILD_ZIG_PATH="" \
        CARGO_ZIGBUILD_CACHE_DIR="$out/cache" ZIG_GLOBAL_CACHE_DIR="$out/cache/zig" ZIG_LOCAL_CACHE_DIR="$out/cache/zig" \
        cargo zigbuild --locked --release --bin viv --target "$1"
}

# Man pages, completions, licences and the unit, as every archive has them. `viv` must run on this machine.
pages() {
    local viv="$1" into="$2"
    mkdir -p "$into/completions"
    "$viv" man --quiet --dir "$into/man/man1"
    "$viv" completions bash >"$into/completions/viv.bash"
    "$viv" completions zsh >"$into/completions/_viv"
    "$viv" completions fish >"$into/completions/viv.fish"
    cp -r README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs packaging/viv.service "$into"
}

# One archive, and the folder of the container image for that architecture.
pack() {
    local target="$1" name="viv-$version-$1" arch="$2" stage="$out/stage" viv="$target_dir/$1/release/viv"
    rm -rf "${stage:?}/$name" "${out:?}/image/$arch"
    mkdir -p "$stage/$name" "$out/image/$arch/licenses" "$out/image/project"
    cp -r "$stage/pages/." "$stage/$name"
    python3 scripts/third_party.py --target "$target" >"$stage/$name/THIRD-PARTY-LICENSES"
    cp "$viv" "$stage/$name/viv"
    chmod -R u=rwX,go=rX "$stage/$name"
    tar --create --directory "$stage" --sort=name --mtime="@$commit_time" --owner=0 --group=0 --numeric-owner \
        --format=ustar "$name" | gzip --no-name -9 >"$out/$name.tar.gz"
    cp "$stage/$name/viv" "$out/image/$arch/viv"
    cp "$stage/$name"/{LICENSE-MIT,LICENSE-APACHE,THIRD-PARTY-LICENSES} "$out/image/$arch/licenses"
}

main() {
    local target started="$SECONDS"
    command -v rustup >/dev/null || say "there is no rustup: the standard libraries of the targets must be installed already"
    install_tools
    cargo fetch --locked --quiet
    rm -rf "$out"/*.tar.gz "$out/SHA256SUMS" "$out/stage" "$out/image"
    for target in "${targets[@]}"; do
        add_std "$target"
        build "$target"
        [ "${target%%-*}" = "$(uname -m)" ] && pages "$target_dir/$target/release/viv" "$out/stage/pages"
    done
    [ -d "$out/stage/pages" ] || die "no target is for this machine ($(uname -m)), so nothing can write the man pages"
    for target in "${targets[@]}"; do
        case "$target" in
            x86_64-*) pack "$target" amd64 ;;
            aarch64-*) pack "$target" arm64 ;;
            *) die "wanted an x86_64 or aarch64 target, got $target" ;;
        esac
    done
    (cd "$out" && sha256sum -- *.tar.gz >SHA256SUMS)
    say "done in $((SECONDS - started)) s:"
    (cd "$out" && ls -l -- *.tar.gz SHA256SUMS && cat SHA256SUMS)
}

main

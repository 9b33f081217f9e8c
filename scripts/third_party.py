"""The licences of everything that is linked into `viv`, as the archives of `make dist` carry them.

Reads `cargo metadata` and the sources that cargo fetched. Prints each licence text once, under the crates that carry it.
Fails if a crate has no licence text and names no licence.

    python3 scripts/third_party.py --target x86_64-unknown-linux-musl
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

TEXTS = re.compile(r"^(licen[cs]e|copying|notice|copyright|unlicense)([-._].*)?$", re.IGNORECASE)
HEAD = """Vivarium is MIT or Apache-2.0, at your choice. Where a crate offers MIT, its MIT text is shown. Linked into this binary are the crates below, the standard library of
Rust (MIT or Apache-2.0; its notices follow first), the C library musl (MIT) and SQLite (public domain)."""
# musl has no crate: the toolchain brings it. This is the notice that its licence asks for.
MUSL = """Copyright (c) 2005-2020 Rich Felker, et al.

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""


def linked(target):
    """The crates of others that end up in `viv`: what it depends on, without build scripts and tests."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [id for id, package in packages.items() if package["name"] == "cli" and not package["source"]]
    seen = set()
    while waiting:
        id = waiting.pop()
        if id in seen:
            continue
        seen.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return sorted((packages[id] for id in seen if packages[id]["source"]), key=lambda one: (one["name"], one["version"]))


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and TEXTS.match(path.name))
    # Where MIT is one of the choices, its short text is enough.
    if any("MIT" in path.name for path in files) and " OR " in package["license"].replace("/", " OR "):
        files = [path for path in files if not re.search("APACHE|UNLICENSE|ZLIB|BSL", path.name, re.IGNORECASE)]
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True)
    users, bare = {}, []
    for package in linked(parser.parse_args().target):
        name = f"{package['name']} {package['version']} ({package['license']})"
        found = texts(package)
        for text in found:
            users.setdefault(text, []).append(name)
        if not found:
            bare.append(name)
        if not found and not package["license"]:
            sys.exit(f"third_party: {name} has no licence")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    library = pathlib.Path(sysroot, "share/doc/rust/COPYRIGHT-library.html")
    if library.exists():
        page = re.sub(r"<(style|head)\b.*?</\1>|<[^>]*>", "", library.read_text(encoding="utf-8"), flags=re.DOTALL)
        users = {re.sub(r"\n\s*\n+", "\n\n", page).strip(): ["the standard library of Rust"], **users}
    users[MUSL] = ["musl"]
    print(HEAD)
    if bare:
        print("\nThese crates carry no text of their licence:\n  " + "\n  ".join(bare))
    for text, names in users.items():
        print("\n" + "=" * 100 + "\n" + "\n".join(names) + "\n" + "-" * 100 + "\n\n" + text)


main()

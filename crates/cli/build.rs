//! Links the released `viv` smaller: equal functions are folded into one (a tenth of the machine code, most of it from generics, is
//! there more than once), and addresses that are corrected when it is loaded are listed as a bit map. Only the linker that comes
//! with the compiler for this target is asked to; any other links as it does by itself.
#![allow(clippy::print_stdout, reason = "cargo reads what a build script prints")]
#![allow(clippy::disallowed_methods, reason = "the compiler says where it is")]

use std::env::var;
use std::fs;
use std::path::Path;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// A C library that can read the bit map has this version of its interface (2.36 and later).
const READS_BIT_MAPS: &[u8] = b"GLIBC_ABI_DT_RELR";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if !var("PROFILE").is_ok_and(|profile| profile == "release") || !links_with_lld() {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    if reads_bit_maps() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the compiler links with its own LLD: it has one for this target, and nobody chose another linker.
fn links_with_lld() -> bool {
    let chosen = var("RUSTC_LINKER").is_ok()
        || var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    if chosen || ["TARGET", "HOST"].iter().any(|name| var(name).as_deref() != Ok(TARGET)) {
        return false;
    }
    let compiler = var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let Ok(answer) = Command::new(compiler).args(["--print", "sysroot"]).output() else { return false };
    let sysroot = String::from_utf8_lossy(&answer.stdout);
    Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld").exists()
}

/// Whether the C library that this script itself runs with reads them: `viv` is linked with the same one.
fn reads_bit_maps() -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let library = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.ends_with("/libc.so.6"));
    let library = library.and_then(|path| fs::read(path).ok()).unwrap_or_default();
    library.windows(READS_BIT_MAPS.len()).any(|bytes| bytes == READS_BIT_MAPS)
}

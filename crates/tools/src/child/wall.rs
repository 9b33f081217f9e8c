//! The wall around a program of others: bubblewrap, and what a program behind it sees and may change. Must not know which
//! programs those are.
//!
//! A wall must hold for root, too. Without capabilities root can still write what belongs to root, and so command others: so
//! nothing is writable but what is named; no device is there but the harmless ones; sockets of services are hidden, which
//! trust whoever is root. Mounts that hide something cannot be taken away without a capability.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::time::timeout;

use super::spawn::{HeldCommand, Holder, find};

const BUBBLEWRAP: &str = "bwrap";
const PROBE_WAIT: Duration = Duration::from_secs(5);
/// If this process has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Folders of which a program has empty ones of its own: other programs keep sockets and secrets there.
const PRIVATE: [&str; 3] = ["/tmp", "/var/tmp", "/run"];
/// What root may command the kernel with, whatever its capabilities.
const COMMANDS: [&str; 4] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"];
/// The sockets that this network has, by their paths.
const SOCKETS: &str = "/proc/net/unix";
/// More of them are not hidden; each is a mount.
const SOCKETS_MAX: usize = 1_000;
/// Often a link into a private folder; without it no name is resolved.
const RESOLVER: &str = "/etc/resolv.conf";

/// Bubblewrap, where it may do its work.
#[derive(Clone, Debug)]
pub struct Wall {
    program: PathBuf,
    holder: Holder,
}

/// What a program sees behind the wall, beside the files of this machine, none of which it may change.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallPolicy<'a> {
    /// Where it starts, and may write.
    pub home: Option<&'a Path>,
    /// What it may change besides.
    pub writable: &'a [PathBuf],
    /// What it may not change even there.
    pub kept: &'a [PathBuf],
    /// What it must not see, wherever that is.
    pub hidden: &'a [PathBuf],
}

impl WallPolicy<'_> {
    /// What it may change.
    fn writable(&self) -> BTreeSet<PathBuf> {
        self.writable.iter().filter_map(|path| path.canonicalize().ok()).collect()
    }

    /// Something kept that a program could make, as no mount can be on what is not there, or is a link.
    pub fn makeable(&self) -> Option<PathBuf> {
        let writable = self.writable();
        let is_open = |place: PathBuf| {
            (place.is_symlink() || !place.exists()) && writable.iter().any(|folder| place.starts_with(folder))
        };
        self.kept.iter().find(|path| path.ancestors().filter_map(place).any(is_open)).cloned()
    }
}

/// Where a path leads, but for its last part.
fn place(path: &Path) -> Option<PathBuf> {
    let (folder, name) = (path.parent()?, path.file_name()?);
    Some(folder.canonicalize().ok().or_else(|| place(folder))?.join(name))
}

/// The folders between what may be changed and what is covered there: with a mount on each, none can be moved away with what covers it.
fn between(writable: &BTreeSet<PathBuf>, covered: &[PathBuf]) -> BTreeSet<PathBuf> {
    let above = |path: &PathBuf, folder: &PathBuf| -> Vec<PathBuf> {
        let inner =
            path.ancestors().skip(1).take_while(|above| above.starts_with(folder) && *above != folder);
        inner.map(Path::to_owned).collect()
    };
    covered.iter().flat_map(|path| writable.iter().flat_map(move |folder| above(path, folder))).collect()
}

impl Wall {
    /// The wall, if bubblewrap is there and may do its work on this machine.
    pub async fn find(holder: &Holder) -> Option<Self> {
        let wall = Self { program: find(Path::new(BUBBLEWRAP))?, holder: holder.clone() };
        let mut probe = wall.command(&WallPolicy::default(), &["true".into()]).ok()?;
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let probe = probe.spawn().ok()?;
        let ended = timeout(PROBE_WAIT, probe.ended()).await;
        ended.is_ok_and(|ended| ended == super::Ended::Exited(0)).then_some(wall)
    }

    /// A command that runs the program with its arguments behind the wall.
    pub fn command(&self, room: &WallPolicy<'_>, command: &[OsString]) -> io::Result<HeldCommand> {
        if command.first().is_none_or(|program| find(Path::new(program)).is_none()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut held = self.holder.command(&self.program)?;
        held.args(arguments(room, command)).arg("--").args(command);
        Ok(held)
    }
}

/// The arguments of bubblewrap. Each covers those before it.
fn arguments(room: &WallPolicy<'_>, command: &[OsString]) -> Vec<OsString> {
    let mut built: Vec<OsString> = [
        "--unshare-pid",
        "--unshare-ipc",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    .map(OsString::from)
    .to_vec();
    let mut mount = |words: &[&OsStr]| built.extend(words.iter().map(|word| (*word).to_owned()));
    for path in COMMANDS.into_iter().filter(|path| Path::new(path).exists()) {
        mount(&["--ro-bind".as_ref(), path.as_ref(), path.as_ref()]);
    }
    let private: Vec<&Path> =
        PRIVATE.iter().map(Path::new).filter(|folder| folder.is_dir() && !folder.is_symlink()).collect();
    for folder in &private {
        mount(&["--tmpfs".as_ref(), folder.as_os_str()]);
    }
    for path in named(command).iter().filter(|path| private.iter().any(|folder| path.starts_with(folder))) {
        mount(&["--ro-bind".as_ref(), path.as_os_str(), path.as_os_str()]);
    }
    let writable = room.writable();
    let real = |paths: &[PathBuf]| -> Vec<PathBuf> {
        paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
    };
    let (kept, hidden) = (real(room.kept), real(room.hidden));
    for path in writable.iter().chain(&between(&writable, &[kept.as_slice(), &hidden].concat())) {
        mount(&["--bind".as_ref(), path.as_os_str(), path.as_os_str()]);
    }
    let touches = |path: &PathBuf| writable.iter().any(|it| it.starts_with(path) || path.starts_with(it));
    for path in kept.iter().filter(|path| touches(path)) {
        mount(&["--ro-bind".as_ref(), path.as_os_str(), path.as_os_str()]);
    }
    // No mount keeps anybody from a socket but one on it.
    for path in sockets().iter().filter(|path| !room.writable.contains(path)) {
        mount(&["--ro-bind".as_ref(), "/dev/null".as_ref(), path.as_os_str()]);
    }
    for path in &hidden {
        match path.is_dir() {
            true => mount(&["--tmpfs".as_ref(), path.as_os_str()]),
            false => mount(&["--ro-bind".as_ref(), "/dev/null".as_ref(), path.as_os_str()]),
        }
    }
    if let Some(home) = room.home {
        // It may be inside what is hidden.
        mount(&["--bind".as_ref(), home.as_os_str(), home.as_os_str()]);
        mount(&["--chdir".as_ref(), home.as_os_str()]);
    }
    built
}

/// Sockets of programs here that are in no private folder.
fn sockets() -> BTreeSet<PathBuf> {
    let known = std::fs::read_to_string(SOCKETS).unwrap_or_default();
    let named = known.lines().skip(1).filter_map(|line| {
        let at = line.match_indices(" /").next()?.0;
        Path::new(&line[at + 1..]).canonicalize().ok()
    });
    let is_hidden =
        |path: &Path| PRIVATE.iter().chain(&["/dev", "/proc"]).any(|folder| path.starts_with(folder));
    let is_socket = |path: &Path| path.metadata().is_ok_and(|known| known.file_type().is_socket());
    named.filter(|path| !is_hidden(path) && is_socket(path)).take(SOCKETS_MAX).collect()
}

/// What stays visible in private folders: what the command names, where programs are found, how names are resolved.
fn named(command: &[OsString]) -> BTreeSet<PathBuf> {
    let mut paths: BTreeSet<PathBuf> = std::env::split_paths(&search_path()).collect();
    paths.extend(command.iter().map(PathBuf::from));
    paths.insert(RESOLVER.into());
    let is_folder_of_all = |path: &Path| PRIVATE.iter().any(|folder| Path::new(folder) == path);
    let found = paths.iter().filter(|path| path.is_absolute()).filter_map(|path| path.canonicalize().ok());
    found.filter(|path| !is_folder_of_all(path)).collect()
}

/// Where programs are found.
pub(crate) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_programs_here_are_hidden_wherever_they_are() {
        let here = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(here.parent().unwrap()).unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let [service, allowed, spaced] = ["a.sock", "b.sock", "c /d.sock"].map(|name| folder.join(name));
        std::fs::create_dir(folder.join("c ")).unwrap();
        let _bound =
            [&service, &allowed, &spaced].map(|path| std::os::unix::net::UnixListener::bind(path).unwrap());
        let room = WallPolicy { writable: &[folder.clone(), allowed.clone()], ..WallPolicy::default() };
        let built = arguments(&room, &["sh".into()]);
        let hides = |path: &Path| {
            let mount: [&OsStr; 3] = ["--ro-bind".as_ref(), "/dev/null".as_ref(), path.as_os_str()];
            built.windows(3).any(|words| words == mount)
        };
        assert!(hides(&service) && hides(&spaced) && !hides(&allowed), "{built:?}");
    }

    #[test]
    fn what_hides_covers_what_may_be_written_and_the_home_covers_what_hides() {
        let data = tempfile::tempdir().unwrap();
        let (home, above) = (data.path().join("mcp/x"), data.path().parent().unwrap().to_owned());
        std::fs::create_dir_all(&home).unwrap();
        let script = data.path().join("server.sh");
        std::fs::write(&script, "").unwrap();
        let hidden = [data.path().to_owned(), data.path().join("absent")];
        let kept = [data.path().to_owned(), "/elsewhere".into()];
        let writable = std::slice::from_ref(&above);
        let room = WallPolicy { home: Some(&home), writable, kept: &kept, hidden: &hidden };
        let built = arguments(&room, &["sh".into(), script.clone().into(), "/tmp".into()]);
        let words: Vec<&str> = built.iter().map(|word| word.to_str().unwrap()).collect();
        let at = |wanted: &[&str]| words.windows(wanted.len()).position(|found| found == wanted);
        let (data, home) = (data.path().to_str().unwrap(), home.to_str().unwrap());
        let (script, above) = (script.to_str().unwrap(), above.to_str().unwrap());
        let order = [
            at(&["--ro-bind", "/", "/"]),
            at(&["--tmpfs", "/tmp"]),
            at(&["--ro-bind", script, script]),
            at(&["--bind", above, above]),
            at(&["--ro-bind", data, data]),
            at(&["--tmpfs", data]),
            at(&["--bind", home, home]),
        ];
        assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?} in {words:?}");
        assert_eq!(at(&["--ro-bind", "/tmp", "/tmp"]), None, "a private folder stays private: {words:?}");
        assert!(!words.iter().any(|word| word.contains("absent")), "{words:?}");
    }

    #[test]
    fn what_is_not_there_or_a_link_cannot_be_kept_where_a_program_may_write() {
        let open = tempfile::tempdir().unwrap();
        let at = |name: &str| open.path().join(name);
        std::fs::create_dir_all(at("there/inner")).unwrap();
        std::os::unix::fs::symlink(at("there"), at("link")).unwrap();
        let makeable = |writable: &str, kept: &str| {
            let (writable, kept) = ([at(writable)], [at(kept)]);
            WallPolicy { writable: &writable, kept: &kept, ..WallPolicy::default() }.makeable().is_some()
        };
        for (writable, kept, wanted) in [
            ("", "there", false),
            ("", "absent", true),
            ("", "absent/inner", true),
            ("", "link", true),
            ("", "link/absent", true),
            ("", "link/inner", true),
            ("there", "link", false),
            ("there", "link/inner", false),
            ("there", "absent", false),
            ("link", "there/absent", true),
        ] {
            assert_eq!(makeable(writable, kept), wanted, "{kept} in {writable}");
        }
    }
}

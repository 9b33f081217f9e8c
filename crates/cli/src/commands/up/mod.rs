//! `viv up`: a server, from its checks to its last word. Everything that can be refused is refused
//! before anything is written.

mod announce;
mod files;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use agent::port::{AgentCard, PageRequest, Reader};
use runtime::Ports;
use runtime::clock::SystemClock;
use storage::sqlite::{OpenError, Sqlite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::args::{Global, UpArgs};
use crate::assemble::{self, LocalServer};
use crate::credentials::{self, Credentials, Secret};
use crate::errors::{Exit, Failure, Result};
use crate::listen;
use crate::model;
use crate::output::Screen;
use crate::progress::Progress;
use crate::reconcile::{Reconciler, Watch};
use crate::settings::Settings;
use crate::world;
use announce::Announcement;
use files::Files;

pub(crate) use files::would_refuse;

/// How a process ends that was told to stop a second time.
const STOPPED_AT_ONCE: i32 = 130;

/// Serves until it is told to stop.
pub(crate) async fn run(global: Global, screen: Screen, args: UpArgs) -> Result<Exit> {
    let settings = Settings::load(&global, args.given())?;
    log_to_stderr(screen, settings.text("log"))?;
    let data_dir = settings.data_dir();
    let listener = listen::bind(settings.get("listen"), settings.flag("allow_remote"), data_dir).await?;
    let address = listener.local_addr().map_err(|error| {
        Failure::new(Exit::Failed, "cannot_listen", format!("cannot read the address in use: {error}"))
    })?;
    let clock = Arc::new(SystemClock::new());
    let looking = Progress::start(&screen, "looking for a model");
    let chosen = model::choose(&settings, clock.clone()).await?;
    drop(looking);
    let files = Files::read(&settings, &chosen, args.prune)?;
    let signals = Signals::new()?;

    let store = Sqlite::open(data_dir, clock.clone()).map_err(|error| cannot_open(data_dir, error))?;
    let lost_frames = store.lost_frames();
    if lost_frames > 0 {
        tracing::warn!("{}", announce::damaged_log(lost_frames));
    }
    let ports = assemble::ports(&store, clock, Arc::clone(&chosen.models));
    let ports = Ports { bounds: settings.bounds(), ..ports };
    let reconciler = Reconciler { ports: ports.clone(), data_dir: data_dir.to_owned() };
    files.check(&reconciler).await?;
    let here = already_here(&*ports.reader).await;
    let admin_key = world::found(&ports, files.is_empty(), &here).await?;
    let (url, key) = (listen::url(address), world::local_key(&ports).await?);
    let mut local = Local::of(data_dir, &url, key)?;
    let report = files.apply(&reconciler, args.prune).await;

    let mut hosts = settings.names("hosts");
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    let server = LocalServer::start(store, ports, hosts);
    let serving = server.serve_api(listener);
    if let Err(error) = local.write(data_dir) {
        // Without it no command on this machine finds the server: better none than that one.
        server.stop().await?;
        let dir = data_dir.display();
        let hint = match &admin_key {
            Some(_) => {
                "may this user write there? The admin key was not shown: `viv keys admin --reset` makes one"
            }
            None => "may this user write there?",
        };
        return Err(Failure::new(
            Exit::Failed,
            "credentials_unwritable",
            format!("cannot write the credential file in `{dir}`: {error}"),
        )
        .hint(hint));
    }
    let said = Announcement {
        settings: &settings,
        url: &url,
        chosen: &chosen,
        files: &files,
        here: &here,
        lost_frames,
        no_space: local.no_space,
    };
    said.make(&screen, admin_key.as_ref(), report.as_ref().ok());
    let watch = match report {
        Ok(report) => files.watch(reconciler, report),
        Err(failure) => {
            // The admin key was said before this, since it is never said again.
            local.forget(data_dir);
            server.stop().await?;
            return Err(failure);
        }
    };
    serve(screen, server, serving, signals, (data_dir, &local), watch).await
}

/// What the commands on this machine find the server by.
struct Local {
    /// `None` where there is no room for any.
    credentials: Option<Credentials>,
    no_space: bool,
}

impl Local {
    /// With the key of this start; where there was no room for it, with that of the start before, if it has
    /// left one.
    fn of(data_dir: &Path, url: &str, key: Option<Secret>) -> Result<Self> {
        let no_space = key.is_none();
        let key = match key {
            Some(key) => Some(key),
            None => credentials::read(data_dir)?.map(|left| left.key),
        };
        let credentials = key.map(|key| Credentials { url: url.to_owned(), key });
        Ok(Self { credentials, no_space })
    }

    /// Writes them. Where there is no room for them, better a server that can be seen from elsewhere than none.
    fn write(&mut self, data_dir: &Path) -> io::Result<()> {
        match self.credentials.as_ref().map_or(Ok(()), |local| credentials::write(data_dir, local)) {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                *self = Self { credentials: None, no_space: true };
                Ok(())
            }
            written => written,
        }
    }

    fn forget(&self, data_dir: &Path) {
        self.credentials.iter().for_each(|local| credentials::remove(data_dir, local));
    }
}

/// Agents that were here before this start, as many as are named. A start does not depend on it: whoever
/// cannot be read is quarantined when it is to live.
async fn already_here(reader: &dyn Reader) -> Vec<AgentCard> {
    let page = PageRequest { cursor: None, limit: announce::NAMED as u32 + 1 };
    reader.agents(page).await.map(|page| page.items).unwrap_or_default()
}

/// Until a signal, and through the stop that follows it.
async fn serve(
    screen: Screen,
    server: LocalServer,
    serving: JoinHandle<io::Result<()>>,
    mut signals: Signals,
    (data_dir, local): (&Path, &Local),
    watch: Watch,
) -> Result<Exit> {
    tokio::select! {
        () = signals.next() => {}
        () = watch.run(&screen) => {}
        why = server.broken() => {
            // Nothing can be written, so nothing may be served: end as a crash does and recover at
            // the next start.
            local.forget(data_dir);
            return Err(Failure::new(Exit::Failed, "store_broken", why)
                .hint("nothing that was accepted is lost; check the disk, then start again"));
        }
    }
    if !screen.json {
        screen.note("stopping; again to stop at once");
    }
    let leave = async {
        server.stop().await?;
        // The API is closed by now; how it ended changes nothing any more.
        let _ = serving.await;
        Ok(Exit::Answered)
    };
    tokio::select! {
        left = leave => {
            local.forget(data_dir);
            left
        }
        () = signals.next() => {
            local.forget(data_dir);
            // Nothing that was acknowledged is lost by this: it is what a crash does.
            std::process::exit(STOPPED_AT_ONCE);
        }
    }
}

/// What stops a server.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// The filter of the log, if it is one.
fn log_filter(wanted: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(wanted).map_err(|error| {
        Failure::usage(format!("wanted a log filter such as `info` as `log`, got `{wanted}`: {error}"))
    })
}

fn log_to_stderr(screen: Screen, wanted: &str) -> Result<()> {
    let mut filter = log_filter(wanted)?;
    // Spans are asked for by their name: in every line of the log they would be in the way.
    if !wanted.contains(runtime::trace::TARGET)
        && let Ok(off) = format!("{}=off", runtime::trace::TARGET).parse()
    {
        filter = filter.add_directive(off);
    }
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        // Else a line that cannot be written (a full disk, a closed pipe) would panic in whoever says it.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    // Fails only where a log is set up already.
    let _ = log.with_ansi(screen.colour).try_init();
    Ok(())
}

/// Why the store of that directory, or that file, cannot be used.
pub(crate) fn cannot_open(data_dir: &Path, error: OpenError) -> Failure {
    let dir = data_dir.display();
    match error {
        OpenError::Locked { .. } => listen::in_use(data_dir),
        OpenError::Newer { min_reader, ours, .. } => Failure::new(
            Exit::Refused,
            "store_newer",
            format!(
                "the store in `{dir}` needs a reader of format {min_reader}, this `viv` reads up to {ours}"
            ),
        )
        .hint("run the version that made it, or a newer one; nothing was changed"),
        OpenError::NewerTables { file, version, ours } => Failure::new(
            Exit::Refused,
            "store_newer",
            format!(
                "the store `{}` has tables of version {version}, this `viv` knows up to {ours}",
                file.display()
            ),
        )
        .hint("run the version that made it, or a newer one; nothing was changed"),
        OpenError::NotADatabase { file, why } => Failure::new(
            Exit::Failed,
            "store_foreign",
            format!("`{}` is not a store of Vivarium: {why}", file.display()),
        )
        .hint("move it away, or name another --data-dir; nothing was changed"),
        OpenError::Corrupt { file, why, begun } => Failure::new(
            Exit::Failed,
            "store_damaged",
            format!("the store `{}` is damaged: {why}", file.display()),
        )
        .hint(match begun {
            true => "`viv verify` lists what is wrong, `viv restore` puts a backup in place",
            false => "`viv restore` restores a backup; nothing was changed",
        }),
        OpenError::Io { source, .. } => Failure::new(
            Exit::Failed,
            "data_dir_unusable",
            format!("cannot use the data directory `{dir}`: {source}"),
        )
        .hint("may this user write there, and is there room on the disk?"),
        other => Failure::new(Exit::Failed, "store_unusable", format!("cannot use the store: {other}")),
    }
}

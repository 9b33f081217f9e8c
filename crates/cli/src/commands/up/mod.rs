//! `viv up`: runs a server from its checks to its stop. Everything that can be refused is refused before
//! anything is written.

mod announce;
mod background;
mod files;
mod log;
mod report;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use agent::port::PageRequest;
use runtime::Ports;
use runtime::clock::SystemClock;
use storage::sqlite::{OpenError, Sqlite};
use tokio::task::JoinHandle;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::args::{Global, UpArgs};
use crate::assemble::{self, LocalServer};
use crate::errors::{Exit, Failure, Result};
use crate::heap;
use crate::listen;
use crate::model;
use crate::output::Screen;
use crate::progress::Progress;
use crate::settings::{Origin, Settings};
use crate::signals::Signals;
use crate::world;
use announce::Announcement;
use client::{ApiKey, Credentials};
use log::LogWriter;
use project::live::FollowedFiles;
use project::reconcile::Reconciler;
use project::tool_files::FollowedTools;

pub(crate) use announce::real_model;
pub(crate) use background::{logs, stop};
pub(crate) use files::{check_start, read as read_files, read_tools};

const EXIT_STOPPED_TWICE: i32 = 130;

pub(crate) async fn run(global: Global, mut screen: Screen, args: UpArgs) -> Result<Exit> {
    let settings = Settings::load(&global, &args)?;
    if args.detach && !args.detached {
        return background::start(&screen, settings.data_dir());
    }
    write_log(screen, &settings, args.detached)?;
    let data_dir = settings.data_dir();
    let connections = assemble::connections()?;
    let listener = listen::bind(settings.get("listen"), settings.flag("allow_remote"), data_dir).await?;
    let address = listener.local_addr().map_err(|error| {
        Failure::new(Exit::Failed, "cannot_listen", format!("cannot read the address in use: {error}"))
    })?;
    let clock = Arc::new(SystemClock::new());
    let progress = Progress::start(&screen, "progress for a model");
    let chosen = model::choose(&settings, clock.clone()).await?;
    drop(progress);
    let kit = assemble::kit(&settings, Some(address))?;
    let in_use = files::in_use(&settings);
    let tools = read_tools(&settings, &kit, &in_use)?;
    let mut files = files::read(&settings, &chosen, kit.clone(), args.prune, &in_use)?;
    let signals = Signals::new()?;
    tokio::spawn(tools::child::reap_orphans());

    let store = Sqlite::open(data_dir, clock.clone()).map_err(|error| cannot_open(data_dir, error))?;
    // Without the process id in the lock that it holds (the disk is full), `viv stop` does not find this server.
    let _ = std::fs::write(data_dir.join(listen::LOCK), std::process::id().to_string());
    let lost_frames = store.lost_frames();
    if lost_frames > 0 {
        tracing::warn!("{}", announce::damaged_log(lost_frames));
    }
    report::watch_index(&store);
    let courier = assemble::courier(&settings, address)?;
    let hooks = assemble::hooks(&settings, clock.clone());
    let ports = assemble::ports(&store, clock, Arc::clone(&chosen.models), kit);
    let (links, public_host) = assemble::links(&settings)?.unzip();
    let ports = Ports { bounds: settings.bounds(), hooks, courier, links, ..ports };
    let reconciler = Reconciler { ports: ports.clone(), data_dir: data_dir.to_owned() };
    files::check(&mut files, &reconciler, &screen, &in_use, (args.prune, args.yes)).await?;
    files::report_broken(&files, &tools, &screen);
    // As many as are listed by name. One that cannot be read does not stop the start: it is quarantined when it is
    // activated.
    let page = PageRequest { cursor: None, limit: announce::NAMED as u32 + 1 };
    let existing = ports.reader.agents(None, page).await.map(|page| page.items).unwrap_or_default();
    let admin_key = world::found(&ports, files.agents.is_empty(), &existing).await?;
    let (url, key) = (listen::url(address), world::local_key(&ports).await?);
    let mut local = Local::of(data_dir, &url, key)?;
    let (tools, unused) = tools.apply(&ports, data_dir).await?;
    for problem in unused {
        tracing::warn!(target: files::LOG_TARGET, "{problem}");
    }
    let report = reconciler.apply(&files.agents, &files.existing(), args.prune).await;

    let mut hosts = settings.names("hosts");
    hosts.extend(public_host);
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    let ports_of_hooks = ports.clone();
    let checked = store.clone();
    let server = LocalServer::start(store, ports, &settings, (hosts, connections));
    let serving = server.serve_api(listener);
    // A program may be asked for the secrets, which takes as long as it takes.
    tokio::spawn(report::unready_hooks(ports_of_hooks));
    if let Err(error) = local.write(data_dir) {
        // Without the file no command on this machine finds the server, so do not run it.
        server.stop().await?;
        let message = format!("cannot write the credential file in `{}`: {error}", data_dir.display());
        return Err(Failure::new(Exit::Failed, "credentials_unwritable", message)
            .hint("may this user write there? If this was the first start, `viv keys admin --reset` creates an admin key"));
    }
    let announcement = Announcement {
        settings: &settings,
        url: &url,
        chosen: &chosen,
        files: &files,
        existing: &existing,
        lost_frames,
        no_space: local.no_space,
    };
    let ready = announcement.to_json(admin_key.as_ref(), report.as_ref().ok());
    match screen.json {
        true => screen.json_line(&ready),
        false => announce::print(&screen, &ready),
    }
    tokio::spawn(heap::keep_small());
    report::check_store(&checked);
    if args.detached {
        // Who started it reads no further: what follows belongs to the log.
        let _ = rustix::stdio::dup2_stdout(io::stderr());
        (screen.json, screen.quiet) = (false, true);
    }
    let followed = match report {
        Ok(report) => files.follow(reconciler, report),
        Err(failure) => {
            // The admin key was printed before this failure, because it is printed only once.
            local.remove(data_dir);
            server.stop().await?;
            return Err(failure.into());
        }
    };
    serve(screen, server, serving, signals, (data_dir, &local), (followed, tools)).await
}

/// The credentials with which commands on this machine find the server.
struct Local {
    /// `None` if the disk has no space for them.
    credentials: Option<Credentials>,
    no_space: bool,
}

impl Local {
    /// Uses the key of this start. If the disk had no space for one, uses the key that the previous start
    /// left.
    fn of(data_dir: &Path, url: &str, key: Option<ApiKey>) -> Result<Self> {
        let no_space = key.is_none();
        let key = match key {
            Some(key) => Some(key),
            None => client::read_credentials(data_dir)?.map(|found| found.key),
        };
        let credentials = key.map(|key| Credentials { url: url.to_owned(), key });
        Ok(Self { credentials, no_space })
    }

    /// Writes the credentials. If there is no space for them, the server runs without: it can still be used
    /// from elsewhere.
    fn write(&mut self, data_dir: &Path) -> io::Result<()> {
        match self.credentials.as_ref().map_or(Ok(()), |local| client::write_credentials(data_dir, local)) {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                *self = Self { credentials: None, no_space: true };
                Ok(())
            }
            written => written,
        }
    }

    fn remove(&self, data_dir: &Path) {
        self.credentials.iter().for_each(|local| client::remove_credentials(data_dir, local));
    }
}

async fn serve(
    screen: Screen,
    server: LocalServer,
    serving: JoinHandle<io::Result<()>>,
    mut signals: Signals,
    (data_dir, local): (&Path, &Local),
    (files, tools): (FollowedFiles, FollowedTools),
) -> Result<Exit> {
    tokio::select! {
        () = signals.next() => {}
        _ = files::follow(files, &screen) => {}
        _ = files::follow_tools(tools, &screen) => {}
        why = server.broken() => {
            // Nothing can be written, so nothing may be served: end as in a crash; the next start recovers.
            local.remove(data_dir);
            return Err(Failure::new(Exit::Failed, "store_broken", why)
                .hint("nothing that was accepted is lost; check the disk, then start again"));
        }
    }
    if !screen.json {
        screen.note("stopping; press Ctrl-C again to stop at once");
    }
    let stopping = async {
        server.stop().await?;
        // The API is closed by now; its result no longer matters.
        let _ = serving.await;
        Ok(Exit::Answered)
    };
    tokio::select! {
        stopped = stopping => {
            local.remove(data_dir);
            stopped
        }
        () = signals.next() => {
            local.remove(data_dir);
            // No accepted event is lost by this: it is the same as a crash.
            std::process::exit(EXIT_STOPPED_TWICE);
        }
    }
}

fn log_filter(wanted: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(wanted).map_err(|error| {
        Failure::usage(format!("wanted a log filter such as `info` as `log`, got `{wanted}`: {error}"))
    })
}

fn write_log(screen: Screen, settings: &Settings, detached: bool) -> Result<()> {
    let wanted = settings.text("log");
    let mut filter = log_filter(wanted)?;
    // What becomes of changed files is few lines, and without a terminal it is shown nowhere else.
    if settings.get("log").origin == Origin::Default
        && let Ok(shown) = format!("{}=info", files::LOG_TARGET).parse()
    {
        filter = filter.add_directive(shown);
    }
    // Spans are shown only if the filter names them: they would add noise to every line of the log.
    if !wanted.contains(runtime::trace::TARGET)
        && let Ok(off) = format!("{}=off", runtime::trace::TARGET).parse()
    {
        filter = filter.add_directive(off);
    }
    let writer = match detached {
        true => LogWriter::to_log(settings.data_dir()),
        false => LogWriter::to_stderr(),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        // Otherwise a line that cannot be written (a full disk, a closed pipe) would panic in its caller.
        .log_internal_errors(false)
        .with_writer(writer);
    // Both fail only if a log is already set up.
    let _ = match settings.text("log_format") {
        "json" => log.json().flatten_event(true).try_init(),
        _ => log.with_ansi(screen.colour).try_init(),
    };
    Ok(())
}

/// Why the store in that directory, or in that file, cannot be used.
pub(crate) fn cannot_open(data_dir: &Path, error: OpenError) -> Failure {
    let message = error.to_string();
    match error {
        OpenError::Locked { .. } => listen::in_use(data_dir),
        OpenError::Newer { .. } | OpenError::NewerTables { .. } => {
            Failure::new(Exit::Refused, "store_newer", message)
                .hint("run the version that created it, or a newer one; nothing was changed")
        }
        OpenError::NotADatabase { .. } => Failure::new(Exit::Failed, "store_foreign", message)
            .hint("move it away, or name another --data-dir; nothing was changed"),
        OpenError::Corrupt { written, .. } => {
            Failure::new(Exit::Failed, "store_damaged", message).hint(match written {
                true => "`viv verify` lists what is wrong, `viv restore` restores a backup",
                false => "`viv restore` restores a backup; nothing was changed",
            })
        }
        OpenError::Io { .. } => Failure::new(Exit::Failed, "data_dir_unusable", message)
            .hint("may this user write there, and is there space on the disk?"),
        OpenError::TooOld { .. } => Failure::new(Exit::Failed, "store_unusable", message),
    }
}

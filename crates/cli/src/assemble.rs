//! Assembles the server: the only module that knows two adapters at once.

use std::net::SocketAddr;
use std::sync::Arc;

use agent::limits;
use agent::port::{Clock, Models};
use runtime::answer_links::AnswerLinks;
use runtime::clock::SystemIds;
use runtime::sender::Sender;
use runtime::{Keeper, Ports};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{FileMistake, FileMistakes, Options, PublicUrl};
use storage::sqlite::Sqlite;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tools::ToolKit;
use tools::child::Holder;
use tools::connector::{Connector, OwnAddress};
use tools::courier::SignedCourier;
use tools::hook::ServerHooks;
use tools::mcp::{McpHost, McpServer, McpServerConfig};

use crate::errors::{Exit, Failure, Result};
use crate::link_key;
use crate::model::connect_as_set;
use crate::settings::{self, Settings};
use crate::tool_secrets::ToolSecrets;

/// The folder of the homes of MCP servers, in the data directory.
const MCP_HOMES: &str = "mcp";

pub(crate) struct LocalServer {
    store: Sqlite,
    keeper: Keeper,
    sender: Sender,
    ports: Ports,
    options: Options,
}

/// The tools that every server has, and what declared ones are run with, at a server that listens there.
pub(crate) fn kit(settings: &Settings, listen: Option<SocketAddr>) -> Result<Arc<ToolKit>> {
    let connector = match listen {
        Some(listen) => connector_of_server(settings, listen)?,
        None => connector(settings)?,
    };
    let (connector, secrets) = (Arc::new(connector), Arc::new(ToolSecrets::of(settings)));
    let file = settings.file_to_write();
    let servers = move || settings::mcp_servers(&file).map_err(|failure| failure.message);
    let kit = tools::prebuilt().serving(connector, secrets, mcp_host(settings), Arc::new(servers));
    let kit = kit.map_err(Failure::usage)?;
    Ok(Arc::new(kit))
}

/// The connector of all tools.
pub(crate) fn connector(settings: &Settings) -> Result<Connector> {
    connect_as_set(settings)?;
    Ok(Connector::default())
}

/// The same for a server that listens there. Neither what agents ask for nor what targets are told goes to its API.
fn connector_of_server(settings: &Settings, listen: SocketAddr) -> Result<Connector> {
    let public = PublicUrl::parse(settings.text("public_url")).map(|url| url.host);
    let names: Vec<String> = settings.names("hosts").into_iter().chain(public).collect();
    Ok(connector(settings)?.sparing(OwnAddress::new(&names, listen)))
}

/// Where the processes of MCP servers run. They do not see the data directory, but for their own home there.
pub(crate) fn mcp_host(settings: &Settings) -> Arc<McpHost> {
    let data_dir = settings.data_dir();
    let host = McpHost::new(Holder::default(), data_dir.join(MCP_HOMES), vec![data_dir.to_owned()]);
    let project = [settings.file_to_write(), settings.agents_dir().into(), settings.tools_dir().into()];
    Arc::new(host.keeping(project))
}

/// An MCP server of the settings.
pub(crate) fn mcp_server(
    name: &str,
    config: McpServerConfig,
    connector: &Arc<Connector>,
    secrets: &Arc<ToolSecrets>,
    host: &Arc<McpHost>,
) -> Result<McpServer> {
    let server = McpServer::new(name, config, connector.clone(), secrets.clone(), host.clone());
    server.map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        Failure::usage(lines.join("\n"))
    })
}

/// What verifies the deliveries of hooks, with the secrets of this server.
pub(crate) fn hooks(settings: &Settings, clock: Arc<dyn Clock>) -> Arc<ServerHooks> {
    Arc::new(ServerHooks::new(Arc::new(ToolSecrets::of(settings)), clock))
}

/// What sends targets what they are told, through a connector of its own.
pub(crate) fn courier(settings: &Settings, listen: SocketAddr) -> Result<Arc<SignedCourier>> {
    let connector = Arc::new(connector_of_server(settings, listen)?);
    let secrets = Arc::new(ToolSecrets::of(settings));
    Ok(Arc::new(SignedCourier::new(connector, secrets)))
}

/// The links with which calls that wait for people are answered, and the host that they name; `None` without a
/// `public_url`. Makes their secret at the first start.
pub(crate) fn links(settings: &Settings) -> Result<Option<(Arc<AnswerLinks>, String)>> {
    let Some(PublicUrl { base, host }) = PublicUrl::parse(settings.text("public_url")) else {
        return Ok(None);
    };
    let secret = link_key::read_or_make(settings.data_dir())?;
    Ok(Some((Arc::new(AnswerLinks::new(base, &secret)), host)))
}

/// The ports over that store.
pub(crate) fn ports(
    store: &Sqlite,
    clock: Arc<dyn Clock>,
    models: Arc<dyn Models>,
    kit: Arc<ToolKit>,
) -> Ports {
    Ports::new(Arc::new(store.clone()), models, kit, clock, Arc::new(SystemIds))
}

impl LocalServer {
    /// Starts the keeper; the API stays closed until [`LocalServer::serve_api`].
    pub(crate) fn start(
        store: Sqlite,
        ports: Ports,
        settings: &Settings,
        (hosts, connections): (Vec<String>, usize),
    ) -> Self {
        let keeper = runtime::start(ports.clone());
        let sender = Sender::start(ports.clone());
        let data_dir = settings.data_dir().to_owned();
        let mistakes = move || {
            let wrong =
                project::reconcile::problems(&data_dir).into_iter().filter(|problem| !problem.warning);
            wrong.map(|wrong| FileMistake { text: wrong.to_string(), file: wrong.file }).collect()
        };
        let options = Options {
            mistakes: FileMistakes::new(mistakes),
            hosts,
            connections,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: std::path::absolute(settings.file_to_write())
                .ok()
                .map(|file| file.display().to_string()),
            ..Options::new(|| {
                let mut random = [0u8; 32];
                // Without randomness no key can be created: end this request.
                getrandom::fill(&mut random).expect("the operating system provides randomness");
                random
            })
        };
        Self { store, keeper, sender, ports, options }
    }

    pub(crate) fn serve_api(&self, listener: TcpListener) -> JoinHandle<std::io::Result<()>> {
        let router = server::router(self.ports.clone(), self.keeper.node().clone(), self.options.clone());
        let (shutdown, connections) = (self.options.shutdown.clone(), self.options.connections);
        tokio::spawn(server::serve(listener, router, shutdown, connections))
    }

    pub(crate) async fn broken(&self) -> String {
        self.store.broken().await
    }

    /// Closes the API, lets the current steps end, closes the store.
    pub(crate) async fn stop(self) -> Result<()> {
        self.options.shutdown.cancel();
        self.sender.stop().await;
        self.keeper.stop().await;
        self.store.close().await.map_err(|error| {
            Failure::new(Exit::Failed, "store_failed", format!("the store did not close cleanly: {error}"))
                .hint("nothing that was accepted is lost; the next start completes the rest")
        })
    }
}

/// How many connections the server accepts at once, within what the operating system allows.
pub(crate) fn connections() -> Result<usize> {
    let files = open_files();
    let most = limits::CONNECTIONS_MAX.min(files.saturating_sub(limits::FILES_RESERVED));
    if most < limits::CONNECTIONS_MIN {
        let least = limits::FILES_RESERVED + limits::CONNECTIONS_MIN;
        let message =
            format!("the system lets this process open {files} files; a server needs at least {least}");
        return Err(Failure::new(Exit::Failed, "too_few_files", message)
            .hint("raise the limit, as with `ulimit -n 4096`"));
    }
    Ok(most)
}

/// Raises the limit of open files to what the operating system allows this process, and returns it. Each connection
/// needs one.
fn open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let most = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

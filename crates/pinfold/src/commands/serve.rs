//! `pinfold serve`: the web page of one computer.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use pinfold_page::{DEFAULT_ADDRESS, PageApi};
use pinfold_terminal::serving;

use crate::agent_client::AgentClient;
use crate::exit::Failure;
use crate::page::node::{AgentNode, JournalNode};
use crate::page::playground::Playground;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold serve                                         the playground: machine and pods in, pictures and reasons out\n  \
    pinfold serve --agent                                 this node now, and its journal as a timeline\n  \
    pinfold serve --journal /var/lib/pinfold/journal      a journal of any node\n\n\
    The printed address has a token that the browser keeps as a cookie. Nothing on the page changes anything.")]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = DEFAULT_ADDRESS)]
    listen: SocketAddr,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// Show this node as its agent reports it, with its journal
    #[arg(long, conflicts_with = "journal")]
    agent: bool,
    /// The agent's socket
    #[arg(long, value_name = "SOCKET", default_value = pinfold_agent_api::SOCKET, requires = "agent")]
    socket: PathBuf,
    /// Show the node of a node agent's journal
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let api: Arc<dyn PageApi> = match (&args.journal, args.agent) {
        (Some(journal), _) => Arc::new(JournalNode::open(journal)?),
        (None, true) => Arc::new(AgentNode::open(AgentClient::new(&args.socket))?),
        (None, false) => Arc::new(Playground),
    };
    serving::serve(args.listen, args.open, api)?;
    Ok(ExitCode::SUCCESS)
}

//! Serving the page: prints its address, and opens a browser.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pinfold_page::{PageApi, PageServer};

use crate::exit::Failure;
use crate::output;

/// Serves the page until the process ends.
///
/// # Errors
/// If the address cannot be listened on.
pub fn serve(
    listen: SocketAddr,
    opens_browser: bool,
    api: Arc<dyn PageApi>,
) -> Result<(), Failure> {
    let server = PageServer::bind(listen);
    let server = server.map_err(|error| Failure::Environment(error.to_string()))?;
    let url = server.url();
    output::print(&format!("{url}\n"))?;
    if !listen.ip().is_loopback() {
        output::remark(
            "warning: other computers can reach this address, and the token can be read from the traffic (no TLS)",
        );
    }
    if opens_browser {
        open(&url);
    }
    server.run(api);
    Ok(())
}

/// Opens an address in the desktop's browser. The address is on the terminal if there is no desktop.
fn open(url: &str) {
    let browser = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = browser {
        output::remark(&format!("cannot open a browser with xdg-open: {error}"));
    }
}

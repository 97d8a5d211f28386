//! [`Server`]: a guest that stays, and whose network leads to this machine.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::{Guest, Load};

/// A guest that runs until it is dropped. This machine's loopback interface is 10.0.2.2 to it, and it is 10.0.2.15.
pub(crate) struct Server {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    folder: PathBuf,
}

impl Guest {
    /// Boots and runs `script`, which need not end. Connections to the forwarded port of this machine go to port 80 of
    /// the guest.
    pub(crate) fn serve(
        &self,
        load: &Load,
        script: &str,
        forwarded: Option<u16>,
    ) -> Result<Server, String> {
        let folder = std::env::temp_dir().join(format!(
            "pinfold-e2e-{}-{}",
            self.name.replace(' ', "-"),
            std::process::id()
        ));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        fs::create_dir_all(crate::programs::folder()).map_err(|error| error.to_string())?;
        let initrd = folder.join("initrd");
        let packed = load.pack(&self.kernel()?, script)?;
        fs::write(&initrd, packed).map_err(|error| format!("{}: {error}", initrd.display()))?;
        let forwarded = forwarded.map_or_else(String::new, |port| {
            format!(",hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:80")
        });
        let network = format!("user,id=net{forwarded}");
        let mut child = self
            .emulator(&initrd)?
            .args(["-netdev", &network, "-device", "e1000,netdev=net"])
            .spawn()
            .map_err(|error| format!("qemu-system-x86_64: {error}"))?;
        let output = child.stdout.take().expect("it was asked for");
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = Arc::clone(&said);
        let log = self.file("log");
        let mut log = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = writeln!(log, "{line}");
                let mut lines = hears.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push(line.trim_end_matches('\r').to_owned());
            }
        });
        Ok(Server {
            child,
            said,
            folder,
        })
    }
}

impl Server {
    /// Its console output so far.
    pub(crate) fn said(&self) -> Vec<String> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.clone()
    }

    /// The last lines of its console, for people.
    pub(crate) fn last_words(&self) -> String {
        let said = self.said();
        said[said.len().saturating_sub(30)..].join("\n  ")
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

//! [`Connections`]: the open connections, of which idle ones make room for new ones.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    open: Mutex<Vec<Arc<Connection>>>,
    /// Counts everything that happens, to find the connection that has been idle for the longest time.
    clock: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Since when it waits for a request; 0 while it has one.
    idle_since: AtomicU64,
}

/// A connection that is closed and forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    all: Arc<Connections>,
    own: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            open: Mutex::new(Vec::new()),
            clock: AtomicU64::new(1),
        })
    }

    /// Adds a connection. If there are too many, the one that has been idle for the longest time is closed; `None` if all
    /// of them have a request.
    pub(crate) fn add(self: &Arc<Self>, stream: TcpStream) -> Option<OpenConnection> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= self.most {
            let idle = open.iter().enumerate().filter_map(|(index, connection)| {
                let since = connection.idle_since.load(Ordering::Relaxed);
                (since > 0).then_some((since, index))
            });
            let (_, oldest) = idle.min()?;
            let evicted = open.swap_remove(oldest);
            let _ = evicted.stream.shutdown(Shutdown::Both);
        }
        let own = Arc::new(Connection {
            stream,
            idle_since: AtomicU64::new(self.tick()),
        });
        open.push(own.clone());
        let all = self.clone();
        Some(OpenConnection { all, own })
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}

impl OpenConnection {
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.own.stream
    }

    /// The connection waits for a request.
    pub(crate) fn set_idle(&self) {
        self.own
            .idle_since
            .store(self.all.tick(), Ordering::Relaxed);
    }

    /// The connection has a whole request.
    pub(crate) fn set_busy(&self) {
        self.own.idle_since.store(0, Ordering::Relaxed);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let _ = self.own.stream.shutdown(Shutdown::Both);
        let open = self.all.open.lock();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        open.retain(|other| !Arc::ptr_eq(other, &self.own));
    }
}

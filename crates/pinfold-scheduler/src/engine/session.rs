//! [`Session`]: the one kube-scheduler whose calls the engine serves.
//!
//! Decisions are safe only on a cache that has every earlier decision. kube-scheduler's leader election makes sure that
//! one of them schedules at a time. A new one may follow another that has just bound pods: its session starts with a
//! new list of all pods, which has all of them. Reservations of the one before may still be bound by requests in
//! flight, and are kept until that is known.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The current session.
#[derive(Debug, Default)]
pub struct Session(Mutex<Option<Term>>);

#[derive(Clone, Copy, Debug)]
struct Term {
    scheduler: u64,
    since: Instant,
}

/// Why a call is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSession {
    /// No kube-scheduler has connected since the engine started.
    #[error("connect first: the engine was restarted")]
    NotConnected,
    /// Another kube-scheduler has connected.
    #[error("another kube-scheduler has connected to this engine")]
    Replaced,
}

impl Session {
    /// Starts the session of a scheduler. Returns whether it is a new one.
    pub fn connect(&self, scheduler: u64, now: Instant) -> bool {
        let mut term = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = term.is_none_or(|term| term.scheduler != scheduler);
        if is_new {
            *term = Some(Term {
                scheduler,
                since: now,
            });
        }
        is_new
    }

    /// When the current session started.
    #[must_use]
    pub fn since(&self) -> Option<Instant> {
        let term = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        term.map(|term| term.since)
    }

    /// Checks that a call is from the scheduler of the session.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(&self, scheduler: u64) -> Result<(), NoSession> {
        let term = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match term {
            None => Err(NoSession::NotConnected),
            Some(term) if term.scheduler != scheduler => Err(NoSession::Replaced),
            Some(_) => Ok(()),
        }
    }
}

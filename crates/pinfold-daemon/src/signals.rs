//! [`SignalReceiver`]: delivers SIGTERM, SIGINT and SIGHUP to a daemon as [`Signal`] values.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// A request to the daemon, sent as a process signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Shut down gracefully (SIGTERM, SIGINT).
    Stop,
    /// Read the configuration again (SIGHUP).
    Reload,
}

/// The receiving end of a queue of signals.
#[derive(Debug)]
pub struct SignalReceiver {
    queue: Receiver<Signal>,
    handle: Option<Handle>,
}

impl SignalReceiver {
    /// Receives the signals of this process. Their default actions are disabled from now on.
    ///
    /// # Errors
    /// If the signal handlers cannot be installed or the thread cannot be started.
    pub fn of_process() -> io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let handle = signals.handle();
        let (sender, queue) = channel();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for number in &mut signals {
                    let signal = match number {
                        SIGHUP => Signal::Reload,
                        _ => Signal::Stop,
                    };
                    if sender.send(signal).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            queue,
            handle: Some(handle),
        })
    }

    /// Receives what is sent through the returned sender instead of process signals.
    #[must_use]
    pub fn channel() -> (Sender<Signal>, Self) {
        let (sender, queue) = channel();
        let handle = None;
        (sender, Self { queue, handle })
    }

    /// Waits for the next signal; `None` after `timeout`. [`Signal::Stop`] if all senders are dropped.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Option<Signal> {
        match self.queue.recv_timeout(timeout) {
            Ok(signal) => Some(signal),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Signal::Stop),
        }
    }
}

impl Drop for SignalReceiver {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_received_in_order_and_a_dropped_sender_means_stop() {
        let (sender, signals) = SignalReceiver::channel();
        assert_eq!(signals.wait(Duration::ZERO), None);
        sender.send(Signal::Reload).expect("the receiver exists");
        sender.send(Signal::Stop).expect("the receiver exists");
        assert_eq!(signals.wait(Duration::ZERO), Some(Signal::Reload));
        assert_eq!(signals.wait(Duration::ZERO), Some(Signal::Stop));
        drop(sender);
        assert_eq!(signals.wait(Duration::ZERO), Some(Signal::Stop));
    }
}

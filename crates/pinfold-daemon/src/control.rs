//! [`Control`]: what the outside wants of the daemon: to stop, or to read its settings again.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Give everything back in order and end (SIGTERM, SIGINT).
    Stop,
    /// Read the configuration and the rules again (SIGHUP).
    Reload,
}

/// Wishes, one after the other.
#[derive(Debug)]
pub struct Control {
    wishes: Receiver<Wish>,
    signals: Option<Handle>,
}

impl Control {
    /// Wishes that come as signals. From now on those signals do nothing else.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn of_signals() -> io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let handle = signals.handle();
        let (sender, wishes) = channel();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in &mut signals {
                    let wish = match signal {
                        SIGHUP => Wish::Reload,
                        _ => Wish::Stop,
                    };
                    if sender.send(wish).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            wishes,
            signals: Some(handle),
        })
    }

    /// Wishes that somebody in this program has.
    #[must_use]
    pub fn of_hand() -> (Sender<Wish>, Self) {
        let (sender, wishes) = channel();
        let signals = None;
        (sender, Self { wishes, signals })
    }

    /// The next wish; `None` if none came in time. Whoever could have a wish being gone is a wish to stop.
    #[must_use]
    pub fn next(&self, within: Duration) -> Option<Wish> {
        match self.wishes.recv_timeout(within) {
            Ok(wish) => Some(wish),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Wish::Stop),
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(handle) = &self.signals {
            handle.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_come_in_their_order_and_the_last_is_to_stop() {
        let (hand, control) = Control::of_hand();
        assert_eq!(control.next(Duration::ZERO), None);
        hand.send(Wish::Reload).expect("control listens");
        hand.send(Wish::Stop).expect("control listens");
        assert_eq!(control.next(Duration::ZERO), Some(Wish::Reload));
        assert_eq!(control.next(Duration::ZERO), Some(Wish::Stop));
        drop(hand);
        assert_eq!(control.next(Duration::ZERO), Some(Wish::Stop));
    }
}

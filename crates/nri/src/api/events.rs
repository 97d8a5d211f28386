//! Events of pods and containers, and sets of events.

use std::fmt;
use std::ops::BitOr;

/// An event in the life of a pod or container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Event {
    /// An event that this crate does not know.
    Unknown = 0,
    /// A pod is being created.
    RunPodSandbox = 1,
    /// A pod is being stopped.
    StopPodSandbox = 2,
    /// A pod is being removed.
    RemovePodSandbox = 3,
    /// A container is being created; a plugin can adjust it.
    CreateContainer = 4,
    /// A container was created.
    PostCreateContainer = 5,
    /// A container is being started.
    StartContainer = 6,
    /// A container was started.
    PostStartContainer = 7,
    /// A container's resources are about to change.
    UpdateContainer = 8,
    /// A container's resources have changed.
    PostUpdateContainer = 9,
    /// A container is being stopped.
    StopContainer = 10,
    /// A container is being removed.
    RemoveContainer = 11,
    /// A pod's resources are about to change (NRI 0.10 and later).
    UpdatePodSandbox = 12,
    /// A pod's resources have changed (NRI 0.10 and later).
    PostUpdatePodSandbox = 13,
    /// The changes of all plugins to a container are to be validated (NRI 0.10 and later).
    ValidateContainerAdjustment = 14,
}

impl Event {
    /// Every event, in the order of their numbers.
    pub const ALL: [Event; 14] = [
        Event::RunPodSandbox,
        Event::StopPodSandbox,
        Event::RemovePodSandbox,
        Event::CreateContainer,
        Event::PostCreateContainer,
        Event::StartContainer,
        Event::PostStartContainer,
        Event::UpdateContainer,
        Event::PostUpdateContainer,
        Event::StopContainer,
        Event::RemoveContainer,
        Event::UpdatePodSandbox,
        Event::PostUpdatePodSandbox,
        Event::ValidateContainerAdjustment,
    ];

    const fn bit(self) -> u16 {
        match self as u32 {
            0 => 0,
            number => 1 << (number - 1),
        }
    }
}

/// A set of events. On the wire event number n is bit n − 1 of an `int32`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Events(u16);

impl Events {
    /// No event. Runtimes read an empty set as *all* events, so a session never sends it.
    pub const NONE: Events = Events(0);
    /// Every event of NRI 0.12.
    pub const ALL: Events = Events(0x3fff);
    /// The events that every NRI version supports.
    pub const SINCE_THE_BEGINNING: Events = Events(0x07ff);

    /// The set of these events.
    #[must_use]
    pub const fn of(events: &[Event]) -> Events {
        let mut bits = 0;
        let mut at = 0;
        while at < events.len() {
            bits |= events[at].bit();
            at += 1;
        }
        Events(bits)
    }

    /// Whether the set contains the event. [`Event::Unknown`] is never contained.
    #[must_use]
    pub const fn contains(self, event: Event) -> bool {
        self.0 & event.bit() != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Events) -> Events {
        Events(self.0 & other.0)
    }

    /// The difference of both sets.
    #[must_use]
    pub const fn without(self, other: Events) -> Events {
        Events(self.0 & !other.0)
    }

    /// The set as a bit mask.
    #[must_use]
    pub const fn mask(self) -> i32 {
        self.0 as i32
    }

    /// The events, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Event> {
        Event::ALL
            .into_iter()
            .filter(move |&event| self.contains(event))
    }
}

impl From<Event> for Events {
    fn from(event: Event) -> Self {
        Events(event.bit())
    }
}

impl BitOr for Events {
    type Output = Events;

    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

impl FromIterator<Event> for Events {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        Events(events.into_iter().fold(0, |bits, event| bits | event.bit()))
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_n_minus_one_stands_for_event_n() {
        for event in Event::ALL {
            let expected = 1 << (i32::from(event) - 1);
            assert_eq!(Events::from(event).mask(), expected, "{event:?}");
        }
        assert_eq!(Events::from(Event::Unknown), Events::NONE);
        assert!(!Events::ALL.contains(Event::Unknown));
    }

    #[test]
    fn all_are_fourteen_and_eleven_are_as_old_as_nri() {
        assert_eq!(Event::ALL.into_iter().collect::<Events>(), Events::ALL);
        assert_eq!(Events::of(&Event::ALL[..11]), Events::SINCE_THE_BEGINNING);
        let newer = Events::ALL.without(Events::SINCE_THE_BEGINNING);
        assert_eq!(newer.iter().count(), 3);
    }
}

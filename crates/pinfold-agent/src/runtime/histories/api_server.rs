//! [`PodView`]: a played API server, and what the agent's watch has delivered of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_kube::pod::{PodIdentity, PodObject};

use super::pod_specs::spec;
use crate::node::{PodStatus, PodStatusSource};
use crate::runtime::PodSpecSource;

/// What the API server has, and what the agent's watch has delivered of it.
#[derive(Debug, Default)]
pub(super) struct ApiServer {
    pods: BTreeMap<String, (usize, PodStatus)>,
    pub(super) events: VecDeque<(String, Option<PodStatus>)>,
    pub(super) last: Option<(String, Option<PodStatus>)>,
    pub(super) seen: BTreeMap<String, (Arc<PodObject>, PodStatus)>,
    pub(super) listed: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PodView(Arc<Mutex<ApiServer>>);

impl PodView {
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut ApiServer) -> T) -> T {
        change(&mut self.0.lock().expect("unpoisoned"))
    }
}

impl ApiServer {
    pub(super) fn has(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    pub(super) fn set(&mut self, uid: &str, pod: usize, status: Option<PodStatus>) {
        match status {
            Some(status) => drop(self.pods.insert(uid.to_owned(), (pod, status))),
            None => drop(self.pods.remove(uid)),
        }
        self.events.push_back((uid.to_owned(), status));
    }

    pub(super) fn deliver(&mut self) {
        if !self.listed {
            self.listed = true;
            self.events.clear();
            let listed = self.pods.iter();
            let listed = listed
                .map(|(uid, (pod, status))| (uid.clone(), (Arc::new(spec(*pod, uid)), *status)));
            self.seen = listed.collect();
        } else if let Some(event) = self.events.pop_front() {
            self.apply(event);
        }
    }

    pub(super) fn apply(&mut self, (uid, status): (String, Option<PodStatus>)) {
        self.last = Some((uid.clone(), status));
        match (status, self.pods.get(&uid)) {
            (Some(status), Some((pod, _))) => {
                let spec = Arc::new(spec(*pod, &uid));
                self.seen.insert(uid, (spec, status));
            }
            (Some(_), None) | (None, _) => drop(self.seen.remove(&uid)),
        }
    }
}

impl PodSpecSource for PodView {
    fn pod(&self, pod: &PodIdentity, _: Duration) -> Option<Arc<PodObject>> {
        self.with(|api| Some(api.seen.get(pod.uid.as_str())?.0.clone()))
    }

    fn wait_for_list(&self, _: Duration) -> bool {
        self.with(|api| api.listed)
    }
}

impl PodStatusSource for PodView {
    fn status(&self, pod: &PodIdentity) -> PodStatus {
        self.with(|api| match api.seen.get(pod.uid.as_str()) {
            Some((_, status)) => *status,
            None if api.listed => PodStatus::Absent,
            None => PodStatus::NotListed,
        })
    }

    fn spec(&self, pod: &PodIdentity) -> Option<Arc<PodObject>> {
        self.pod(pod, Duration::ZERO)
    }
}

//! [`Reflector`]: keeps a [`Store`] equal to a list of the API server: list, then watch from the list's version; when
//! the watch cannot be continued, list again.
//!
//! ```text
//!          ┌─────────────────── 410 Gone, or a malformed response ──────────────────────┐
//!          ▼                                                                            │
//! list in pages ──► replace ──► watch from that version ──► apply, delete, bookmark ────┤
//!          ▲                                  ▲                                         │
//!          └── delay ◄── failure              └── end of the watch, lost connection ────┘
//! ```

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use crate::api_client::{ApiClient, ApiError, percent_encode, truncate};
use crate::backoff::RetryBackoff;
use crate::list_page::ListPage;

/// The server ends a watch after this time.
const WATCH_SECONDS: u32 = 290;
/// A watch without events and bookmarks for this time is a lost connection: the server sends a bookmark about once a
/// minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(100);
/// A watch that ends sooner counts as a failure, so that it is retried with a growing delay.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// Interval of lists of a resource that the cluster does not serve.
const NOT_SERVED_INTERVAL: Duration = Duration::from_secs(30);
/// Consecutive 404 responses after which a resource that was served before counts as not served: an API server that has
/// just started may not serve its custom resources yet.
const NOT_FOUND_LIMIT: u32 = 3;

/// The list that a reflector watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchTarget {
    /// Paths of the list, such as `/api/v1/pods`; the first that the cluster serves is used.
    pub paths: Vec<String>,
    /// A field selector, such as `spec.nodeName=worker-1`; empty for all objects.
    pub field_selector: String,
    /// The most objects in one page of a list. Halved while a page exceeds the size limit.
    pub page_size: usize,
    /// Whether a resource that the cluster does not serve counts as an empty list.
    pub optional: bool,
}

/// Holds the objects that a reflector reads. The reflector calls one method at a time; they must not block.
pub trait Store: Send {
    /// A parsed object.
    type Item: Send;

    /// Parses an object of a list or a watch event. `None` if it is invalid; the store reports that itself.
    fn parse(&mut self, object: &RawValue) -> Option<Self::Item>;

    /// Replaces all objects with those of a complete list.
    fn replace(&mut self, all: Vec<Self::Item>);

    /// Adds or updates an object.
    fn apply(&mut self, item: Self::Item);

    /// Deletes an object; `object` is its last state.
    fn delete(&mut self, object: &RawValue);

    /// Records the resource version up to which the store has all changes.
    fn record_version(&mut self, _version: &str) {}

    /// Records the progress of the reflector, for logs and metrics.
    fn record_status(&mut self, status: ReflectorStatus<'_>);
}

/// The progress of a reflector.
#[derive(Debug, PartialEq, Eq)]
pub enum ReflectorStatus<'a> {
    /// A list starts, or restarts because its continue token expired.
    Listing,
    /// A watch starts.
    Watching,
    /// An event was received, or a watch ended normally.
    Receiving,
    /// The cluster does not serve the resource, which is optional.
    NotServed,
    /// A list or a watch failed: the store may be stale.
    Failed {
        /// The error.
        error: &'a ApiError,
        /// The delay until the next attempt.
        retry_in: Duration,
    },
}

/// Keeps a store equal to a list of the API server.
pub struct Reflector<S> {
    api: ApiClient,
    target: WatchTarget,
    store: S,
    backoff: RetryBackoff,
    page_size: usize,
    /// Index of the path that is watched.
    path: usize,
    /// Consecutive lists that found none of the paths. Starts at the limit: a resource that was never served counts as
    /// not served at once.
    not_found: u32,
}

/// What to do after a list or a watch.
enum Next {
    /// Watch from this resource version.
    Watch(String),
    /// List again: the server no longer has the history since our version.
    List,
    /// Empty the store: the cluster does not serve the resource.
    NotServed,
}

#[derive(Deserialize)]
struct WatchEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The fields of an event's object that the reflector itself uses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EventObject {
    metadata: EventObjectMeta,
    code: u16,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventObjectMeta {
    resource_version: Option<String>,
}

impl<S: Store> Reflector<S> {
    /// A reflector of `target` into `store`.
    #[must_use]
    pub fn new(api: ApiClient, target: WatchTarget, store: S, backoff: RetryBackoff) -> Self {
        let page_size = target.page_size.max(1);
        Self {
            api,
            target,
            store,
            backoff,
            page_size,
            path: 0,
            not_found: NOT_FOUND_LIMIT,
        }
    }

    /// Lists and watches until the future is dropped.
    pub async fn run(mut self) {
        let mut from: Option<String> = None;
        loop {
            let start = Instant::now();
            let outcome = match from.take() {
                None => self.list_first_served().await,
                Some(version) => self.watch(version, &mut from).await,
            };
            match outcome {
                Ok(Next::List) => from = None,
                Ok(Next::NotServed) => {
                    self.store.replace(Vec::new());
                    self.store.record_status(ReflectorStatus::NotServed);
                    sleep(NOT_SERVED_INTERVAL).await;
                    continue;
                }
                Ok(Next::Watch(version)) => {
                    from = Some(version);
                    continue;
                }
                Err(error) => {
                    let retry_in = self.backoff.next();
                    let error = &error;
                    let status = ReflectorStatus::Failed { error, retry_in };
                    self.store.record_status(status);
                    sleep(retry_in).await;
                    continue;
                }
            }
            if start.elapsed() < SHORTEST_WATCH {
                sleep(self.backoff.next()).await;
            }
        }
    }

    fn path(&self, query: &str) -> String {
        let path = self.target.paths.get(self.path).map_or("/", String::as_str);
        match self.target.field_selector.as_str() {
            "" => format!("{path}?{query}"),
            selector => format!("{path}?fieldSelector={}&{query}", percent_encode(selector)),
        }
    }

    /// Lists the first path that the cluster serves.
    async fn list_first_served(&mut self) -> Result<Next, ApiError> {
        let mut missing = None;
        for path in 0..self.target.paths.len() {
            self.path = path;
            match self.list().await {
                Err(error) if error.code() == Some(404) => missing = Some(error),
                Err(error) => return Err(error),
                Ok(version) => {
                    self.not_found = 0;
                    return Ok(Next::Watch(version));
                }
            }
        }
        self.not_found = self.not_found.saturating_add(1);
        match missing {
            Some(error) if !self.target.optional || self.not_found < NOT_FOUND_LIMIT => Err(error),
            _ => Ok(Next::NotServed),
        }
    }

    /// Lists all objects page by page into the store. Returns the resource version of the list.
    async fn list(&mut self) -> Result<String, ApiError> {
        let mut found = Vec::new();
        let mut token = String::new();
        self.store.record_status(ReflectorStatus::Listing);
        loop {
            let query = format!(
                "limit={}&continue={}",
                self.page_size,
                percent_encode(&token)
            );
            let path = self.path(&query);
            let page = match self.api.get_bytes(&path).await {
                // The continue token expired: start from the first page.
                Err(error) if error.code() == Some(410) && !token.is_empty() => {
                    token.clear();
                    found.clear();
                    self.store.record_status(ReflectorStatus::Listing);
                    sleep(self.backoff.next()).await;
                    continue;
                }
                Err(ApiError::TooLarge { .. }) if self.page_size > 1 => {
                    self.page_size /= 2;
                    continue;
                }
                page => page?,
            };
            let page = ListPage::parse(&page, &path)?;
            let items = page.items.into_iter();
            found.extend(items.filter_map(|item| self.store.parse(item)));
            match page.next {
                Some(next) => token = next,
                None => {
                    let version = page.resource_version.ok_or(ApiError::Malformed {
                        path,
                        expected: "a list with a resource version",
                    })?;
                    self.backoff.reset();
                    self.store.replace(found);
                    self.store.record_version(&version);
                    return Ok(version);
                }
            }
        }
    }

    /// Watches from `version` until the watch ends. `resume_from` is set to the version to continue from after a
    /// failure; `None` to list again.
    async fn watch(
        &mut self,
        version: String,
        resume_from: &mut Option<String>,
    ) -> Result<Next, ApiError> {
        let start = Instant::now();
        let path = self.path(&format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
            percent_encode(&version)
        ));
        *resume_from = Some(version);
        self.store.record_status(ReflectorStatus::Watching);
        let mut lines = match self.api.lines(&path).await {
            Ok(lines) => lines,
            Err(error) if error.code() == Some(410) => return Ok(Next::List),
            // The same watch would be rejected again.
            Err(error @ ApiError::Rejected { .. }) => {
                *resume_from = None;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        while let Some(line) = lines.next(IDLE_TIMEOUT).await? {
            match self.handle_event(&line, &path) {
                Ok(Some(version)) => {
                    self.store.record_version(&version);
                    *resume_from = Some(version);
                }
                Ok(None) => {}
                Err(error) if error.code() == Some(410) => return Ok(Next::List),
                Err(error) => {
                    *resume_from = None;
                    return Err(error);
                }
            }
            self.record_success();
        }
        match resume_from.take() {
            Some(version) if start.elapsed() >= SHORTEST_WATCH => {
                self.record_success();
                Ok(Next::Watch(version))
            }
            version => {
                *resume_from = version;
                Err(ApiError::Unreachable(
                    "the server ended the watch at once".to_owned(),
                ))
            }
        }
    }

    /// Applies one watch event to the store. Returns the resource version after it.
    fn handle_event(&mut self, line: &[u8], path: &str) -> Result<Option<String>, ApiError> {
        let malformed = || ApiError::Malformed {
            path: path.to_owned(),
            expected: "a watch event",
        };
        let event: WatchEvent<'_> = serde_json::from_slice(line).map_err(|_| malformed())?;
        let object: EventObject = serde_json::from_str(event.object.get()).unwrap_or_default();
        match &*event.kind {
            "ADDED" | "MODIFIED" => {
                if let Some(item) = self.store.parse(event.object) {
                    self.store.apply(item);
                }
            }
            "DELETED" => self.store.delete(event.object),
            "BOOKMARK" => {}
            "ERROR" => {
                return Err(ApiError::Rejected {
                    method: "GET",
                    path: path.to_owned(),
                    code: object.code,
                    message: truncate(&object.message, 512),
                });
            }
            _ => return Err(malformed()),
        }
        Ok(object.metadata.resource_version)
    }

    fn record_success(&mut self) {
        self.backoff.reset();
        self.store.record_status(ReflectorStatus::Receiving);
    }
}

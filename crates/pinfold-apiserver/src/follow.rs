//! [`Follower`]: all objects of one kind, for as long as the program runs: list, then watch from there; when the thread
//! is lost, list again.
//!
//! ```text
//!          ┌────────────────── 410 Gone, or an answer that makes no sense ──────────────┐
//!          ▼                                                                            │
//! list in pages ──► replace all ──► watch from that version ──► put, forget, bookmark ──┤
//!          ▲                                  ▲                                         │
//!          └── wait ◄── failure               └───── end, silence, lost connection ─────┘
//! ```

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use crate::api::{Api, ApiError, escaped, shortened};
use crate::backoff::Backoff;

/// How long the server keeps a watch open.
const WATCH_SECONDS: u32 = 290;
/// A server says at least where it is about once a minute; longer silence is a lost connection.
const SILENCE: Duration = Duration::from_secs(100);
/// A watch that ends sooner counts as a failure, so that nobody asks in circles.
const SHORT: Duration = Duration::from_secs(1);
/// How often a cluster is asked again for a kind that it does not serve.
const ABSENT: Duration = Duration::from_secs(30);
/// A kind that was served before is not believed to be gone before it was missed so many times: a server that starts may
/// not know its custom resources yet.
const MISSED: u32 = 3;

/// Which objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Paths of the list, such as `/api/v1/pods`; the first that the cluster serves is followed.
    pub paths: Vec<String>,
    /// A field selector, such as `spec.nodeName=worker-1`; empty for all objects.
    pub fields: String,
    /// The most objects in one page of a list. Halved as long as a page is too large to be read.
    pub page: usize,
    /// Whether a kind that the cluster does not serve is as good as one without objects.
    pub optional: bool,
}

/// Who hears of the objects. Called one after the other; must not wait.
pub trait Sink: Send {
    /// What is kept of an object until its list is whole.
    type Item: Send;

    /// Reads an object of a list. `None` if it makes no sense; the sink says so to whom it concerns.
    fn read(&mut self, object: &RawValue) -> Option<Self::Item>;

    /// These are all objects there are.
    fn replace(&mut self, all: Vec<Self::Item>);

    /// An object is there, or is different.
    fn put(&mut self, item: Self::Item);

    /// An object is gone; this is how it was last.
    fn forget(&mut self, object: &RawValue);

    /// How the following goes.
    fn note(&mut self, note: Note<'_>);
}

/// How the following goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// A list begins, or begins anew.
    Listing,
    /// A watch begins.
    Watching,
    /// News came in.
    Works,
    /// The cluster does not serve this kind, and need not.
    Absent,
    /// News do not come in at the moment.
    Behind {
        /// Why.
        error: &'a ApiError,
        /// When it is tried again.
        retry_in: Duration,
    },
}

/// Follows the objects of one kind for ever.
pub struct Follower<S> {
    api: Api,
    source: Source,
    sink: S,
    backoff: Backoff,
    page: usize,
    /// The path that is followed.
    at: usize,
    /// How often in a row the kind was missed; more often than is borne as long as it was never there.
    missed: u32,
}

/// How a list or a watch ended.
enum End {
    /// Go on from here.
    Resume(String),
    /// The history that we wanted is gone.
    Relist,
    /// There are no such objects in this cluster.
    Absent,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What the follower itself wants to know of an object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Glance {
    metadata: GlanceMeta,
    code: u16,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GlanceMeta {
    resource_version: Option<String>,
}

impl<S: Sink> Follower<S> {
    /// Follows what `source` says and tells `sink`.
    #[must_use]
    pub fn new(api: Api, source: Source, sink: S, backoff: Backoff) -> Self {
        let page = source.page.max(1);
        Self {
            api,
            source,
            sink,
            backoff,
            page,
            at: 0,
            missed: MISSED,
        }
    }

    /// Never ends.
    pub async fn run(mut self) {
        let mut from: Option<String> = None;
        loop {
            let begun = Instant::now();
            let outcome = match from.take() {
                None => self.list_anywhere().await,
                Some(version) => self.watch(version, &mut from).await,
            };
            match outcome {
                Ok(End::Relist) => from = None,
                Ok(End::Absent) => {
                    self.sink.replace(Vec::new());
                    self.sink.note(Note::Absent);
                    sleep(ABSENT).await;
                    continue;
                }
                Ok(End::Resume(version)) => {
                    from = Some(version);
                    continue;
                }
                Err(error) => {
                    let retry_in = self.backoff.next();
                    let error = &error;
                    self.sink.note(Note::Behind { error, retry_in });
                    sleep(retry_in).await;
                    continue;
                }
            }
            if begun.elapsed() < SHORT {
                sleep(self.backoff.next()).await;
            }
        }
    }

    fn path(&self, query: &str) -> String {
        let path = self.source.paths.get(self.at).map_or("/", String::as_str);
        match self.source.fields.as_str() {
            "" => format!("{path}?{query}"),
            fields => format!("{path}?fieldSelector={}&{query}", escaped(fields)),
        }
    }

    /// All objects, from the first path that is served.
    async fn list_anywhere(&mut self) -> Result<End, ApiError> {
        let mut missing = None;
        for at in 0..self.source.paths.len() {
            self.at = at;
            match self.list().await {
                Err(error) if error.code() == Some(404) => missing = Some(error),
                Err(error) => return Err(error),
                Ok(version) => {
                    self.missed = 0;
                    return Ok(End::Resume(version));
                }
            }
        }
        self.missed = self.missed.saturating_add(1);
        match missing {
            Some(error) if !self.source.optional || self.missed < MISSED => Err(error),
            _ => Ok(End::Absent),
        }
    }

    /// All objects, page by page; the version they are of.
    async fn list(&mut self) -> Result<String, ApiError> {
        let mut found = Vec::new();
        let mut token = String::new();
        self.sink.note(Note::Listing);
        loop {
            let query = format!("limit={}&continue={}", self.page, escaped(&token));
            let path = self.path(&query);
            let page = match self.api.get_bytes(&path).await {
                // The rest of this list is gone; the next one starts from the beginning.
                Err(error) if error.code() == Some(410) && !token.is_empty() => {
                    token.clear();
                    found.clear();
                    self.sink.note(Note::Listing);
                    sleep(self.backoff.next()).await;
                    continue;
                }
                Err(ApiError::TooLarge { .. }) if self.page > 1 => {
                    self.page /= 2;
                    continue;
                }
                page => page?,
            };
            let garbage = |expected| ApiError::Garbage {
                path: path.clone(),
                expected,
            };
            let page: Page<'_> =
                serde_json::from_slice(&page).map_err(|_| garbage("a list of objects"))?;
            let Some(items) = page.items else {
                return Err(garbage("a list of objects"));
            };
            found.extend(items.into_iter().filter_map(|item| self.sink.read(item)));
            match page.metadata.next {
                Some(next) if !next.is_empty() => token = next,
                _ => {
                    let version = page.metadata.resource_version;
                    let version = version.ok_or_else(|| garbage("a list with a version"))?;
                    self.backoff.reset();
                    self.sink.replace(found);
                    return Ok(version);
                }
            }
        }
    }

    /// Changes since a version. `reached` is where to go on if this fails in the middle.
    async fn watch(
        &mut self,
        version: String,
        reached: &mut Option<String>,
    ) -> Result<End, ApiError> {
        let begun = Instant::now();
        let path = self.path(&format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
            escaped(&version)
        ));
        *reached = Some(version);
        self.sink.note(Note::Watching);
        let mut lines = match self.api.lines(&path).await {
            Ok(lines) => lines,
            Err(error) if error.code() == Some(410) => return Ok(End::Relist),
            // The server does not like what we ask for: begin again rather than insist.
            Err(error @ ApiError::Rejected { .. }) => {
                *reached = None;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        while let Some(line) = lines.next(SILENCE).await? {
            match self.hear(&line, &path) {
                Ok(Some(at)) => *reached = Some(at),
                Ok(None) => {}
                Err(error) if error.code() == Some(410) => return Ok(End::Relist),
                Err(error) => {
                    *reached = None;
                    return Err(error);
                }
            }
            self.works();
        }
        match reached.take() {
            Some(version) if begun.elapsed() >= SHORT => {
                self.works();
                Ok(End::Resume(version))
            }
            version => {
                *reached = version;
                Err(ApiError::Unreachable(
                    "it ended the watch at once".to_owned(),
                ))
            }
        }
    }

    /// One event of a watch; the version it leads to.
    fn hear(&mut self, line: &[u8], path: &str) -> Result<Option<String>, ApiError> {
        let garbage = || ApiError::Garbage {
            path: path.to_owned(),
            expected: "an event of a watch",
        };
        let event: Event<'_> = serde_json::from_slice(line).map_err(|_| garbage())?;
        let glance: Glance = serde_json::from_str(event.object.get()).unwrap_or_default();
        match &*event.kind {
            "ADDED" | "MODIFIED" => {
                if let Some(item) = self.sink.read(event.object) {
                    self.sink.put(item);
                }
            }
            "DELETED" => self.sink.forget(event.object),
            "BOOKMARK" => {}
            "ERROR" => {
                return Err(ApiError::Rejected {
                    method: "GET",
                    path: path.to_owned(),
                    code: glance.code,
                    message: shortened(&glance.message, 512),
                });
            }
            _ => return Err(garbage()),
        }
        Ok(glance.metadata.resource_version)
    }

    fn works(&mut self) {
        self.backoff.reset();
        self.sink.note(Note::Works);
    }
}

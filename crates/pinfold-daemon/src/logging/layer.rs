//! [`LineLayer`]: the `tracing` layer that writes events as lines.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::LogFormat;
use super::line::LogLine;
use super::rate_limit::RateLimiter;

/// Writes every event as one line, within the rate limit of its call site. Spans are not written.
pub(super) struct LineLayer<W, C> {
    format: LogFormat,
    clock: C,
    limiter: Mutex<RateLimiter>,
    out: Mutex<W>,
}

impl<W: Write, C: Fn() -> Timestamp> LineLayer<W, C> {
    pub(super) fn new(format: LogFormat, out: W, clock: C) -> Self {
        Self {
            format,
            clock,
            limiter: Mutex::default(),
            out: Mutex::new(out),
        }
    }
}

impl<S, W, C> Layer<S> for LineLayer<W, C>
where
    S: Subscriber,
    W: Write + Send + 'static,
    C: Fn() -> Timestamp + Send + Sync + 'static,
{
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let now = (self.clock)();
        let metadata = event.metadata();
        let Some(suppressed) = lock(&self.limiter).admit(metadata.callsite(), now) else {
            return;
        };
        let mut line = LogLine::new(self.format);
        line.push_text("time", &format_args!("{now:.3}"));
        line.push_text("level", &level_name(*metadata.level()));
        line.push_text("target", &metadata.target());
        event.record(&mut Fields(&mut line));
        if suppressed > 0 {
            line.push_number("suppressed", &suppressed);
        }
        // A daemon whose standard error is closed goes on without a log.
        let _ = lock(&self.out).write_all(line.finish().as_bytes());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::TRACE => "trace",
        Level::DEBUG => "debug",
        Level::INFO => "info",
        Level::WARN => "warn",
        Level::ERROR => "error",
    }
}

/// Adds the fields of an event to a line, the message among them.
struct Fields<'a>(&'a mut LogLine);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_text(field.name(), &format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push_text(field.name(), &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push_number(field.name(), &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push_number(field.name(), &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push_number(field.name(), &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.0.push_number(field.name(), &value),
            false => self.0.push_text(field.name(), &value),
        }
    }
}

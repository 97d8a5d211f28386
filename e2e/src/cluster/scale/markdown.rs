//! What was measured, as a part of a page.

use std::time::Duration;

use super::{AllNames, Measured, Pair, Run};

impl Measured {
    /// For people, as a part of a page.
    pub(crate) fn markdown(&self) -> String {
        let Self {
            size,
            churn,
            full,
            woken,
            ..
        } = self;
        let mut text = format!(
            "{} nodes and their reports, {} pods, all there before the scheduler starts. kube-scheduler may ask the API \
             server as often as it likes.\n\n",
            size.nodes, size.pods
        );
        text.push_str(&self.pair("with NUMA needs", &self.numa, "0.90"));
        text.push_str(&self.pair("without NUMA needs", &self.shares, "0.98"));
        text.push_str(&format!(
            "| work | measured | target |\n|---|--:|--:|\n\
             | a node of 8x32 CPUs is filled with {} pods of 2 CPUs, from the first binding to the last | {:.1} s | 3 s |\n\
             | {} pods wait for one node, and one of them fits: pods that are requeued | {:.0} | 64 |\n\
             | ... scheduling attempts after that | {:.0} | |\n\
             | 100 pods per second come: patches of reports | {:.2} MB/s | 2 MB/s |\n\
             | ... bytes that etcd writes for them (a whole report has {} bytes) | {:.2} MB/s | |\n\n",
            full.pods,
            full.time.as_secs_f64(),
            woken.waiting,
            woken.requeued,
            woken.attempts,
            megabytes(100 * churn.patch),
            churn.whole,
            churn.stored * 100.0 / 1e6,
        ));
        text.push_str("| call | median below | 99 of 100 below |\n|---|--:|--:|\n");
        let row = |name: &str, (median, most): (f64, f64)| {
            format!(
                "| {name} | {:.2} ms | {:.2} ms |\n",
                median * 1000.0,
                most * 1000.0
            )
        };
        for (verb, times) in &self.calls {
            text.push_str(&row(verb, *times));
        }
        let AllNames { known, new } = self.all_names;
        let count = size.nodes;
        text.push_str(&row(&format!("PreFilter of {count} nodes"), known));
        let title = format!("PreFilter of {count} nodes, of a shape never asked about before");
        text.push_str(&row(&title, new));
        #[expect(clippy::cast_precision_loss, reason = "shown without decimals")]
        let memory = mebibytes(self.memory as f64);
        text.push_str(&format!(
            "\nThe engine's memory at its peak: {memory:.0} MiB.\n\nRepeat it with `make bench-cluster` as root \
             (`SIZE=500,1000` for fewer nodes and pods).\n"
        ));
        text
    }

    fn pair(&self, title: &str, Pair { alone, plugged }: &Pair, target: &str) -> String {
        let pods = u32::try_from(self.size.pods.max(1)).unwrap_or(u32::MAX);
        let rate = |run: &Run| f64::from(pods) / run.time.as_secs_f64().max(0.001);
        let each = |time: Duration| time.as_secs_f64() * 1000.0 / f64::from(pods);
        format!(
            "| pods {title} | alone | with the plugin | ratio | target |\n|---|--:|--:|--:|--:|\n\
             | pods bound per second | {:.0} | {:.0} | {:.2} | {target} |\n\
             | CPU time of kube-scheduler per pod | {:.2} ms | {:.2} ms | | |\n\
             | CPU time of the engine per pod | | {:.2} ms | | |\n\
             | watch events sent by the API server to everybody | {:.1} MiB | {:.1} MiB | | |\n\n",
            rate(alone),
            rate(plugged),
            rate(plugged) / rate(alone),
            each(alone.scheduler),
            each(plugged.scheduler),
            each(plugged.engine),
            mebibytes(alone.watched),
            mebibytes(plugged.watched),
        )
    }
}

fn megabytes(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / 1e6
}

fn mebibytes(bytes: f64) -> f64 {
    bytes / 1024.0 / 1024.0
}

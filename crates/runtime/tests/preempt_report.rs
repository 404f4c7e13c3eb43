//! Reports of long polls.

use std::fmt::Debug;
use std::hint::spin_loop;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel::{Builder, Level};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps the fields of the events of the reporter.
#[derive(Clone, Default)]
struct Keep(Arc<Mutex<Vec<Fields>>>);

#[derive(Clone, Default, Debug)]
struct Fields(Vec<(String, String)>);

impl Fields {
    fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|field| field.0 == name);
        found.map_or("", |field| &field.1)
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name().to_owned(), value.to_owned()));
    }
}

impl Subscriber for Keep {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "evenkeel::report"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Keep {
    /// Returns the reports of polls that computed. (One that waits for the lock here, while the
    /// thread that holds it is preempted, is reported as blocked.)
    fn reports(&self) -> Vec<Fields> {
        let mut reports = self.0.lock().unwrap().clone();
        reports.retain(|report| !report.get("backtrace").is_empty());
        reports
    }
}

/// The function that reports should name.
#[inline(never)]
fn a_long_computation(is_enough: impl Fn() -> bool) {
    while !is_enough() {
        for _ in 0..1000 {
            spin_loop();
        }
    }
}

#[test]
fn a_long_poll_is_reported_once_with_its_group_and_place() {
    let kept = Keep::default();
    tracing::subscriber::set_global_default(kept.clone()).unwrap();
    for level in [Level::Off, Level::Lazy, Level::Handoff, Level::Park] {
        kept.0.lock().unwrap().clear();
        let limit = Duration::from_millis(5);
        let runtime = Builder::new()
            .worker_threads(2)
            .preempt(level)
            .report_long_polls(limit)
            .build()
            .unwrap();
        let group = runtime.handle().root().child("culprits").build().unwrap();
        let polls: Vec<_> = (0..4)
            .map(|_| {
                let kept = kept.clone();
                group.spawn(async move {
                    let begun = Instant::now();
                    let is_over = || begun.elapsed() > 2 * limit;
                    a_long_computation(|| !kept.reports().is_empty() && is_over());
                })
            })
            .collect();
        runtime.block_on(async {
            for poll in polls {
                poll.await.unwrap();
            }
        });
        drop(runtime);
        let reports = kept.reports();
        assert_eq!(reports.len(), 1, "{level:?}: {reports:?}");
        assert_eq!(reports[0].get("group"), "/culprits");
        assert!(reports[0].get("took_ms").parse::<u64>().unwrap() >= 5);
        let backtrace = reports[0].get("backtrace");
        assert!(backtrace.contains("a_long_computation"), "{backtrace}");
        assert!(!backtrace.contains("evenkeel::context"), "{backtrace}");
        assert!(group.stat().nr_over_limit > 0, "{level:?}");
    }
}

#[test]
fn limits_out_of_range_are_refused() {
    for limit in [Duration::ZERO, Duration::from_secs(3601)] {
        let error = Builder::new().report_long_polls(limit).build();
        let text = error.map(drop).unwrap_err().to_string();
        assert!(text.contains("report_long_polls"), "{text}");
    }
}

//! Metrics in the text format of Prometheus, and as OpenMetrics. Must not know where the numbers come from.

use std::fmt::Write;

/// The media type of the text format of Prometheus.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The media type of OpenMetrics.
pub(crate) const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a family of numbers is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricKind {
    /// It only grows, from the start of the server on.
    Counter,
    /// It is as it is now.
    Gauge,
}

/// Metrics that are being written.
pub(crate) struct Metrics {
    text: String,
    open: bool,
}

impl Metrics {
    /// Empty, in that form: OpenMetrics if `open`.
    pub(crate) fn new(open: bool) -> Self {
        Self { text: String::new(), open }
    }

    /// Adds numbers of one name: each with its labels. The name of a counter ends with `_total`.
    pub(crate) fn add<'a, L: AsRef<[(&'a str, &'a str)]>>(
        &mut self,
        (name, kind, help): (&str, MetricKind, &str),
        numbers: impl IntoIterator<Item = (L, f64)>,
    ) {
        // OpenMetrics calls the family of a counter by its name without the suffix.
        let family = if self.open { name.strip_suffix("_total").unwrap_or(name) } else { name };
        let what = if kind == MetricKind::Counter { "counter" } else { "gauge" };
        let text = &mut self.text;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {family} {}\n# TYPE {family} {what}", escaped(help));
        for (labels, number) in numbers {
            text.push_str(name);
            for (n, (label, value)) in labels.as_ref().iter().enumerate() {
                let _ = write!(text, "{}{label}=\"{}\"", if n == 0 { '{' } else { ',' }, escaped(value));
            }
            let _ = writeln!(text, "{} {number}", if labels.as_ref().is_empty() { "" } else { "}" });
        }
    }

    /// Adds one number without labels.
    pub(crate) fn one(&mut self, family: (&str, MetricKind, &str), number: f64) {
        self.add(family, [([], number)]);
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        if self.open {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// A text in which nothing ends a line or a quotation.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_counters_are_named_as_each_form_wants() {
        let write = |open| {
            let mut metrics = Metrics::new(open);
            let family = ("viv_calls_total", MetricKind::Counter, "Calls.\nAll.");
            metrics.add(
                family,
                [([("tool", "a\"b\\c\nd"), ("x", "y")], 2.0), ([("tool", "é"), ("x", "")], 0.5)],
            );
            metrics.one(("viv_up", MetricKind::Gauge, "Up."), 1.0);
            metrics.finish()
        };
        let lines = "viv_calls_total{tool=\"a\\\"b\\\\c\\nd\",x=\"y\"} 2\nviv_calls_total{tool=\"é\",x=\"\"} 0.5\n\
                     # HELP viv_up Up.\n# TYPE viv_up gauge\nviv_up 1\n";
        let head = |name| format!("# HELP {name} Calls.\\nAll.\n# TYPE {name} counter\n");
        assert_eq!(write(false), format!("{}{lines}", head("viv_calls_total")));
        assert_eq!(write(true), format!("{}{lines}# EOF\n", head("viv_calls")));
    }
}

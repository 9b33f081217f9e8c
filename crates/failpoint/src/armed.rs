//! Which failpoint fires and which faults are on in this process, read once from the environment.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{FAULTS, POINTS};

/// The one point at which this process dies.
#[derive(Debug)]
struct Trigger {
    point: String,
    /// How many more times the point is reached until it fires.
    left: AtomicU64,
    /// Delay between reaching the point and the abort.
    after: Duration,
}

impl Trigger {
    /// `NAME[@N][+MS]`.
    fn parse(text: &str) -> Option<Self> {
        let (text, ms) = text.split_once('+').unwrap_or((text, "0"));
        let (point, times) = text.split_once('@').unwrap_or((text, "1"));
        let left = AtomicU64::new(times.parse().ok()?);
        let after = Duration::from_millis(ms.parse().ok()?);
        POINTS.contains(&point).then(|| Self { point: point.to_owned(), left, after })
    }

    /// Counts one arrival at `point`; returns whether it is the one that fires.
    fn fires(&self, point: &str) -> bool {
        self.point == point && self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// Marks that a point is reached. Aborts if this point and count are the chosen ones.
pub fn reach(point: &str) {
    static TRIGGER: OnceLock<Option<Trigger>> = OnceLock::new();
    let read = || {
        let text = std::env::var("VIV_FAILPOINT").ok()?;
        // A harness that names a point wrongly would test nothing.
        Some(
            Trigger::parse(&text)
                .unwrap_or_else(|| die(&format!("`VIV_FAILPOINT={text}` is not `NAME[@N][+MS]`"))),
        )
    };
    if !POINTS.contains(&point) {
        die(&format!("the point `{point}` is not in the list"));
    }
    if let Some(trigger) = TRIGGER.get_or_init(read).as_ref().filter(|trigger| trigger.fires(point)) {
        std::thread::sleep(trigger.after);
        die(&format!("reached `{point}`"));
    }
}

/// Whether a fault is on in this process.
pub fn is_on(fault: &str) -> bool {
    static ON: OnceLock<BTreeSet<String>> = OnceLock::new();
    let read = || {
        let text = std::env::var("VIV_FAULTS").unwrap_or_default();
        let on: BTreeSet<String> =
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if let Some(name) = on.iter().find(|name| FAULTS.iter().all(|(known, _)| known != name)) {
            die(&format!("`{name}` in `VIV_FAULTS` is not a known fault"));
        }
        on
    };
    ON.get_or_init(read).contains(fault)
}

/// Aborts if the shown text contains the text of `VIV_POISON`.
pub fn poison(shown: impl FnOnce() -> String) {
    static POISON: OnceLock<Option<String>> = OnceLock::new();
    let poison = POISON.get_or_init(|| std::env::var("VIV_POISON").ok().filter(|text| !text.is_empty()));
    if let Some(poison) = poison
        && shown().contains(poison)
    {
        die(&format!("was shown `{poison}`"));
    }
}

/// Ends the process like a crash: no destructor or handler runs.
fn die(why: &str) -> ! {
    // The process dies even if this line cannot be written.
    let _ = writeln!(std::io::stderr(), "failpoint: {why}");
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_a_point_with_an_optional_count_and_delay() {
        let trigger = Trigger::parse("decide.before@3+20").unwrap();
        assert_eq!((trigger.point.as_str(), trigger.after), ("decide.before", Duration::from_millis(20)));
        let fires = ["decide.before", "open.before", "decide.before", "decide.before", "decide.before"];
        assert_eq!(fires.map(|point| trigger.fires(point)), [false, false, false, true, false]);
        assert!(Trigger::parse("boot").unwrap().fires("boot"));
        for bad in ["nowhere", "boot@x", "boot+", ""] {
            assert!(Trigger::parse(bad).is_none(), "{bad}");
        }
    }
}

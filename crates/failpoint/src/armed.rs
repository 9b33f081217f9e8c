//! What befalls this life, read once from the environment.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{FAULTS, POINTS};

/// The one point at which this life ends.
#[derive(Debug)]
struct Blow {
    point: String,
    /// Comings that are left until it falls.
    left: AtomicU64,
    /// How long after that.
    after: Duration,
}

impl Blow {
    /// `NAME[@N][+MS]`.
    fn parse(text: &str) -> Option<Self> {
        let (text, ms) = text.split_once('+').unwrap_or((text, "0"));
        let (point, times) = text.split_once('@').unwrap_or((text, "1"));
        let left = AtomicU64::new(times.parse().ok()?);
        let after = Duration::from_millis(ms.parse().ok()?);
        POINTS.contains(&point).then(|| Self { point: point.to_owned(), left, after })
    }

    /// Whether this coming is the one.
    fn falls(&self, point: &str) -> bool {
        self.point == point && self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// Comes to a point.
pub fn strike(point: &str) {
    static BLOW: OnceLock<Option<Blow>> = OnceLock::new();
    let read = || {
        let text = std::env::var("VIV_FAILPOINT").ok()?;
        // A harness that names a point wrongly would test nothing.
        Some(Blow::parse(&text).unwrap_or_else(|| die(&format!("`VIV_FAILPOINT={text}` is none"))))
    };
    if !POINTS.contains(&point) {
        die(&format!("the point `{point}` is not in the list"));
    }
    if let Some(blow) = BLOW.get_or_init(read).as_ref().filter(|blow| blow.falls(point)) {
        std::thread::sleep(blow.after);
        die(&format!("came to `{point}`"));
    }
}

/// Whether a fault is on in this life.
pub fn is_on(fault: &str) -> bool {
    static ON: OnceLock<BTreeSet<String>> = OnceLock::new();
    let read = || {
        let text = std::env::var("VIV_FAULTS").unwrap_or_default();
        let on: BTreeSet<String> =
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if let Some(name) = on.iter().find(|name| FAULTS.iter().all(|(known, _)| known != name)) {
            die(&format!("`{name}` in `VIV_FAULTS` is no fault"));
        }
        on
    };
    ON.get_or_init(read).contains(fault)
}

/// Aborts where what is shown contains the poison.
pub fn poison(shown: impl FnOnce() -> String) {
    static POISON: OnceLock<Option<String>> = OnceLock::new();
    let poison = POISON.get_or_init(|| std::env::var("VIV_POISON").ok().filter(|text| !text.is_empty()));
    if let Some(poison) = poison
        && shown().contains(poison)
    {
        die(&format!("was shown `{poison}`"));
    }
}

/// As a crash does: no destructor, no handler.
fn die(why: &str) -> ! {
    // Where even this cannot be said the process dies all the same.
    let _ = writeln!(std::io::stderr(), "failpoint: {why}");
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blow_is_a_point_with_a_count_and_a_delay() {
        let blow = Blow::parse("decide.before@3+20").unwrap();
        assert_eq!((blow.point.as_str(), blow.after), ("decide.before", Duration::from_millis(20)));
        let falls = ["decide.before", "open.before", "decide.before", "decide.before", "decide.before"];
        assert_eq!(falls.map(|point| blow.falls(point)), [false, false, false, true, false]);
        assert!(Blow::parse("boot").unwrap().falls("boot"));
        for bad in ["nowhere", "boot@x", "boot+", ""] {
            assert!(Blow::parse(bad).is_none(), "{bad}");
        }
    }
}

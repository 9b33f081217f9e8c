//! Which model answers this step.

use super::{Prepared, Situation};

/// Chooses the fallback model if a provider cannot serve, else the model of the first matching rule, else the
/// agent's own model.
pub(super) fn choose(situation: &Situation<'_>, prepared: &mut Prepared) {
    if let Some(fallback) = situation.fallback {
        prepared.model = Some(fallback.to_owned());
        return;
    }
    let tokens = situation.tokens();
    let route = situation.config.routing.iter().find(|route| route.fits(situation.step, tokens));
    prepared.model = route.map(|route| route.model.clone());
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::prepare::Unread;
    use serde_json::json;

    #[test]
    fn the_first_matching_rule_chooses_the_model() {
        let config = json!({"routing": [
            {"from": 0, "to": 0, "model": "small/one"},
            {"above_tokens": 1_000, "model": "large/one"},
            {"from": 5, "model": "last/one"},
        ]});
        let model = |step| check(&config, |s| s.step = step, &Unread::default()).model;
        assert_eq!(model(0).as_deref(), Some("small/one"));
        assert_eq!(model(1), None);
        assert_eq!(model(6).as_deref(), Some("last/one"));
    }
}

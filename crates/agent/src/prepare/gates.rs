//! Gates: which tools may be called in this step. The model is told once for each range of steps. The tool
//! definitions never change within a view; a call that is not allowed is refused.

use super::{Prepared, Situation};
use crate::config::{Gate, WantedChoice};
use crate::layer::LayerKind;
use crate::prompt::ToolChoice;
use crate::tool::names;

pub(super) fn gate(situation: &Situation<'_>, prepared: &mut Prepared) {
    let gates = &situation.config.gates;
    let Some(gate) = gates.at(situation.step) else {
        if situation.step > 0 && gates.at(situation.step - 1).is_some_and(|before| restricts(&before)) {
            let text = "[PHASE] From now on you may call all of your tools.".to_owned();
            prepared.layers.push((LayerKind::Phase, text));
        }
        return;
    };
    prepared.choice = match gate.tool_choice {
        WantedChoice::Required => ToolChoice::Required,
        // `skip` and `done` are always allowed, so the vendor is never told that calls are forbidden.
        WantedChoice::Auto | WantedChoice::None => ToolChoice::Auto,
    };
    // A new view shows none of the layers before it.
    if (gate.from == situation.step || situation.anew) && (restricts(&gate) || situation.step > 0) {
        prepared.layers.push((LayerKind::Phase, describe(&gate)));
    }
    prepared.gate = Some(gate);
}

fn restricts(gate: &Gate) -> bool {
    gate.active_tools.is_some() || gate.tool_choice != WantedChoice::Auto
}

fn describe(gate: &Gate) -> String {
    let ends = format!("{} and {}", names::SKIP, names::DONE);
    let steps = gate.steps();
    let mut text = match (&gate.active_tools, gate.tool_choice) {
        (_, WantedChoice::None) => format!("[PHASE] {steps}: call no tool but {ends}."),
        (None, _) => format!("[PHASE] {steps}: you may call all of your tools."),
        (Some(active), _) if active.is_empty() => format!("[PHASE] {steps}: call no tool but {ends}."),
        (Some(active), _) => format!("[PHASE] {steps}: you may call {}, {ends} only.", active.join(", ")),
    };
    if gate.tool_choice == WantedChoice::Required {
        text.push_str(" Call at least one tool in each of them.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use crate::prepare::Unread;
    use serde_json::{Value, json};

    fn at(config: &Value, step: u32) -> Prepared {
        check(config, |s| s.step = step, &Unread::default())
    }

    fn told(prepared: Prepared) -> Vec<String> {
        prepared.layers.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_phase_is_announced_where_it_begins_and_after_the_last_one() {
        let config = json!({"gates": [{"from": 0, "to": 1, "active_tools": ["read_messages"], "tool_choice": "required"}]});
        assert_eq!(
            told(at(&config, 0)),
            [
                "[PHASE] steps 0 to 1: you may call read_messages, skip and done only. Call at least one tool in each of them."
            ]
        );
        assert_eq!(
            (told(at(&config, 1)), at(&config, 1).choice),
            (Vec::<String>::new(), ToolChoice::Required)
        );
        assert_eq!(told(at(&config, 2)), ["[PHASE] From now on you may call all of your tools."]);
        assert_eq!((told(at(&config, 3)), at(&config, 3).gate), (Vec::<String>::new(), None));
        let anew = check(&config, |s| (s.step, s.anew) = (1, true), &Unread::default());
        assert_eq!(told(anew), told(at(&config, 0)), "a new view shows none of the layers before it");
    }

    #[test]
    fn a_gate_that_allows_everything_from_the_start_is_not_announced() {
        assert!(at(&json!({"gates": [{"from": 0}]}), 0).layers.is_empty());
    }
}

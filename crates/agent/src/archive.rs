//! What the file of an agent is believed in. It says itself how far its texts can be trusted and what its calls may do, and
//! its checksum, which anybody can compute, is no signature. Must not know how a file is read.

use serde_json::Value;

use crate::approval::Approval;
use crate::call::{CallState, Effect};
use crate::event::Trust;

/// Who wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    /// The operator: it is believed in all that it says.
    Own,
    /// Nobody knows: whatever stands in it may be a stranger's.
    Unknown,
}

impl FileOrigin {
    /// What a text is worth of which the file says this.
    pub fn trust(self, said: Trust) -> Trust {
        match self {
            Self::Own => said,
            Self::Unknown => Trust::Outside,
        }
    }

    /// The same for all that a record says inside. What it does not say is left alone.
    pub fn trust_inside(self, record: &mut Value) {
        match record {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value
                        .as_str()
                        .and_then(|said| Trust::try_from(said).ok())
                        .filter(|_| name == "trust")
                    {
                        Some(said) => *value = self.trust(said).as_str().into(),
                        None => self.trust_inside(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.trust_inside(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Whether a call may stand as the file has it. One that has not ended would be run here although nobody here has decided
    /// it; one that waits for a person is asked about again.
    pub fn believes_call(self, state: CallState, effect: Effect, approval: Option<&Approval>) -> bool {
        let is_over = state == CallState::Done || effect == Effect::Inward;
        self == Self::Own || is_over || approval.is_some_and(Approval::is_wanted)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_of_unknown_origin_is_worth_what_a_stranger_says() {
        for said in Trust::ALL {
            assert_eq!(
                (FileOrigin::Own.trust(said), FileOrigin::Unknown.trust(said)),
                (said, Trust::Outside)
            );
        }
        let mut record =
            json!({"trust": "operator", "steps": [{"sent": {"trust": "member"}}, {"trust": 3}, "trust"]});
        FileOrigin::Own.trust_inside(&mut record);
        assert_eq!(record["steps"][0]["sent"]["trust"], "member");
        FileOrigin::Unknown.trust_inside(&mut record);
        let wanted =
            json!({"trust": "outside", "steps": [{"sent": {"trust": "outside"}}, {"trust": 3}, "trust"]});
        assert_eq!(record, wanted);
    }

    #[test]
    fn no_call_of_a_file_of_unknown_origin_runs_by_itself() {
        for state in CallState::ALL {
            for effect in Effect::ALL {
                let (own, unknown) = (
                    FileOrigin::Own.believes_call(state, effect, None),
                    FileOrigin::Unknown.believes_call(state, effect, None),
                );
                assert!(own);
                assert_eq!(
                    unknown,
                    state == CallState::Done || effect == Effect::Inward,
                    "{state:?} {effect:?}"
                );
            }
        }
    }
}

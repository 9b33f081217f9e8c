//! Some models write several calls as one call of a tool `parallel` that was not offered. The calls
//! inside it are taken out.

use crate::wire::json::{self, RawObject};

/// Known names of the wrapper.
const NAMES: [&str; 4] = ["parallel", "multi_tool_use.parallel", "multi_tool_use_parallel", "multi_tool_use"];

/// Whether a call of this name may be a wrapper. Then it is not shown before it is complete.
pub(super) fn may_be(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The calls in a wrapper: name and raw arguments. `None` if it is not a wrapper.
pub(super) fn unwrap(arguments: &str) -> Option<Vec<(String, String)>> {
    let object = RawObject::parse(arguments)?;
    let [(key, uses)] = object.0.as_slice() else { return None };
    if key != "tool_uses" {
        return None;
    }
    let uses: Vec<RawObject> = serde_json::from_str(uses.get()).ok()?;
    let calls: Option<Vec<(String, String)>> = uses.iter().map(one).collect();
    calls.filter(|calls| !calls.is_empty())
}

fn one(call: &RawObject) -> Option<(String, String)> {
    let recipient = call.text("recipient_name")?;
    let name = recipient.strip_prefix("functions.")?.to_owned();
    let parameters = call.get("parameters")?;
    json::is_object(parameters).then(|| (name, parameters.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_shape_is_unwrapped() {
        let good = r#"{"tool_uses":[{"recipient_name":"functions.a","parameters":{"x": 1.0}},
            {"recipient_name":"functions.b","parameters":{}}]}"#;
        let calls = unwrap(good).unwrap();
        assert_eq!(calls, [("a".to_owned(), r#"{"x": 1.0}"#.to_owned()), ("b".to_owned(), "{}".to_owned())]);
        for other in [
            "{}",
            "",
            r#"{"tool_uses":[]}"#,
            r#"{"tool_uses":[{"recipient_name":"a","parameters":{}}]}"#,
            r#"{"tool_uses":[{"recipient_name":"functions.a","parameters":"x"}]}"#,
            r#"{"tool_uses":[{"recipient_name":"functions.a","parameters":{}}],"more":1}"#,
        ] {
            assert_eq!(unwrap(other), None, "{other}");
        }
    }
}

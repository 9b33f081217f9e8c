//! A value as browsers send a form: pairs, percent-encoded, with brackets for what is nested. Must not know requests.

use serde_json::Value;

use super::mark::around;
use super::percent_encoded;

/// The pairs of an object, as a body. What is `null` is left out.
pub(crate) fn written(value: &Value) -> Result<String, String> {
    if !value.is_object() {
        return Err("wanted an object: a form has named fields".to_owned());
    }
    let mut found = Vec::new();
    pairs(None, value, &mut found);
    let encoded = |text: &str| around(text, percent_encoded);
    let pair = |(name, value): &(String, String)| format!("{}={}", encoded(name), encoded(value));
    Ok(found.iter().map(pair).collect::<Vec<_>>().join("&"))
}

/// The values inside, each with its name: `a` (also for each plain item of a list), `a[b]`, `a[b][]`, `a[0][b]`.
pub(crate) fn pairs(name: Option<&str>, value: &Value, found: &mut Vec<(String, String)>) {
    let inner = |key: &str| name.map_or_else(|| key.to_owned(), |name| format!("{name}[{key}]"));
    match value {
        Value::Null => {}
        Value::Object(map) => map.iter().for_each(|(key, value)| pairs(Some(&inner(key)), value, found)),
        // The plain items of a list have one name; of others each has its own, so that none is torn apart.
        Value::Array(items) => {
            let is_plain = items.iter().all(|item| !item.is_object() && !item.is_array());
            let is_nested = name.is_some_and(|name| name.ends_with(']'));
            for (at, item) in items.iter().enumerate() {
                let own = match (is_plain, is_nested) {
                    (true, false) => name.unwrap_or_default().to_owned(),
                    (true, true) if name.is_some_and(|name| name.ends_with("[]")) => {
                        name.unwrap_or_default().to_owned()
                    }
                    (true, true) => inner(""),
                    (false, _) => inner(&at.to_string()),
                };
                pairs(Some(&own), item, found);
            }
        }
        Value::String(text) => found.push((name.unwrap_or_default().to_owned(), text.clone())),
        other => found.push((name.unwrap_or_default().to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_has_brackets_for_what_is_nested() {
        let value = json!({"a": "x y&z", "b": true, "n": null, "c": {"d": [1, 2.5], "e": {"f": ""}}, "l": [{"k": "1"}, {"k": "2"}], "ä": [1, 2], "m[]": [3, 4]});
        assert_eq!(
            written(&value).unwrap(),
            "a=x%20y%26z&b=true&c%5Bd%5D%5B%5D=1&c%5Bd%5D%5B%5D=2.5&c%5Be%5D%5Bf%5D=&l%5B0%5D%5Bk%5D=1&l%5B1%5D%5Bk%5D=2&%C3%A4=1&%C3%A4=2&m%5B%5D=3&m%5B%5D=4"
        );
        assert_eq!(written(&json!({})).unwrap(), "");
        assert!(written(&json!([1])).is_err());
    }
}

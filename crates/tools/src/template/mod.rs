//! Templates over the arguments of a call, or over what a hook received. An argument is written so that it stays one value of the place where it stands:
//! in a URL it adds no segment, in a form no field, in JSON no key.
//!
//! `secret("name")` writes only a mark; the secret replaces the mark after the template has done its work, so a template
//! can neither read nor change it. This module must not know requests, and it never sees a secret's value.

mod mark;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use agent::config::nearest;
use agent::limits;
use minijinja::value::{Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub(crate) use self::mark::{fill, has_mark, names, written};

/// Checks the name of a secret; the error says what a name may be.
pub(crate) fn check_secret_name(name: &str) -> Result<(), String> {
    mark::of(name).map(drop)
}

/// Everything but letters, digits, `-`, `.`, `_` and `~`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Names that a template may use beside the arguments.
const FUNCTIONS: &[&str] = &["range", "dict", "namespace", "loop", "true", "false", "none"];

/// Where a template stands, which decides how values are written and whether it may name secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A URL. Values are percent-encoded and not empty; no secrets.
    Url,
    /// A header, a parameter of a query or a text inside JSON: what it becomes is encoded as a whole.
    Value,
    /// A body of plain text.
    Text,
    /// A body of JSON that is written as text: each value is written as JSON.
    JsonText,
    /// A body as forms send it: values are percent-encoded.
    Form,
    /// What an agent reads of a delivery. Structured values are written as JSON; no secrets.
    Event,
}

impl Slot {
    fn has_secrets(self) -> bool {
        !matches!(self, Self::Url | Self::Event)
    }
}

/// Checks a template without running a call: it compiles, and it uses only arguments of the schema. The error says what
/// is wrong.
pub(crate) fn check(source: &str, slot: Slot, known: &BTreeSet<&str>) -> Result<(), String> {
    if has_mark(source) {
        return Err("the characters U+FDD0 and U+FDD1 are reserved".to_owned());
    }
    if slot == Slot::Url {
        origin(source)?;
    }
    let environment = environment(slot);
    let template = environment.template_from_str(source).map_err(|error| not_compiled(&error))?;
    for name in template.undeclared_variables(false) {
        match name.as_str() {
            "secret" if slot.has_secrets() => {}
            "secret" if slot == Slot::Event => {
                return Err("agents and models read this, so it has no secrets".into());
            }
            "secret" => {
                return Err("a URL is written to logs, so it has no secrets\nhint: put it into `headers`, `query` or the body".into());
            }
            name if known.contains(name) || FUNCTIONS.contains(&name) => {}
            name => {
                let hint = match nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if slot == Slot::Event => {
                        format!("known are `{}`", known.iter().copied().collect::<Vec<_>>().join("` and `"))
                    }
                    None => "add it to the properties of `input`".to_owned(),
                };
                let what = if slot == Slot::Event { "part of a delivery" } else { "argument of the schema" };
                return Err(format!("`{name}` is no {what}\nhint: {hint}"));
            }
        }
    }
    // Filters and functions are found only when they are used.
    let trial: BTreeMap<&str, &str> = known.iter().map(|name| (*name, "x")).collect();
    match template.render(Value::from(Serde(&trial))) {
        Err(error) if is_unknown(&error) => Err(not_compiled(&error)),
        _ => Ok(()),
    }
}

/// The scheme, host and port at the beginning of a URL template; no value may reach into them.
pub(crate) fn origin(source: &str) -> Result<&str, String> {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| source.starts_with(scheme));
    let Some(scheme) = scheme else {
        return Err("wanted a URL that begins with `https://` or `http://`".to_owned());
    };
    let rest = &source[scheme.len()..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = &rest[..end];
    if host.contains(['{', '}']) {
        return Err("the host is constant: an argument must not decide where a request goes".to_owned());
    }
    if host.is_empty() || host.contains(['@', '\\', '%']) || host.contains(char::is_whitespace) {
        return Err(format!("wanted a host after `{scheme}`, got `{host}`"));
    }
    Ok(&source[..scheme.len() + end])
}

/// The arguments of a call, as templates read them.
pub(crate) fn context(arguments: &serde_json::Value) -> Value {
    Value::from(Serde(arguments))
}

/// Writes a template as text, with marks for secrets. The error is for the model.
pub(crate) fn text(source: &str, slot: Slot, context: &Value) -> Result<String, String> {
    let environment = environment(slot);
    let template = environment.template_from_str(source).map_err(|error| not_compiled(&error))?;
    let mut written = BoundedText(Vec::new());
    template.render_captured_to(context.clone(), &mut written).map_err(|error| not_written(&error))?;
    String::from_utf8(written.0).map_err(|error| error.to_string())
}

/// The value of a template that is a single expression, `None` if an argument is absent; of any other its text.
pub(crate) fn value(source: &str, slot: Slot, context: &Value) -> Result<Option<Value>, String> {
    let Some(expression) = single(source) else {
        return text(source, slot, context).map(|text| Some(text.into()));
    };
    let environment = environment(slot);
    let compiled = environment.compile_expression(expression).map_err(|error| not_compiled(&error))?;
    let value = compiled.eval(context.clone()).map_err(|error| not_written(&error))?;
    Ok(Some(value).filter(|value| !value.is_undefined()))
}

/// Whether an expression is true; one about something that is absent is not.
pub(crate) fn is_true(expression: &str, context: &Value) -> Result<bool, String> {
    let mut environment = environment(Slot::Event);
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    let compiled = environment.compile_expression(expression).map_err(|error| not_compiled(&error))?;
    compiled.eval(context.clone()).map(|value| value.is_true()).map_err(|error| not_written(&error))
}

/// A value as the text of a header or a parameter.
pub(crate) fn scalar(value: &Value) -> Result<String, String> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Number | ValueKind::Bool => Ok(value.to_string()),
        other => Err(format!("wanted a text, a number or a truth value, got {other}")),
    }
}

/// Percent-encodes a text so that it is one value anywhere in a URL.
pub(crate) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// The expression of a template that consists of one.
fn single(source: &str) -> Option<&str> {
    let inner = source.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let is_plain = !["{{", "}}", "{%", "{#"].iter().any(|tag| inner.contains(tag));
    let trims = inner.starts_with(['-', '+']) || inner.ends_with(['-', '+']);
    (is_plain && !trims).then(|| inner.trim())
}

fn environment<'source>(slot: Slot) -> Environment<'source> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(limits::TEMPLATE_FUEL));
    environment.set_recursion_limit(limits::JSON_DEPTH_MAX);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(move |out, _: &mut State, value| write(out, slot, value));
    if slot.has_secrets() {
        environment.add_function("secret", |name: String| mark::of(&name).map_err(refused));
    }
    environment
}

fn write(out: &mut Output<'_>, slot: Slot, value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    }
    let is_structured = !matches!(value.kind(), ValueKind::String | ValueKind::Number | ValueKind::Bool);
    let json = || serde_json::to_string(value).map_err(|error| refused(error.to_string()));
    let text = match slot {
        Slot::JsonText => json()?,
        Slot::Text | Slot::Event if is_structured => json()?,
        _ => scalar(value).map_err(refused)?,
    };
    let text = match slot {
        Slot::Url if text.is_empty() => {
            return Err(refused("wanted a value for the URL, got an empty text".into()));
        }
        Slot::Url => percent_encoded(&text),
        Slot::Form => mark::around(&text, percent_encoded),
        Slot::Value | Slot::Text | Slot::JsonText | Slot::Event => text,
    };
    out.write_str(&text).map_err(Error::from)
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

fn is_unknown(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnknownFilter
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownMethod
    )
}

fn not_compiled(error: &Error) -> String {
    let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
    format!("this is no valid template: {}{line}", words(error))
}

fn not_written(error: &Error) -> String {
    match error.kind() {
        ErrorKind::OutOfFuel => "its template does too much work with these arguments".to_owned(),
        ErrorKind::WriteFailure => {
            format!("its template writes more than {} bytes", limits::TEMPLATE_OUTPUT_MAX_BYTES)
        }
        _ => words(error),
    }
}

fn words(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// Takes bytes up to the limit.
struct BoundedText(Vec<u8>);

impl io::Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > limits::TEMPLATE_OUTPUT_MAX_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(source: &str, slot: Slot, arguments: serde_json::Value) -> Result<String, String> {
        text(source, slot, &context(&arguments))
    }

    #[test]
    fn a_value_in_a_url_stays_one_value() {
        let check = |value: &str, wanted: &str| {
            assert_eq!(
                written("http://a/{{ x }}", Slot::Url, json!({"x": value})).unwrap(),
                format!("http://a/{wanted}")
            );
        };
        check("a b", "a%20b");
        check("a/b?c=d&e#f", "a%2Fb%3Fc%3Dd%26e%23f");
        check("%2e%2e", "%252e%252e");
        check("\\@evil.example:80", "%5C%40evil.example%3A80");
        check("\r\nx", "%0D%0Ax");
        check("ü", "%C3%BC");
        assert_eq!(
            written("http://a/{{ x | safe }}", Slot::Url, json!({"x": "a/b"})).unwrap(),
            "http://a/a%2Fb"
        );
        assert!(written("http://a/{{ x }}", Slot::Url, json!({"x": ""})).is_err());
        assert!(written("http://a/{{ x }}", Slot::Url, json!({"x": [1]})).is_err());
        assert!(written("http://a/{{ x }}", Slot::Url, json!({})).unwrap_err().contains("undefined"));
    }

    #[test]
    fn values_are_written_as_their_place_needs() {
        let hostile = json!({"x": "a\"&b=c\n"});
        assert_eq!(written("q={{ x }}", Slot::Form, hostile.clone()).unwrap(), "q=a%22%26b%3Dc%0A");
        assert_eq!(
            written("{\"q\":{{ x }}}", Slot::JsonText, hostile.clone()).unwrap(),
            r#"{"q":"a\"&b=c\n"}"#
        );
        assert_eq!(written("{{ x }}", Slot::Text, hostile).unwrap(), "a\"&b=c\n");
        assert_eq!(written("{{ x }}", Slot::Text, json!({"x": [1, true]})).unwrap(), "[1,true]");
    }

    #[test]
    fn a_single_expression_keeps_its_type_and_may_be_absent() {
        let of = |source: &str, arguments| value(source, Slot::Value, &context(&arguments)).unwrap();
        let json = |value: Option<Value>| serde_json::to_value(value).unwrap();
        assert_eq!(json(of("{{ x }}", json!({"x": [1, {"a": null}]}))), json!([1, {"a": null}]));
        assert_eq!(json(of("n {{ x }}", json!({"x": 5}))), json!("n 5"));
        assert!(of("{{ x }}", json!({})).is_none());
        assert_eq!(json(of("{{ x | default(3) }}", json!({}))), json!(3));
        assert!(value("n {{ x }}", Slot::Value, &context(&json!({}))).is_err());
    }

    #[test]
    fn work_and_output_are_bounded() {
        let endless = "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}";
        assert!(written(endless, Slot::Text, json!({})).unwrap_err().contains("too much work"));
        let large = "{% for a in range(100) %}{{ x }}{% endfor %}";
        let error = written(large, Slot::Text, json!({"x": "y".repeat(100_000)})).unwrap_err();
        assert!(error.contains("more than 4194304 bytes"), "{error}");
    }

    #[test]
    fn a_mistake_in_a_template_is_found_before_any_call() {
        let known = BTreeSet::from(["issue"]);
        let wrong = |source: &str, slot, wanted: &str| {
            let error = check(source, slot, &known).unwrap_err();
            assert!(error.contains(wanted), "{source}: wanted `{wanted}` in `{error}`");
        };
        wrong("http://a/{{ isue }}", Slot::Url, "did you mean `issue`?");
        wrong("http://a/{{ zzzzzz }}", Slot::Url, "add it to the properties");
        wrong("http://a/{{ issue", Slot::Url, "no valid template");
        wrong("http://a/{{ issue | nope }}", Slot::Url, "nope");
        wrong("http://a/{{ nope(issue) }}", Slot::Url, "`nope` is no argument");
        wrong("http://{{ issue }}/", Slot::Url, "the host is constant");
        wrong("http://a.{{ issue }}.example/", Slot::Url, "the host is constant");
        wrong("http://me@a/", Slot::Url, "wanted a host");
        wrong("{{ issue }}://a/", Slot::Url, "wanted a URL that begins");
        wrong("ftp://a/", Slot::Url, "wanted a URL that begins");
        wrong("http://a/{{ secret('k') }}", Slot::Url, "has no secrets");
        wrong("\u{fdd0}k\u{fdd1}", Slot::Value, "reserved");
        check("Bearer {{ secret('k') }}", Slot::Value, &known).unwrap();
        check("http://a/{% if issue is defined %}{{ issue }}{% endif %}", Slot::Url, &known).unwrap();
    }
}

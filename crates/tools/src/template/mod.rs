//! Templates over the arguments of a call, or over what a hook received. An argument is written so that it stays one value of the place where it stands:
//! in a URL it adds no segment, in a form no field, in JSON no key.
//!
//! `secret("name")` writes only a mark; the secret replaces the mark after the template has done its work, so a template
//! can neither read nor change it. This module must not know requests, and it never sees a secret's value.

mod concat;
mod fields;
mod filters;
pub(crate) mod form;
mod mark;
mod structured;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use agent::config::nearest;
use agent::limits;
use minijinja::value::{Object, ObjectRepr, Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use self::fields::TakenFields;
use self::filters::BoundedText;
pub(crate) use self::mark::{fill, has_mark, names, written};
pub(crate) use self::structured::{check_structured, structured};

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
    /// What an agent reads of a delivery, or a target of what happened. Structured values are written as JSON, what is absent is
    /// empty; no secrets.
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
    let rewritten = concat::rewritten(source);
    let template = environment.template_from_str(&rewritten).map_err(|error| not_compiled(&error))?;
    for name in template.undeclared_variables(false) {
        match name.as_str() {
            "secret" if slot.has_secrets() => {}
            "secret" if slot == Slot::Event => {
                return Err("agents and others read this, so it has no secrets".into());
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

/// Checks an expression that says yes or no, as [`check`] does a template.
pub(crate) fn check_rule(rule: &str, known: &BTreeSet<&str>) -> Result<(), String> {
    let source = concat::rewritten_expression(rule);
    environment(Slot::Event).compile_expression(&source).map_err(|error| not_compiled(&error))?;
    check(&format!("{{{{ {rule} }}}}"), Slot::Event, known)
}

/// Checks that a template takes single fields of a body. The error says what else it takes.
pub(crate) fn check_fields(source: &str) -> Result<(), String> {
    let rewritten = concat::rewritten(source);
    let environment = environment(Slot::Event);
    let template = environment.template_from_str(&rewritten).map_err(|error| not_compiled(&error))?;
    let what = match template.undeclared_variables(false).contains("headers") {
        true => "`headers` are verified by no signature".to_owned(),
        false => match fields_of(source, context(&serde_json::json!({}))) {
            // Without a body it can fail in many ways that a delivery does not.
            Ok(_) | Err(NoFields::NotWritten) => return Ok(()),
            Err(NoFields::Beyond(what)) => what,
        },
    };
    Err(format!(
        "{what}: that of a trusted hook takes single fields\nhint: such as `{{{{ body.service }}}}: {{{{ body.error_rate }}}}`"
    ))
}

/// Why what a template writes of a body is not made of plain fields alone.
pub(crate) enum NoFields {
    /// It takes more than that.
    Beyond(String),
    /// It cannot be written with single fields.
    NotWritten,
}

/// What a template makes of single plain fields of a body; `None` if that is nothing.
pub(crate) fn fields_of(source: &str, body: Value) -> Result<Option<serde_json::Value>, NoFields> {
    let taken = TakenFields::default();
    let context = minijinja::context! { body => taken.watch("body", body) };
    let written = value(source, Slot::Event, &context);
    let written = written.and_then(|value| value.map(|value| json_of(&value)).transpose());
    match (taken.beyond(), written) {
        (Some(what), _) => Err(NoFields::Beyond(what)),
        (None, Err(_)) => Err(NoFields::NotWritten),
        (None, Ok(written)) => Ok(written),
    }
}

/// A value that a template has made, as JSON.
pub(crate) fn json_of(value: &Value) -> Result<serde_json::Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
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
    let source = concat::rewritten(source);
    let template = environment.template_from_str(&source).map_err(|error| not_compiled(&error))?;
    let mut written = BoundedText::default();
    template
        .render_captured_to(context.clone(), &mut written)
        .map_err(|error| not_written(&error, &source))?;
    String::from_utf8(written.0).map_err(|error| error.to_string())
}

/// The value of a template that is a single expression, `None` if an argument is absent; of any other its text.
pub(crate) fn value(source: &str, slot: Slot, context: &Value) -> Result<Option<Value>, String> {
    let Some(expression) = single(source) else {
        return text(source, slot, context).map(|text| Some(text.into()));
    };
    let environment = environment(slot);
    let source = concat::rewritten_expression(expression);
    let compiled = environment.compile_expression(&source).map_err(|error| not_compiled(&error))?;
    let value = compiled.eval(context.clone()).map_err(|error| not_written(&error, &source))?;
    if value.is_undefined() {
        return Ok(None);
    }
    filters::check_size(&value).map_err(|error| not_written(&error, &source))?;
    Ok(Some(value))
}

/// Whether an expression is true; one about something that is absent is not.
pub(crate) fn is_true(expression: &str, context: &Value) -> Result<bool, String> {
    let environment = environment(Slot::Event);
    let source = concat::rewritten_expression(expression);
    let compiled = environment.compile_expression(&source).map_err(|error| not_compiled(&error))?;
    compiled.eval(context.clone()).map(|value| value.is_true()).map_err(|error| not_written(&error, &source))
}

/// A value as the text of a header or a parameter: `true` and numbers as JSON has them.
pub(crate) fn scalar(value: &Value) -> Result<String, String> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Number | ValueKind::Bool => filters::json(value, 0).map_err(|error| words(&error)),
        _ if value.downcast_object_ref::<Encoded>().is_some() => Ok(value.to_string()),
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
    // What one kind of event has, another has not; an argument that is absent is a mistake.
    environment.set_undefined_behavior(match slot {
        Slot::Event => UndefinedBehavior::Chainable,
        _ => UndefinedBehavior::Strict,
    });
    // Errors know what in the template they are about.
    environment.set_debug(true);
    environment.set_fuel(Some(limits::TEMPLATE_FUEL));
    environment.set_recursion_limit(limits::JSON_DEPTH_MAX);
    // What a block has gathered is encoded already: the engine marks it as safe.
    environment.set_auto_escape_callback(move |_| match slot {
        Slot::Url | Slot::Form => AutoEscape::Custom("encoded".into()),
        Slot::Value | Slot::Text | Slot::JsonText | Slot::Event => AutoEscape::None,
    });
    environment.set_formatter(move |out, state: &mut State, value| write(out, state, slot, value));
    filters::install(&mut environment);
    if slot.has_secrets() {
        environment.add_function("secret", |name: String| mark::of(&name).map_err(refused));
    }
    environment
}

fn write(out: &mut Output<'_>, state: &State<'_, '_>, slot: Slot, value: &Value) -> Result<(), Error> {
    let text = match slot {
        Slot::JsonText if !value.is_undefined() => filters::json(value, 0)?,
        Slot::Text | Slot::Event | Slot::JsonText => filters::text(state, value)?,
        Slot::Url | Slot::Value | Slot::Form if value.is_undefined() => return Err(filters::absent(value)),
        Slot::Url | Slot::Value | Slot::Form => scalar(value).map_err(refused)?,
    };
    let is_encoded = value.is_safe() || value.downcast_object_ref::<Encoded>().is_some();
    let text = match slot {
        Slot::Form | Slot::Url if is_encoded && !text.is_empty() => text,
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

/// A text that the filter `urlencode` has encoded: it is not encoded again.
#[derive(Debug)]
struct Encoded(String);

impl Object for Encoded {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The expression at this range, with what it is a part of in front.
fn named(source: &str, range: Range<usize>) -> Option<&str> {
    let before = source.get(..range.start)?;
    if before.trim_end().ends_with('|') {
        // A filter: the value that it is given stands in front.
        let begin = before.rfind(['{', '%']).map_or(0, |at| at + 1);
        return source.get(begin..range.end).map(|what| what.trim_matches([' ', '-', '+']));
    }
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '\'' | '"');
    let begin = if source[range.start..].starts_with(['.', '[']) {
        before.trim_end_matches(is_part).len()
    } else {
        range.start
    };
    source.get(begin..range.end).map(str::trim)
}

/// Why a template cannot be written. What is absent is named as the source does.
fn not_written(error: &Error, source: &str) -> String {
    match error.kind() {
        ErrorKind::UndefinedError => match error.range().and_then(|range| named(source, range)) {
            Some(what) => format!("`{}` is absent", crate::arguments::cut(what)),
            None => words(error),
        },
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
        assert!(written("http://a/{{ x }}", Slot::Url, json!({})).unwrap_err().contains("`x` is absent"));
    }

    #[test]
    fn what_a_block_gathers_is_encoded_once() {
        for (source, wanted) in [
            ("{% set p %}a/{{ x }}{% endset %}{{ p }}", "a/1%202%2F3"),
            ("{% set p %}{% set q %}{{ x }}{% endset %}{{ q }}{% endset %}{{ p }}", "1%202%2F3"),
            ("{% set p %}{{ x }}{% endset %}{{ p | upper }}{{ p ~ '/' }}", "1%202%2F31%202%2F3%2F"),
            ("{% set p %}{{ x }}{% endset %}{{ [p, x] | join('/') }}", "1%202%2F3%2F1%202%2F3"),
            ("{% set p %}{{ x }}{% endset %}{{ p | urlencode }}{{ p | safe }}", "1%202%2F31%202%2F3"),
            ("{% filter replace('1', '&') %}{{ x }}{% endfilter %}", "%26%202%2F3"),
            ("{% set p %}{{ x | urlencode }}{% endset %}{{ p }}", "1%202%2F3"),
            ("{% autoescape false %}{{ x }}{% endautoescape %}", "1%202%2F3"),
        ] {
            let arguments = json!({"x": "1 2/3"});
            assert_eq!(written(source, Slot::Form, arguments.clone()).unwrap(), wanted, "{source}");
            let url = written(&format!("http://a/{source}"), Slot::Url, arguments).unwrap();
            assert_eq!(url, format!("http://a/{wanted}"), "{source}");
        }
        let marked = "{% set p %}k={{ secret('k') }}{{ x }}{% endset %}{{ p }}";
        let wanted = format!("k={}%25%26", mark::of("k").unwrap());
        assert_eq!(written(marked, Slot::Form, json!({"x": "%&"})).unwrap(), wanted);
        assert_eq!(
            written("{% set p %}{{ x }}{% endset %}{{ p }}", Slot::Text, json!({"x": "%41"})).unwrap(),
            "%41"
        );
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
    fn truth_values_and_numbers_are_written_as_json_has_them_in_every_place() {
        let values = [
            ("true", "true"),
            ("false", "false"),
            ("7", "7"),
            ("-0.0", "-0.0"),
            ("0.1", "0.1"),
            ("1e300", "1e+300"),
            ("2.0", "2.0"),
            ("18446744073709551615", "18446744073709551615"),
            ("[true,null,1.5]", "[true,null,1.5]"),
            ("{\"a\":false}", "{\"a\":false}"),
        ];
        for (given, wanted) in values {
            let arguments: serde_json::Value = serde_json::from_str(&format!("{{\"x\":{given}}}")).unwrap();
            let is_plain = !given.starts_with(['[', '{']);
            for slot in [Slot::Text, Slot::Event, Slot::JsonText, Slot::Value, Slot::Form, Slot::Url] {
                let begin = if slot == Slot::Url { "http://a/" } else { "" };
                let all = [
                    "{{ x }}",
                    "{{ x | string }}",
                    "{{ '' ~ x }}",
                    "{% set y %}{{ x }}{% endset %}{{ y }}",
                    "{{ [x] | join }}",
                    "{{ x | tojson }}",
                    "{{ '%s' | format(x) }}",
                    "{{ '%(a)s' | format(a=x) }}",
                    "{{ x | trim }}",
                    "{{ x | lower }}",
                    "{{ 'y' | replace('y', x) }}",
                    "{{ [x] | map('string') | first }}",
                    "{% filter trim %}{{ x }}{% endfilter %}",
                    "{{ (x | split('#'))[0] }}",
                    "{{ x | e | replace('&#34;', '\"') | replace('&quot;', '\"') }}",
                ];
                for source in all {
                    // Structured values stand in no URL and no form by themselves; numbers are formatted as the template says.
                    let by_itself = source == "{{ x }}" || source.contains("{{ x }}{% end");
                    let is_refused =
                        !is_plain && by_itself && !matches!(slot, Slot::Text | Slot::Event | Slot::JsonText);
                    let formats = source.contains("format")
                        && given.starts_with(|c: char| c.is_ascii_digit() || c == '-');
                    let written = written(&format!("{begin}{source}"), slot, arguments.clone());
                    // What a block has written is encoded already.
                    let is_block = source.contains("{{ x }}{% end") && matches!(slot, Slot::Form | Slot::Url);
                    if is_refused || formats || is_block {
                        continue;
                    }
                    let written =
                        written.unwrap_or_else(|why| panic!("{source} with {given} in {slot:?}: {why}"));
                    let written = written.strip_prefix(begin).unwrap();
                    let text = match slot {
                        Slot::JsonText => match serde_json::from_str(written)
                            .unwrap_or_else(|_| panic!("{source}: {written}"))
                        {
                            serde_json::Value::String(text) => text,
                            other if source == "{{ x }}" => other.to_string(),
                            other => panic!("{source}: {other}"),
                        },
                        Slot::Form | Slot::Url => {
                            percent_encoding::percent_decode_str(written).decode_utf8_lossy().into_owned()
                        }
                        _ => written.to_owned(),
                    };
                    assert_eq!(text, wanted, "{source} in {slot:?}");
                }
            }
        }
    }

    #[test]
    fn an_encoded_text_is_not_encoded_twice_and_an_object_becomes_a_form() {
        let arguments = json!({"x": "a b&c", "o": {"k": [1, true], "t": "ä"}});
        let check = |source: &str, slot, wanted: &str| {
            assert_eq!(written(source, slot, arguments.clone()).unwrap(), wanted)
        };
        check("{{ x | urlencode }}", Slot::Text, "a%20b%26c");
        check("q={{ x | urlencode }}", Slot::Form, "q=a%20b%26c");
        check("http://a/{{ x | urlencode }}", Slot::Url, "http://a/a%20b%26c");
        check("{{ o | urlencode }}", Slot::Form, "k=1&k=true&t=%C3%A4");
        check("{{ (x | urlencode) ~ '&' }}", Slot::Form, "a%2520b%2526c%26");
        check("{{ x | urlencode | upper }}", Slot::Text, "A%20B%26C");
        check("{{ x | urlencode }}", Slot::JsonText, "\"a%20b%26c\"");
        assert_eq!(
            value("{{ x | urlencode }}", Slot::Value, &context(&arguments)).unwrap().unwrap().to_string(),
            "a%20b%26c"
        );
    }

    #[test]
    fn what_is_absent_is_named_and_in_an_event_it_is_empty() {
        let data = json!({"body": {"ref": "main", "n": 5}});
        for (source, wanted) in [
            ("{{ body.ref }} {{ body.pull.title }}", "`body.pull.title` is absent"),
            ("{{ body.gone }}", "`body.gone` is absent"),
            ("{{ body.gone | upper }}", "`body.gone"),
            ("{{ 'x' ~ body.gone }}", "body.gone"),
            ("{% for c in body.commits %}{% endfor %}x", "`body.commits` is absent"),
        ] {
            let why = written(source, Slot::Text, data.clone()).unwrap_err();
            assert!(why.contains(wanted) && why.contains("is absent"), "{source}: {why}");
        }
        for (source, wanted) in [
            ("{{ body.ref }}: {{ body.pull.title }}", "main: "),
            ("{{ body.gone.deeper | upper }}{{ body.gone ~ '!' }}{{ body.list | join(', ') }}", "!"),
            ("{% for c in body.commits %}{{ c }}{% endfor %}{{ body.n }}", "5"),
            ("{{ body.gone | default('none') }}", "none"),
        ] {
            assert_eq!(written(source, Slot::Event, data.clone()).unwrap(), wanted, "{source}");
        }
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

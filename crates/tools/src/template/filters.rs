//! Filters that make texts, in place of the engine's own: what is no text is written as JSON and not in Python's way, and what
//! one filter builds is bounded while it is written. Must not know what a template is for.

use std::borrow::Cow;
use std::io;
use std::sync::LazyLock;

use agent::limits;
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use percent_encoding::percent_decode_str;
use serde::Serialize as _;
use serde_json::Serializer;
use serde_json::ser::PrettyFormatter;

use super::mark::around;
use super::{Encoded, form, percent_encoded};

/// Of the engine's filters those whose arguments are made texts before it runs them.
const BY_TEXT: [&str; 12] = [
    "capitalize",
    "e",
    "escape",
    "format",
    "indent",
    "lines",
    "lower",
    "replace",
    "split",
    "title",
    "trim",
    "upper",
];

/// The engine's own filters, each use with a limit of work.
static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_fuel(Some(limits::TEMPLATE_FUEL));
    environment
});

/// Replaces the engine's filters.
pub(super) fn install(environment: &mut Environment<'_>) {
    for name in BY_TEXT {
        environment.add_filter(name, move |state: &State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            let texts = arguments.iter().enumerate().map(|(at, value)| match at {
                0 => text(state, value).map(Value::from),
                // What is replaced, and by what.
                1 | 2 if name == "replace" && !value.is_kwargs() => text(state, value).map(Value::from),
                _ => argument(state, value),
            });
            let texts = texts.collect::<Result<Vec<_>, _>>()?;
            let done = ENGINE.empty_state().apply_filter(name, &texts)?;
            // What the engine takes for safe is so in HTML alone.
            Ok::<_, Error>(if done.is_safe() { Value::from(done.as_str().unwrap_or_default()) } else { done })
        });
    }
    environment.add_filter("string", |state: &State<'_, '_>, value: Value| text(state, &value));
    environment.add_filter("safe", |state: &State<'_, '_>, value: Value| text(state, &value));
    environment.add_filter("pprint", |value: Value| json(&value, 2));
    environment.add_filter("tojson", to_json);
    environment.add_filter("join", join);
    environment.add_filter("urlencode", url_encode);
}

/// An argument of a filter that takes texts. Numbers may be widths, and are no texts then.
fn argument(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    if value.is_kwargs() {
        let named = Kwargs::try_from(value.clone())?;
        let names: Vec<String> = named.args().map(str::to_owned).collect();
        let pair = |name: String| {
            let value = named.get::<Value>(&name)?;
            // `first` and `blank` of `indent` are truth values.
            let is_switch = matches!(name.as_str(), "first" | "blank");
            let value = if is_switch { value } else { argument(state, &value)? };
            Ok::<_, Error>((name, value))
        };
        return Ok(names.into_iter().map(pair).collect::<Result<Kwargs, _>>()?.into());
    }
    match value.kind() {
        ValueKind::String | ValueKind::Number => Ok(value.clone()),
        _ => text(state, value).map(Value::from),
    }
}

/// A value as a text: a text as it is, what a block has gathered as it was before, anything else as JSON.
pub(super) fn text(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined if state.undefined_behavior() == UndefinedBehavior::Chainable => {
            Ok(String::new())
        }
        ValueKind::Undefined => Err(absent(value)),
        ValueKind::String if value.is_safe() => {
            let encoded = value.as_str().unwrap_or_default();
            let decoded = percent_decode_str(encoded).decode_utf8();
            Ok(decoded.map_or_else(|_| encoded.to_owned(), Cow::into_owned))
        }
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        _ if value.downcast_object_ref::<Encoded>().is_some() => Ok(value.to_string()),
        _ => json(value, 0),
    }
}

/// The engine's own error for a value that is absent: it knows where in the template that stands.
pub(super) fn absent(value: &Value) -> Error {
    value.get_attr("").err().unwrap_or_else(|| ErrorKind::UndefinedError.into())
}

fn to_json(value: Value, indent: Option<Value>, named: Kwargs) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => indent,
        None => named.get::<Option<Value>>("indent")?.unwrap_or_default(),
    };
    named.assert_all_used()?;
    let indent = match (indent.kind(), indent.as_usize()) {
        (ValueKind::Undefined | ValueKind::None, _) => 0,
        (ValueKind::Bool, _) => usize::from(indent.is_true()) * 2,
        (_, Some(indent)) if indent <= limits::TEMPLATE_INDENT_MAX => indent,
        _ => {
            let most = limits::TEMPLATE_INDENT_MAX;
            return Err(refused(format!("wanted an `indent` of at most {most}")));
        }
    };
    json(&value, indent)
}

/// A value as JSON, in lines if there is an indent.
pub(super) fn json(value: &Value, indent: usize) -> Result<String, Error> {
    if f64::try_from(value.clone()).is_ok_and(|number| !number.is_finite()) {
        return Err(refused("this is a number that JSON cannot have".to_owned()));
    }
    let mut written = BoundedText::default();
    let spaces = " ".repeat(indent);
    let done = match indent {
        0 => value.serialize(&mut Serializer::new(&mut written)),
        _ => value.serialize(&mut Serializer::with_formatter(
            &mut written,
            PrettyFormatter::with_indent(spaces.as_bytes()),
        )),
    };
    done.map_err(|error| not_json(&error))?;
    Ok(String::from_utf8(written.0).unwrap_or_default())
}

/// Refuses a value that would be longer as JSON than a template may write.
pub(super) fn check_size(value: &Value) -> Result<(), Error> {
    value.serialize(&mut Serializer::new(&mut Counted::default())).map_err(|error| not_json(&error))
}

fn not_json(error: &serde_json::Error) -> Error {
    if error.is_io() { ErrorKind::WriteFailure.into() } else { refused(error.to_string()) }
}

fn join(state: &State<'_, '_>, value: Value, joiner: Option<Value>, named: Kwargs) -> Result<String, Error> {
    let joiner = match joiner {
        Some(joiner) => Some(joiner),
        None => named.get::<Option<Value>>("d")?,
    };
    let joiner = joiner.map(|joiner| text(state, &joiner)).transpose()?.unwrap_or_default();
    let attribute: Option<String> = named.get("attribute")?;
    named.assert_all_used()?;
    let mut joined = String::new();
    if value.is_undefined() {
        return text(state, &value);
    }
    for (index, mut item) in value.try_iter()?.enumerate() {
        state.consume_fuel(1)?;
        for name in attribute.iter().flat_map(|path| path.split('.')) {
            item = item.get_attr(name)?;
        }
        if index > 0 {
            joined.push_str(&joiner);
        }
        joined.push_str(&text(state, &item)?);
        if joined.len() > limits::TEMPLATE_OUTPUT_MAX_BYTES {
            return Err(ErrorKind::WriteFailure.into());
        }
    }
    Ok(joined)
}

/// Percent-encodes a text; of an object the pairs of a form, nested ones with brackets.
fn url_encode(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    let encoded = if value.kind() == ValueKind::Map {
        check_size(&value)?;
        let value = serde_json::to_value(&value).map_err(|error| not_json(&error))?;
        form::written(&value).map_err(refused)?
    } else {
        around(&text(state, &value)?, percent_encoded)
    };
    Ok(Value::from_object(Encoded(encoded)))
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

/// Takes bytes up to what a template may write.
#[derive(Default)]
pub(super) struct BoundedText(pub(super) Vec<u8>);

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

/// The same without keeping them.
#[derive(Default)]
struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 > limits::TEMPLATE_OUTPUT_MAX_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::template::{Slot, context, text};

    /// Filters of the engine that hand on or count values and make no texts of them.
    const HAND_ON: [&str; 28] = [
        "abs",
        "attr",
        "batch",
        "bool",
        "chain",
        "count",
        "d",
        "default",
        "dictsort",
        "first",
        "float",
        "groupby",
        "int",
        "items",
        "last",
        "length",
        "list",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "reverse",
        "round",
        "select",
        "selectattr",
        "slice",
        "sort",
    ];
    const HAND_ON_TOO: [&str; 3] = ["sum", "unique", "zip"];
    const OURS: [&str; 6] = ["join", "pprint", "safe", "string", "tojson", "urlencode"];

    /// The filters that an environment has.
    fn names(environment: &Environment<'_>) -> Vec<String> {
        let shown = format!("{environment:?}");
        let (_, filters) = shown.split_once("filters: ").expect("the engine shows its filters");
        let filters = &filters[..filters.find([']', '}']).expect("an end")];
        filters.split('"').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_filter_of_the_engine_is_known_here() {
        let engine = names(&Environment::new());
        assert!(engine.len() > 40, "{engine:?}");
        for name in &engine {
            let known = [&BY_TEXT[..], &HAND_ON, &HAND_ON_TOO, &OURS].concat();
            assert!(
                known.contains(&name.as_str()),
                "`{name}`: does it make a text? Then it belongs to `BY_TEXT`"
            );
        }
    }

    #[test]
    fn no_filter_builds_more_than_a_template_may_write() {
        let mut environment = Environment::new();
        install(&mut environment);
        let rows: Vec<_> = (0..200).map(|n| serde_json::json!([[[[{"a": n, "b": [true, null]}]]]])).collect();
        let data =
            context(&serde_json::json!({"x": rows, "t": "a\n".repeat(10_000), "s": "y".repeat(20_000)}));
        let uses = [
            "tojson(indent=100000)",
            "tojson(100000)",
            "tojson(indent=16)",
            "indent(width=100000)",
            "indent(1000000, true)",
            "replace('a', s)",
            "join(s)",
            "replace('', s)",
            "format(1)",
            "pprint",
            "string",
            "urlencode",
            "split('a') | join(s)",
            "map('string') | join(s)",
            "batch(1000000000, s) | list | join",
            "lines | map('indent', 100000, true) | join",
        ];
        let applied = names(&environment).into_iter().chain(uses.map(str::to_owned));
        for name in applied {
            for source in ["x", "t", "'%1000000000d' ~ s", "range(100000)"] {
                let began = Instant::now();
                let source = format!("{{% set y = {source} | {name} %}}{{{{ y | string | length }}}}");
                let written = text(&source, Slot::Text, &data);
                if let Ok(length) = written {
                    let most = limits::TEMPLATE_OUTPUT_MAX_BYTES
                        .max(usize::try_from(limits::TEMPLATE_FUEL).unwrap() * 64);
                    assert!(length.parse::<usize>().is_ok_and(|length| length <= most), "{source}: {length}");
                }
                assert!(began.elapsed() < Duration::from_secs(20), "{source} took {:?}", began.elapsed());
            }
        }
    }

    #[test]
    fn a_value_that_contains_itself_many_times_is_refused_wherever_it_would_become_a_text() {
        let twice = "{% set ns = namespace(a=['x']) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}";
        let ends = ["ns.a ~ 1", "[ns.a] | join(',')", "'%(a)s' | format(a=ns.a)"];
        for end in ends {
            let source = format!("{twice}{{{{ {end} }}}}");
            let error = text(&source, Slot::Text, &context(&serde_json::json!({}))).expect_err(end);
            assert!(error.contains("writes more than") || error.contains("too much work"), "{end}: {error}");
        }
    }
}

//! One operation as a declaration: its parameters and body as arguments, its security as names of secrets. Must not know
//! how operations are chosen.

use std::collections::BTreeMap;

use agent::call::Effect;
use agent::limits;
use reqwest::Url;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::schema::{Copier, beginning, followed};
use super::{body, parameter};
use crate::declare::{self, Declaration, HttpDeclaration};

/// Longest name of a tool or a secret.
const NAME_MAX: usize = 64;

/// An operation where it stands in the document.
pub(super) struct Operation<'a> {
    pub(super) path: &'a str,
    pub(super) method: &'static str,
    pub(super) item: &'a Value,
    pub(super) operation: &'a Value,
}

/// The arguments of a tool while they are gathered.
#[derive(Default)]
pub(super) struct Arguments<'a> {
    /// Name, schema, description, whether it is required.
    found: Vec<(String, &'a Value, Option<&'a str>, bool)>,
}

impl<'a> Arguments<'a> {
    /// Adds an argument and returns its name, which templates can use. A name that is taken gets this word before it.
    pub(super) fn add(
        &mut self,
        name: &str,
        word: &str,
        schema: &'a Value,
        description: Option<&'a str>,
        required: bool,
    ) -> String {
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let mut argument =
            if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("_{plain}") } else { plain };
        while argument.is_empty() || self.found.iter().any(|(known, ..)| *known == argument) {
            argument = format!("{word}_{argument}");
        }
        self.found.push((argument.clone(), schema, description, required));
        argument
    }

    /// One schema for all, as deep as its limit of bytes allows.
    fn schema(&self, document: &'a Value) -> Result<Value, String> {
        let required: Vec<&str> =
            self.found.iter().filter(|argument| argument.3).map(|argument| argument.0.as_str()).collect();
        for depth in (1..=limits::OPENAPI_DEPTH_MAX).rev() {
            let mut copier = Copier::new(document, depth);
            let mut properties = Map::new();
            for (name, schema, description, _) in &self.found {
                let mut copied = copier.copy(schema);
                if let (Some(text), Some(map)) = (description, copied.as_object_mut()) {
                    map.insert("description".to_owned(), Value::String(beginning(text)));
                }
                properties.insert(name.clone(), copied);
            }
            let schema = json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            });
            if !copier.is_used_up() && schema.to_string().len() <= limits::TOOL_SCHEMA_MAX_BYTES {
                return Ok(schema);
            }
        }
        Err(format!("its arguments need more than {} bytes of schema", limits::TOOL_SCHEMA_MAX_BYTES))
    }
}

impl<'a> Operation<'a> {
    /// The declaration, or what stands in its way. What cannot be declared and may be left out is added to `left_out`.
    pub(super) fn declare(
        &self,
        document: &'a Value,
        server: Option<&str>,
        left_out: &mut Vec<String>,
    ) -> Result<Declaration, Vec<String>> {
        let mut arguments = Arguments::default();
        let built = self.request(document, server, &mut arguments, left_out);
        let http = built.map_err(|why| vec![why])?;
        let declaration = Declaration {
            name: self.name(),
            description: self.description(),
            input: arguments.schema(document).map_err(|why| vec![why])?,
            effect: match self.method {
                "get" | "head" => Effect::ReadOnly,
                "put" | "delete" => Effect::Idempotent,
                _ => Effect::Unsafe,
            },
            http: Some(http),
            ..Declaration::default()
        };
        let wrong = declare::check(&declaration, &[]);
        if wrong.is_empty() {
            return Ok(declaration);
        }
        let words = |(key, why): (Option<String>, String)| format!("`{}`: {why}", key.unwrap_or_default());
        Err(wrong.into_iter().map(words).collect())
    }

    fn name(&self) -> String {
        let id = self.operation["operationId"].as_str().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name: String = id.chars().map(plain).collect();
        if name.len() <= NAME_MAX {
            return name;
        }
        // Long ids often differ only at their end.
        let digest = Sha256::digest(id.as_bytes());
        let end = agent::id::hex(&digest[..4]);
        format!("{}_{end}", &name[..NAME_MAX - end.len() - 1])
    }

    fn description(&self) -> String {
        let texts =
            ["summary", "description"].map(|key| beginning(self.operation[key].as_str().unwrap_or_default()));
        let [summary, description] = texts;
        match (summary.is_empty(), description.is_empty()) {
            (true, true) => format!("{} {}", self.method.to_uppercase(), self.path),
            (false, false) if summary != description => {
                format!("{}. {description}", summary.trim_end_matches('.'))
            }
            (false, _) => summary,
            (true, false) => description,
        }
    }

    fn request(
        &self,
        document: &'a Value,
        server: Option<&str>,
        arguments: &mut Arguments<'a>,
        left_out: &mut Vec<String>,
    ) -> Result<HttpDeclaration, String> {
        let mut http = HttpDeclaration { method: self.method.to_uppercase(), ..HttpDeclaration::default() };
        let mut path = self.path.to_owned();
        for given in self.parameters(document) {
            match parameter::write(document, given, arguments, &mut http, &mut path) {
                Err(why) if parameter::is_required(given) => return Err(why),
                written => left_out.extend(written.err()),
            }
        }
        left_out.extend(body::write(document, self.operation, arguments, &mut http)?);
        let server = self.server(document, server)?;
        self.security(document, &server, &mut http)?;
        http.headers.entry("accept".to_owned()).or_insert_with(|| "application/json".to_owned());
        http.url = format!("{server}{path}");
        Ok(http)
    }

    /// The parameters of the path and of the operation; the latter replace the former.
    fn parameters(&self, document: &'a Value) -> Vec<&'a Value> {
        let mut found: Vec<&Value> = Vec::new();
        for parameter in
            [self.item, self.operation].iter().flat_map(|of| of["parameters"].as_array()).flatten()
        {
            let parameter = followed(document, parameter);
            let same = |known: &&Value| known["name"] == parameter["name"] && known["in"] == parameter["in"];
            match found.iter().position(same) {
                Some(index) => found[index] = parameter,
                None => found.push(parameter),
            }
        }
        found
    }

    /// The first way of proving who asks: its secrets are named after the server and the schemes.
    fn security(&self, document: &Value, server: &str, http: &mut HttpDeclaration) -> Result<(), String> {
        let own = self.operation.get("security").unwrap_or(&document["security"]);
        let schemes = &document["components"]["securitySchemes"];
        for name in own[0].as_object().into_iter().flat_map(Map::keys) {
            let scheme = followed(document, &schemes[name]);
            let secret = secret_name(server, name)?;
            let mut others =
                schemes.as_object().into_iter().flat_map(Map::keys).filter(|other| *other != name);
            if let Some(other) = others.find(|other| secret_name(server, other).as_ref() == Ok(&secret)) {
                return Err(format!(
                    "its security `{name}` and `{other}` would both use the secret `{secret}`"
                ));
            }
            let secret = format!("{{{{ secret(\"{secret}\") }}}}");
            let kind = scheme["type"].as_str().unwrap_or_default();
            let place =
                (scheme["in"].as_str().unwrap_or_default(), scheme["name"].as_str().unwrap_or_default());
            let (header, value) = match (kind, place) {
                ("apiKey", ("query", key)) => {
                    http.query.insert(key.to_owned(), secret);
                    continue;
                }
                ("apiKey", ("header", header)) => (header.to_owned(), secret),
                ("apiKey", ("cookie", key)) => ("cookie".to_owned(), format!("{key}={secret}")),
                ("http", _) if scheme["scheme"].as_str().is_some_and(|s| s.eq_ignore_ascii_case("basic")) => {
                    ("authorization".to_owned(), format!("Basic {secret}"))
                }
                ("http" | "oauth2" | "openIdConnect", _) => {
                    ("authorization".to_owned(), format!("Bearer {secret}"))
                }
                _ => {
                    return Err(format!(
                        "its security `{name}` is of the kind `{kind}`, which cannot be declared"
                    ));
                }
            };
            http.headers.insert(header, value);
        }
        Ok(())
    }

    /// The server without a slash at its end, its variables replaced by their defaults.
    fn server(&self, document: &Value, wanted: Option<&str>) -> Result<String, String> {
        if let Some(server) = wanted {
            return Ok(server.trim_end_matches('/').to_owned());
        }
        let named = [self.operation, self.item, document].into_iter().map(|of| &of["servers"][0]);
        let server = named.into_iter().find(|server| server["url"].is_string()).unwrap_or(&Value::Null);
        let mut url = server["url"].as_str().unwrap_or_default().to_owned();
        let variables: BTreeMap<&String, &Value> =
            server["variables"].as_object().into_iter().flatten().collect();
        for (name, variable) in variables {
            url = url.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or_default());
        }
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(format!(
                "the document names no server with a full URL, got `{url}`\nhint: name the server"
            ));
        }
        Ok(url.trim_end_matches('/').to_owned())
    }
}

/// A secret's name begins with its server, so that a document asks for no secret of another one: no two servers have the same beginning,
/// and what follows its last dot is the document's word for it.
fn secret_name(server: &str, scheme: &str) -> Result<String, String> {
    let url = Url::parse(server).map_err(|error| format!("`{server}` is no URL: {error}"))?;
    // A secret for an encrypted connection is not one for a plain one.
    let port = url.port().or((url.scheme() != "https").then_some(80));
    let port = port.map(|port| format!(".{port}")).unwrap_or_default();
    // Hosts have no capital letters, and no number as their last part unless they are addresses.
    let host = url.host_str().unwrap_or_default();
    let host = match host.strip_prefix('[').and_then(|address| address.strip_suffix(']')) {
        Some(address) => format!("IP6.{}", address.replace(':', "-")),
        None => host.to_owned(),
    };
    if let Some(odd) = host.chars().find(|&c| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_')) {
        return Err(format!(
            "it wants a secret, whose name cannot begin with `{host}`, because of its `{odd}`"
        ));
    }
    let server = format!("{host}{port}");
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '_' };
    let room = NAME_MAX.checked_sub(server.len() + 1).filter(|room| *room > 0);
    let room = room.ok_or_else(|| {
        format!(
            "it wants a secret, whose name would begin with `{server}`, longer than {NAME_MAX} characters"
        )
    })?;
    Ok(format!("{server}.{}", scheme.chars().map(plain).take(room).collect::<String>()))
}

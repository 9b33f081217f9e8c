//! The OpenAPI 3.1 document: adds what all operations have in common. Must not know individual routes.

use agent::limits;
use bytes::Bytes;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, Ref, RefOr, Required};
use utoipa::{PartialSchema, ToSchema};

use crate::auth::Access;
use crate::problem::{Code, ProblemBody};

const SCHEME: &str = "bearer";

const ABOUT: &str = "\
A runtime for AI agents. An agent sleeps until an event arrives in its durable inbox, then works on it step by \
step, posts messages in spaces and sleeps again.\n\n\
Where a path contains an agent, an entity or a space, use its id or its handle. Lists are paged: pass `next` of \
one page as `cursor`, with the same filters, to get the next page. Every POST takes an `Idempotency-Key`: sent again \
with the same key and body it has no second effect and gets the same result, as it is now. Keys belong to the \
person or to all administrators, and are kept for as long as the server's data. Every error is a problem document with a stable `code`.";

/// Adds the access policy, the security requirement and the error response to the operations of a path.
pub(crate) fn mark(item: &mut PathItem, access: Access) {
    for operation in operations(item) {
        // Several modules have a handler `list`; the tag makes the operation id unique.
        if let (Some(tag), Some(name)) =
            (operation.tags.iter().flatten().next().cloned(), operation.operation_id.as_mut())
        {
            *name = format!("{tag}_{name}");
        }
        let policy = ExtensionsBuilder::new().add("x-access", access.as_str()).build();
        operation.extensions.get_or_insert_default().merge(policy);
        operation.security = Some(match access {
            Access::Public => Vec::new(),
            _ => vec![SecurityRequirement::new(SCHEME, Vec::<String>::new())],
        });
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemBody::name()))).build();
        let response = ResponseBuilder::new()
            .description("An error; `code` is the reason.")
            .content("application/problem+json", body)
            .build();
        operation.responses.responses.insert("default".to_owned(), response.into());
    }
    if let Some(post) = &mut item.post {
        post.parameters.get_or_insert_default().push(idempotency_key().into());
    }
}

/// The header that every POST takes.
fn idempotency_key() -> Parameter {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(limits::KEY_MAX_BYTES));
    ParameterBuilder::new()
        .name("idempotency-key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("Printable ASCII, chosen by the client. The same request sent again with it has no second effect."))
        .schema(Some(text))
        .build()
}

/// Whether any operation of the path documents a query parameter.
pub(crate) fn takes_query(item: &mut PathItem) -> bool {
    operations(item).any(|operation| operation.parameters.iter().flatten().any(in_query))
}

fn in_query(parameter: &RefOr<Parameter>) -> bool {
    matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query)
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch]
        .into_iter()
        .filter_map(Option::as_mut)
}

/// The whole document as JSON.
pub(crate) fn finish(mut document: OpenApi, version: &str) -> Bytes {
    document.info = InfoBuilder::new().title("Vivarium").version(version).description(Some(ABOUT)).build();
    let components = document.components.get_or_insert_default();
    let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("An API key")).build();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(key));
    components.schemas.insert(ProblemBody::name().into_owned(), ProblemBody::schema());
    components.schemas.insert(Code::name().into_owned(), Code::schema());
    // Built from types at start, and all of them serialise.
    Bytes::from(serde_json::to_vec(&document).expect("the document serialises"))
}

//! The OpenAPI 3.1 document: what every operation shares is added here. Must not know
//! single routes.

use bytes::Bytes;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::auth::Access;
use crate::problem::{Code, ProblemBody};

const SCHEME: &str = "bearer";

const ABOUT: &str = "\
Living agents: they sleep on a durable inbox, wake when something happens, think, speak in spaces and \
sleep again.\n\n\
Wherever a path takes an agent, an entity or a space, its id or its handle will do. Lists are paged: \
`next` of one page is the `cursor` of the next. `Idempotency-Key` makes a message or an event safe to \
send again. Every refusal is a problem document with a stable `code`.";

/// Writes the policy, the key and the refusals into the operations of a path.
pub(crate) fn mark(item: &mut PathItem, access: Access) {
    for operation in operations(item) {
        // Handlers are named by what they do; the subject makes the name unique.
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
        let refusal = ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemBody::name()))).build();
        let response = ResponseBuilder::new()
            .description("Refused; `code` says why.")
            .content("application/problem+json", refusal)
            .build();
        operation.responses.responses.insert("default".to_owned(), response.into());
    }
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
    // Built from types at start; nothing in it can fail to be JSON.
    Bytes::from(serde_json::to_vec(&document).expect("the document serialises"))
}

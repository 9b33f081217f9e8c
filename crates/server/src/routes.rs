//! The route table. [`Routes::add`] is the only way to add a route, and it requires an access policy
//! (invariant 12). One line yields route, document and guard. A query string is rejected if the document has no
//! parameter for it.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware;
use bytes::Bytes;
use utoipa::openapi::{OpenApi, PathItem};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::app_state::AppState;
use crate::auth::{Access, Guard, guard};
use crate::openapi;
use crate::problem::{Code, Problem};

/// The routes added so far.
pub(crate) struct Routes {
    app: Arc<AppState>,
    router: OpenApiRouter<Arc<AppState>>,
    /// Whether the document is wanted; it is larger than the router by far.
    documented: bool,
}

impl Routes {
    /// An empty table, for the router.
    pub(crate) fn new(app: Arc<AppState>) -> Self {
        let router = OpenApiRouter::with_openapi(OpenApi::default());
        Self { app, router, documented: false }
    }

    /// An empty table, for the document.
    pub(crate) fn documented(app: Arc<AppState>) -> Self {
        Self { documented: true, ..Self::new(app) }
    }

    /// Adds the result of `utoipa_axum::routes!`, behind a guard that enforces `access`. `codes` are the errors of this
    /// route apart from those that routes of its kind have in common.
    #[expect(clippy::disallowed_methods, reason = "the one place that adds routes")]
    pub(crate) fn add(
        self,
        access: Access,
        route: UtoipaMethodRouter<Arc<AppState>>,
        codes: &[Code],
    ) -> Self {
        let (mut schemas, mut paths, methods) = route;
        for (path, item) in &mut paths.paths {
            assert!(
                access != Access::Member || path.contains("{space}"),
                "the route {path} names no space to be a member of"
            );
            openapi::mark(item, access, codes);
        }
        // What mail programs and trackers add to a link does no harm.
        let takes_query = access == Access::Link || paths.paths.values_mut().any(openapi::takes_query);
        if !self.documented {
            schemas.clear();
            paths.paths.values_mut().for_each(|item| *item = PathItem::default());
        }
        let guarded = Guard { app: Arc::clone(&self.app), access, takes_query };
        let methods = methods.route_layer(middleware::from_fn_with_state(guarded, guard));
        Self { router: self.router.routes((schemas, paths, methods)), ..self }
    }

    /// The router.
    pub(crate) fn finish(self) -> Router {
        let (router, _) = self.router.split_for_parts();
        router.fallback(no_route).method_not_allowed_fallback(no_method).with_state(Arc::clone(&self.app))
    }

    /// The document of exactly these routes.
    pub(crate) fn document(self) -> Bytes {
        openapi::finish(self.router.into_openapi(), &self.app.options.version)
    }
}

/// Answers a path that no route has.
pub(crate) async fn no_route(uri: Uri) -> Problem {
    let shown: String = uri.path().chars().take(80).collect();
    Problem::new(Code::NoRoute, format!("there is no route `{shown}`")).hint("see /openapi.json")
}

/// Answers a method that the route does not have.
async fn no_method(method: Method, uri: Uri) -> Problem {
    let shown: String = uri.path().chars().take(80).collect();
    Problem::new(Code::MethodNotAllowed, format!("the route `{shown}` has no method `{method}`"))
}

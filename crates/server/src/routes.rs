//! The route table. A route is added by what it does: [`Routes::read`], [`Routes::list`], [`Routes::change`] or
//! [`Routes::keyless`]. There is no other way, and each requires an access policy (invariant 12). One line yields route,
//! document and guard. A query string is rejected if the document has no parameter for it.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware;
use bytes::Bytes;
use utoipa::openapi::{OpenApi, PathItem};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::app_state::AppState;
use crate::auth::{Access, Guard, guard};
use crate::listing::Listed;
use crate::once::{Done, note_refusal};
use crate::openapi::{self, Kind};
use crate::problem::{Code, Problem};

/// Routes with their part of the document.
pub(crate) type Documented = UtoipaMethodRouter<Arc<AppState>>;

/// The routes added so far.
pub(crate) struct Routes {
    app: Arc<AppState>,
    router: OpenApiRouter<Arc<AppState>>,
    /// Whether the document is wanted; it is larger than the router by far.
    documented: bool,
    probes: Vec<String>,
}

/// A handler that changes something: its answer is [`Done`], so that a repeat of its request is none.
pub(crate) trait Changes<Arguments> {}
/// A handler that answers with a page of a list.
pub(crate) trait Lists<Arguments> {}

macro_rules! of_handlers {
    ($($argument:ident)+) => {
        impl<F, Fut, T, $($argument),+> Changes<($($argument,)+)> for F
        where
            F: Fn($($argument),+) -> Fut,
            Fut: Future<Output = Result<Done<T>, Problem>>,
        {
        }

        impl<F, Fut, T, $($argument),+> Lists<($($argument,)+)> for F
        where
            F: Fn($($argument),+) -> Fut,
            Fut: Future<Output = Result<Listed<T>, Problem>>,
        {
        }
    };
}

of_handlers!(A);
of_handlers!(A B);
of_handlers!(A B C);
of_handlers!(A B C D);
of_handlers!(A B C D E);
of_handlers!(A B C D E G);

/// A route whose handler was checked to change something once.
pub(crate) struct Changing(Documented);
/// A route whose handler was checked to answer with a page.
pub(crate) struct Listing(Documented);

impl Changing {
    pub(crate) fn of<A>(_: impl Changes<A>, route: Documented) -> Self {
        Self(route)
    }
}

impl Listing {
    pub(crate) fn of<A>(_: impl Lists<A>, route: Documented) -> Self {
        Self(route)
    }
}

/// The route of a handler that changes something.
macro_rules! changing {
    ($($handler:tt)+) => {
        $crate::routes::Changing::of($($handler)+, utoipa_axum::routes!($($handler)+))
    };
}

/// The route of a handler that lists something.
macro_rules! listing {
    ($($handler:tt)+) => {
        $crate::routes::Listing::of($($handler)+, utoipa_axum::routes!($($handler)+))
    };
}

pub(crate) use {changing, listing};

impl Routes {
    /// An empty table, for the router.
    pub(crate) fn new(app: Arc<AppState>) -> Self {
        let router = OpenApiRouter::with_openapi(OpenApi::default());
        Self { app, router, documented: false, probes: Vec::new() }
    }

    /// An empty table, for the document.
    pub(crate) fn documented(app: Arc<AppState>) -> Self {
        Self { documented: true, ..Self::new(app) }
    }

    /// Adds a route that changes nothing. `codes` are the errors of this route apart from those that routes of its kind have in
    /// common.
    pub(crate) fn read(self, access: Access, route: Documented, codes: &[Code]) -> Self {
        self.add(access, route, Kind::Reads, codes)
    }

    /// Adds a list.
    pub(crate) fn list(self, access: Access, route: Listing, codes: &[Code]) -> Self {
        self.add(access, route.0, Kind::Lists, codes)
    }

    /// Adds a route that changes something, once for each `Idempotency-Key`.
    pub(crate) fn change(self, access: Access, route: Changing, codes: &[Code]) -> Self {
        let (schemas, paths, methods) = route.0;
        let methods =
            methods.route_layer(middleware::from_fn_with_state(Arc::clone(&self.app), note_refusal));
        self.add(access, (schemas, paths, methods), Kind::Changes, codes)
    }

    /// Adds a route that changes something and takes no `Idempotency-Key`. `why` completes "It takes no key: …".
    pub(crate) fn keyless(
        self,
        access: Access,
        route: Documented,
        why: &'static str,
        codes: &[Code],
    ) -> Self {
        self.add(access, route, Kind::Keyless(why), codes)
    }

    /// Adds the result of `utoipa_axum::routes!`, behind a guard that enforces `access`.
    #[expect(clippy::disallowed_methods, reason = "the one place that adds routes")]
    fn add(mut self, access: Access, route: Documented, kind: Kind, codes: &[Code]) -> Self {
        let (mut schemas, mut paths, methods) = route;
        for (path, item) in &mut paths.paths {
            assert!(
                access != Access::Member || path.contains("{space}"),
                "the route {path} names no space to be a member of"
            );
            openapi::mark(path, item, access, kind, codes);
            if access == Access::Probe {
                self.probes.push(path.clone());
            }
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

    /// The router, and the paths of probes.
    pub(crate) fn finish(self) -> (Router, Vec<String>) {
        let (router, _) = self.router.split_for_parts();
        let router = router
            .fallback(no_route)
            .method_not_allowed_fallback(no_method)
            .with_state(Arc::clone(&self.app));
        (router, self.probes)
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

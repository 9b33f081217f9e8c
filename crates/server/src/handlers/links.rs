//! Links to calls that wait for people: a page that shows the call, and the answer that is given on it. Who has the link
//! needs no key.

use std::sync::Arc;

use agent::approval::{Answerer, Approval, AskKind, PersonVerdict};
use agent::id::CallId;
use agent::port::{AskedCall, PersonAnswer};
use axum::extract::{Form, FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use runtime::answer_links::AnswerLinks;
use serde_json::Value;

use super::agents::handle_of;
use crate::answer_page;
use crate::app_state::{AppState, SharedState};
use crate::extract::{Exact, PathParam, read_body, run_to_completion};
use crate::json;
use crate::problem::{Code, Problem};
use crate::routes::no_route;
use api::LinkAnswerForm;

const FORM: &str = "application/x-www-form-urlencoded";

/// Nothing is loaded, run or kept, no other page shows this one, and no other server learns its address. Not `no-referrer`:
/// with that, browsers would send the form with the origin `null`, which is refused.
const HEADERS: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    ("referrer-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("x-robots-tag", "noindex, nofollow"),
];

/// Shows the call that a link belongs to, as a web page with a form. It changes nothing, however often it is opened. A server
/// without `public_url` has no such route.
#[utoipa::path(get, path = "/v1/calls/{call}/answer/{token}", tag = "approvals",
    params(("call" = String, Path, description = "Id of the call."),
           ("token" = String, Path, description = "What makes the link valid for this call alone.")),
    responses((status = 200, description = "The page; also if the call is over, and then without a form.")))]
pub(super) async fn show_link(
    State(app): SharedState,
    PathParam((call, token)): PathParam<(Exact, Exact)>,
    uri: Uri,
) -> Response {
    let Some(links) = app.ports.links.clone() else { return no_route(uri).await.into_response() };
    as_page(show(&app, &links, &call, &token).await)
}

/// Takes the answer that is given on that page. The first answer counts, from wherever it comes.
#[utoipa::path(post, path = "/v1/calls/{call}/answer/{token}", tag = "approvals",
    request_body(content = LinkAnswerForm, content_type = "application/x-www-form-urlencoded",
                 example = json!({"verdict": "approve"})),
    params(("call" = String, Path, description = "Id of the call."),
           ("token" = String, Path, description = "What makes the link valid for this call alone.")),
    responses((status = 200, description = "A page that says what the answer was.")))]
pub(super) async fn answer_by_link(
    State(app): SharedState,
    PathParam((call, token)): PathParam<(Exact, Exact)>,
    uri: Uri,
    request: Request,
) -> Response {
    let Some(links) = app.ports.links.clone() else { return no_route(uri).await.into_response() };
    as_page(take(&app, &links, &call, &token, request).await)
}

/// A call that a token belongs to.
#[derive(Clone)]
struct Linked {
    /// The handle of its agent.
    handle: String,
    call: AskedCall,
    asked: Approval,
}

impl Linked {
    async fn of(app: &AppState, found: AskedCall) -> Result<Option<Self>, Problem> {
        let Some(asked) = found.row.approval.as_deref().cloned() else { return Ok(None) };
        Ok(Some(Self { handle: handle_of(app, found.agent).await?, call: found, asked }))
    }

    fn page(&self, app: &AppState) -> Response {
        let now = app.ports.clock.now();
        Html(answer_page::of_call(&self.handle, &self.call.row, &self.asked, now)).into_response()
    }
}

/// The call, if the token is its own. Who has none learns not even whether there is such a call.
async fn find(app: &AppState, links: &AnswerLinks, call: &str, token: &str) -> Result<Linked, Problem> {
    let found = app.ports.approvals.asked(CallId(call.to_owned())).await?;
    let is_token = |found: &AskedCall| {
        found.row.approval.as_ref().is_some_and(|asked| links.is_token(token, &found.row, asked))
    };
    if let Some(found) = found.filter(is_token)
        && let Some(linked) = Linked::of(app, found).await?
    {
        return Ok(linked);
    }
    Err(Problem::new(Code::NotFound, "this is no link to a question of this server")
        .hint("copy the whole link, or ask whoever sent it for a new one"))
}

async fn show(app: &AppState, links: &AnswerLinks, call: &str, token: &str) -> Result<Response, Problem> {
    Ok(find(app, links, call, token).await?.page(app))
}

async fn take(
    app: &Arc<AppState>,
    links: &AnswerLinks,
    call: &str,
    token: &str,
    mut request: Request,
) -> Result<Response, Problem> {
    let linked = find(app, links, call, token).await?;
    check_type(request.headers())?;
    let in_flight = Arc::new(app.quotas.by_link(call)?);
    request.extensions_mut().insert(Arc::clone(&in_flight));
    let form = read_form(read_body(request, &*app.ports.clock).await?).await?;
    let answered = match verdict(&form, &linked.asked) {
        Ok(verdict) => answer(app, linked.clone(), verdict, form.reason).await,
        Err(problem) => Err(problem),
    };
    match answered {
        Err(wrong) if matches!(wrong.code(), Code::BadAnswer | Code::BadJson | Code::TooDeep) => {
            let Linked { handle, call, asked } = &linked;
            let text = form.text.as_deref().unwrap_or_default();
            let now = app.ports.clock.now();
            let page = answer_page::of_wrong_answer(handle, &call.row, asked, now, (&wrong, text));
            Ok(wrong.with_page(page))
        }
        answered => Ok(answered?.page(app)),
    }
}

async fn answer(
    app: &Arc<AppState>,
    linked: Linked,
    verdict: PersonVerdict,
    reason: Option<String>,
) -> Result<Linked, Problem> {
    let answer = PersonAnswer {
        id: linked.call.row.id.clone(),
        verdict,
        reason: reason.filter(|reason| !reason.trim().is_empty()),
        by: Answerer::Link,
        at: app.ports.clock.now(),
        // Nothing counts but what the page has shown.
        seen: Some(linked.asked.shown_hash(&linked.call.row)),
    };
    let app = Arc::clone(app);
    run_to_completion(async move {
        let asked = runtime::approvals::answer(&app.ports, &app.node, &linked.call, answer).await?;
        let answered = Linked::of(&app, asked).await?;
        answered.ok_or_else(|| Problem::internal(&"an answered call waits for nobody"))
    })
    .await
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if given.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(FORM)) {
        return Ok(());
    }
    Err(Problem::new(Code::NotForm, format!("wanted the content type `{FORM}`"))
        .hint("open the link in a web browser, and answer on its page"))
}

async fn read_form(raw: Bytes) -> Result<LinkAnswerForm, Problem> {
    let mut request = Request::new(axum::body::Body::from(raw));
    *request.method_mut() = axum::http::Method::POST;
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(FORM));
    let read = Form::<LinkAnswerForm>::from_request(request, &()).await;
    read.map(|Form(form)| form).map_err(|wrong| Problem::new(Code::BadAnswer, wrong.body_text()))
}

fn verdict(form: &LinkAnswerForm, asked: &Approval) -> Result<PersonVerdict, Problem> {
    let text = form.text.as_deref().unwrap_or_default();
    let answer = match (form.verdict.as_deref(), form.option, asked.kind) {
        (Some("approve"), None, _) => {
            return Ok(PersonVerdict::Approve { arguments: None, remember: None });
        }
        (Some("refuse"), None, _) => return Ok(PersonVerdict::Refuse),
        (None, Some(at), AskKind::Choice) => asked.options.get(at).cloned().map(Value::String),
        (Some("answer"), None, AskKind::Form) => Some(json::value(text)?),
        // Browsers send each line break of a text as two characters.
        (Some("answer"), None, AskKind::Text) => Some(Value::String(text.replace("\r\n", "\n"))),
        _ => None,
    };
    let wanted = || Problem::new(Code::BadAnswer, agent::approval::wanted_answer(asked));
    answer.map(PersonVerdict::Answer).ok_or_else(wanted)
}

/// What goes wrong is a page, too.
fn as_page(answered: Result<Response, Problem>) -> Response {
    let mut response = answered.unwrap_or_else(|problem| {
        let page = answer_page::of_problem(&problem);
        problem.with_page(page)
    });
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

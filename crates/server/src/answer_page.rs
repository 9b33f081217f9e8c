//! The web page that whoever has a link to a call sees: plain HTML without scripts, pictures and addresses. All that
//! agents and people have written is shown as text, and what is invisible in it as escapes. Must not know requests.

use agent::approval::{Approval, ApprovalState, AskKind};
use agent::call::CallRow;
use agent::{limits, quote};
use jiff::Timestamp;

use crate::problem::Problem;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;border:1px solid;padding:.5rem;margin:.2rem 0 1rem}\
dt{font-weight:bold}dd{margin:0 0 .8rem}\
textarea{width:100%;box-sizing:border-box;font:inherit}\
button{font:inherit;padding:.4rem 1rem;margin:.2rem .6rem .2rem 0}\
.wrong{border-left:.3rem solid;padding-left:.8rem}";

/// A call of that agent as it is now, with a form if it waits for an answer.
pub(crate) fn of_call(agent: &str, row: &CallRow, asked: &Approval, now: Timestamp) -> String {
    call_page(agent, row, asked, now, None)
}

/// The same after an answer that does not fit, with the text that was given.
pub(crate) fn of_wrong_answer(
    agent: &str,
    row: &CallRow,
    asked: &Approval,
    now: Timestamp,
    (wrong, text): (&Problem, &str),
) -> String {
    call_page(agent, row, asked, now, Some((wrong, text)))
}

/// What went wrong, and what to do.
pub(crate) fn of_problem(problem: &Problem) -> String {
    page(problem.code().title().trim_end_matches('.'), &said(problem))
}

fn call_page(
    agent: &str,
    row: &CallRow,
    asked: &Approval,
    now: Timestamp,
    wrong: Option<(&Problem, &str)>,
) -> String {
    let waits = asked.is_wanted() && now < asked.expires_at;
    let mut body = wrong.map(|(problem, _)| said(problem)).unwrap_or_default();
    body += &facts(agent, row, asked);
    if waits {
        body += &form(asked, wrong.map_or("", |(_, text)| text));
        body += &format!(
            "<p>Whoever has this link can answer once, until {}. Do not pass it on.</p>",
            asked.expires_at
        );
    } else {
        body += &end(asked);
    }
    page(title(asked, waits), &body)
}

fn title(asked: &Approval, waits: bool) -> &'static str {
    match asked.state {
        ApprovalState::Wanted if waits && asked.question => "An agent asks",
        ApprovalState::Wanted if waits => "An agent asks for approval",
        ApprovalState::Wanted | ApprovalState::Expired => "Nobody answered in time",
        ApprovalState::Granted => "Approved",
        ApprovalState::Answered => "Answered",
        ApprovalState::Refused => "Refused",
        ApprovalState::Canceled => "Canceled",
    }
}

/// The problem in the words that programs get.
fn said(problem: &Problem) -> String {
    let advice = problem.advice().map(|advice| format!("<br>{}", html(advice))).unwrap_or_default();
    format!("<p class=\"wrong\">{}{advice}</p>", html(problem.detail()))
}

/// Who wants what, exactly, and why.
fn facts(agent: &str, row: &CallRow, asked: &Approval) -> String {
    let mut facts = format!("<dl>{}", fact("Agent", agent));
    if asked.question {
        facts += &exact("It asks", &asked.why);
        facts += &asked.schema.as_ref().map_or_else(String::new, |schema| {
            exact("The answer must fit this JSON Schema", &format!("{schema:#}"))
        });
    } else {
        let shown = asked.asked_arguments.as_ref().unwrap_or(&row.arguments);
        facts += &fact("Tool", &format!("{} (version {})", row.tool, row.tool_version));
        facts += &exact("Arguments", &quote::visible_arguments(shown));
        facts += &exact("Why you are asked", &asked.why);
    }
    let requested: Vec<&str> = asked.requested_by.iter().map(|by| by.name.as_str()).collect();
    if !requested.is_empty() {
        facts += &exact("Requested by", &requested.join(", "));
    }
    facts + "</dl>"
}

fn fact(name: &str, text: &str) -> String {
    format!("<dt>{name}</dt><dd>{}</dd>", html(text))
}

fn exact(name: &str, text: &str) -> String {
    format!("<dt>{name}</dt><dd><pre>{}</pre></dd>", html(text))
}

/// How it ended.
fn end(asked: &Approval) -> String {
    let Some(by) = &asked.by else {
        return match asked.state {
            ApprovalState::Canceled => "<p>The call was canceled. Nothing is left to answer.</p>".to_owned(),
            _ => format!("<p>It was open until {}. Nothing is left to answer.</p>", asked.expires_at),
        };
    };
    let edited = if asked.asked_arguments.is_some() { ", with other arguments" } else { "" };
    let reason = asked.reason.as_ref().map(|reason| format!("<dl>{}</dl>", exact("The reason", reason)));
    format!(
        "<p>By {} at {}{edited}. Nothing is left to answer.</p>{}",
        html(&by.name),
        by.at,
        reason.unwrap_or_default()
    )
}

/// The form without an address: it is sent to the one of the page. The Enter key sends none of its answers by itself.
fn form(asked: &Approval, text: &str) -> String {
    let most = limits::APPROVAL_TEXT_MAX_BYTES;
    let answers = match asked.kind {
        AskKind::Approval => button("verdict", "approve", "Approve", ""),
        AskKind::Choice => {
            let option = |(at, option): (usize, &String)| button("option", &at.to_string(), option, "");
            asked.options.iter().enumerate().map(option).collect()
        }
        AskKind::Form | AskKind::Text => {
            let label = if asked.kind == AskKind::Form { "Your answer, as JSON" } else { "Your answer" };
            // A line break behind the tag is no part of the text.
            let area = format!(
                "<textarea name=\"text\" rows=\"8\" required>\n{}</textarea>",
                escaped(text.to_owned())
            );
            format!("<p><label>{label}{area}</label></p>{}", button("verdict", "answer", "Answer", ""))
        }
    };
    format!(
        "<form method=\"post\">{answers}<p><label>If you refuse: why? The agent reads it.\
         <textarea name=\"reason\" rows=\"2\" maxlength=\"{most}\"></textarea></label></p>{}</form>",
        button("verdict", "refuse", "Refuse", " formnovalidate")
    )
}

fn button(name: &str, value: &str, label: &str, more: &str) -> String {
    format!("<button name=\"{name}\" value=\"{value}\"{more}>{}</button>", html(label))
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>\n"
    )
}

/// A text as part of a page: what is invisible in it as escapes, as a card shows it.
fn html(text: &str) -> String {
    escaped(quote::visible(text))
}

/// A text of which no character is markup.
fn escaped(text: String) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup_or_invisible() {
        assert_eq!(html("<b a='\"'>&\u{202e}\n"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\\u202e\n");
    }
}

//! Links with which one call that waits for a person is answered without a key. Whoever holds one may answer, so a link is
//! made where it is given to somebody, and is kept nowhere. Must not know how it is sent, shown or opened.

use agent::approval::Approval;
use agent::call::CallRow;
use agent::id::{CallId, hex, unhex};
use jiff::Timestamp;
use ring::hmac;

/// Changed together with what a token is made of.
const LABEL: &str = "viv answer link 1";

/// Makes links and recognises their tokens.
pub struct AnswerLinks {
    /// The public address of the server, without a slash at its end.
    base: String,
    key: hmac::Key,
}

impl AnswerLinks {
    /// Links of a server with this public address and this secret. With another secret, links that were made before no
    /// longer count.
    pub fn new(base: String, secret: &[u8; 32]) -> Self {
        Self { base, key: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    /// The link of a call, from what a person is shown of it. It counts for exactly that, and no longer than the question.
    pub fn link(&self, call: &CallId, hash: &str, expires_at: Timestamp) -> String {
        // Hexadecimal: what ends in a punctuation mark is cut by programs that look for addresses in a text.
        let token = hex(hmac::sign(&self.key, said(call, hash, expires_at).as_bytes()).as_ref());
        format!("{}/v1/calls/{call}/answer/{token}", self.base)
    }

    /// Whether the token is that of the call as it was shown. Takes the same time for every wrong one of the right length.
    pub fn is_token(&self, token: &str, row: &CallRow, asked: &Approval) -> bool {
        let said = said(&row.id, &asked.shown_hash(row), asked.expires_at);
        // One token, one spelling.
        let tag = unhex(token).filter(|tag| hex(tag) == token);
        tag.is_some_and(|tag| hmac::verify(&self.key, said.as_bytes(), &tag).is_ok())
    }
}

/// What a token vouches for. None of the parts has a line break.
fn said(call: &CallId, hash: &str, expires_at: Timestamp) -> String {
    format!("{LABEL}\n{call}\n{hash}\n{expires_at}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::approval::{AskKind, Patience, hash_of};
    use agent::call::{CallState, Effect, Runner};
    use agent::id::CycleId;

    fn row() -> CallRow {
        let patience = Patience { pause_ms: 1_000, expires_ms: 60_000 };
        let hash = hash_of("pay", "1", "{}");
        let asked = Approval::wanted(AskKind::Approval, "why".into(), hash, patience, Timestamp::UNIX_EPOCH);
        CallRow {
            id: CallId("c1".into()),
            cycle: CycleId(uuid::Uuid::nil()),
            step: 0,
            index: 0,
            tool: "pay".into(),
            arguments: "{}".into(),
            effect: Effect::Unsafe,
            tool_version: "1".into(),
            runner: Runner::Node,
            claim: None,
            approval: Some(Box::new(asked)),
            by_rule: None,
            awaited: true,
            state: CallState::Planned,
            outcome: None,
            trust: agent::event::Trust::Member,
        }
    }

    /// Whether the token counts for the row after this change.
    fn counts(links: &AnswerLinks, token: &str, change: impl FnOnce(&mut CallRow, &mut Approval)) -> bool {
        let mut row = row();
        let mut asked = *row.approval.take().unwrap();
        change(&mut row, &mut asked);
        links.is_token(token, &row, &asked)
    }

    #[test]
    fn a_token_counts_for_what_was_shown_and_for_nothing_else() {
        let links = AnswerLinks::new("https://viv.example/a".into(), &[7; 32]);
        let row = row();
        let asked = row.approval.as_ref().unwrap();
        let link = links.link(&row.id, &asked.hash, asked.expires_at);
        let token = link.strip_prefix("https://viv.example/a/v1/calls/c1/answer/").unwrap();
        assert_eq!(token.len(), 64);
        assert!(counts(&links, token, |_, _| {}));
        assert!(!counts(&links, token, |row, _| row.id.0.push('0')), "another call");
        assert!(!counts(&links, token, |_, asked| asked.hash.push('0')), "other arguments");
        assert!(!counts(&links, token, |_, asked| asked.expires_at = Timestamp::MAX), "a longer life");
        let other = AnswerLinks::new("https://viv.example/a".into(), &[8; 32]);
        assert!(!counts(&other, token, |_, _| {}), "another server");
    }

    #[test]
    fn a_token_stays_one_after_a_person_has_changed_the_arguments() {
        let links = AnswerLinks::new("https://viv.example".into(), &[7; 32]);
        let (row, asked) = (row(), row().approval.unwrap());
        let link = links.link(&row.id, &asked.hash, asked.expires_at);
        let edited = |row: &mut CallRow, asked: &mut Approval| {
            row.arguments = r#"{"n":1}"#.into();
            asked.asked_arguments = Some("{}".into());
            asked.hash = hash_of("pay", "1", &row.arguments);
        };
        assert!(counts(&links, link.rsplit('/').next().unwrap(), edited));
    }

    #[test]
    fn no_other_spelling_and_no_flipped_bit_is_a_token() {
        let links = AnswerLinks::new("https://viv.example".into(), &[7; 32]);
        let asked = row().approval.unwrap();
        let link = links.link(&row().id, &asked.hash, asked.expires_at);
        let token = link.rsplit('/').next().unwrap();
        for bit in 0..256 {
            let mut bytes = unhex(token).unwrap();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!counts(&links, &hex(&bytes), |_, _| {}), "bit {bit}");
        }
        let (short, long, upper) = (&token[..62], format!("{token}00"), token.to_uppercase());
        for bad in ["", "0", "zz", short, &long, &upper, &format!("{token}\n"), &"é".repeat(32)] {
            assert!(!counts(&links, bad, |_, _| {}), "{bad}");
        }
    }
}

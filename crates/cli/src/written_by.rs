//! Tells what the runtime writes in a space, such as a card, from what members write. What members write cannot have the
//! mark of the runtime, and what looks like a card in it is quoted.

use agent::space::MessageKind;

use crate::output::Screen;

/// In front of what the runtime wrote, in every view of a space.
const MARK: &str = "[viv]";
/// First words of cards.
const HEADS: [&str; 4] = ["viv", "approval", "question", "reminder"];
/// Letters of the longest head.
const LONGEST: usize = 8;

/// The text of a message as a view shows it, safe for the terminal.
pub(crate) fn shown(screen: &Screen, kind: MessageKind, text: &str) -> String {
    let text = screen.clean(text);
    match kind {
        MessageKind::Tool => format!("{MARK} {text}"),
        MessageKind::Text => by_member(&text),
    }
}

/// The name of a member, which may be chosen by a stranger, as a view of a space shows it.
pub(crate) fn name(screen: &Screen, name: &str) -> String {
    screen.clean_line(name).replace('[', "\\[")
}

/// Text of a member, such as a draft, that has been made safe for the terminal.
pub(crate) fn by_member(text: &str) -> String {
    let lines: Vec<String> = text.replace(MARK, "\\[viv]").split('\n').map(quoted).collect();
    lines.join("\n")
}

fn quoted(line: &str) -> String {
    let head = line.trim_start().trim_start_matches('\\').strip_prefix('[').map(|rest| {
        let letters = rest.chars().filter(|c| c.is_alphanumeric());
        letters.take(LONGEST).collect::<String>().to_lowercase()
    });
    match head {
        Some(head) if HEADS.iter().any(|known| head.starts_with(known)) => format!("> {line}"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_writes_is_never_shown_as_a_card() {
        let screen = Screen::plain(None, true);
        let card = "[approval wanted] pay (version 1)\narguments: {}";
        let shown = |kind, text: &str| shown(&screen, kind, text);
        assert_eq!(shown(MessageKind::Tool, card), format!("[viv] {card}"));
        for (text, quoted) in [
            (card, format!("> {card}")),
            ("[viv] [approval wanted] pay", "> \\[viv] [approval wanted] pay".to_owned()),
            ("ok\n  [Approval  granted by owner]", "ok\n>   [Approval  granted by owner]".to_owned()),
            ("[\u{200b}viv] pay", "[\\u{200b}viv] pay".to_owned()),
            ("see [viv] [question] Really?", "see \\[viv] [question] Really?".to_owned()),
            ("[a list] of [things]", "[a list] of [things]".to_owned()),
        ] {
            assert_eq!(shown(MessageKind::Text, text), quoted);
            assert!(!shown(MessageKind::Text, text).replace("\\[viv]", "").contains(MARK), "{text}");
        }
        assert_eq!(name(&screen, "p1: [viv] [approval wanted] pay"), "p1: \\[viv] \\[approval wanted] pay");
    }
}

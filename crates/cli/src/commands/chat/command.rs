//! Lines of a chat: text to post, or a command such as `/help`, `/who`, `/cancel` or `/quit`.

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Say(&'a str),
    Help,
    Who,
    Cancel,
    /// Approves a call that waits here: the named one, or the only one.
    Approve(&'a str),
    /// Refuses one, for this reason.
    Refuse(&'a str),
    /// Answers a question that waits here.
    Answer(&'a str),
    Quit,
    Unknown(&'a str),
}

/// The commands, for completion.
pub(crate) const COMMANDS: [&str; 7] =
    ["/answer", "/approve", "/cancel", "/help", "/quit", "/refuse", "/who"];

pub(crate) const HELP: &str = "\
Enter posts what you type in the space, also while an agent works
/who     list the members and what they do
/cancel  cancel what agents do here (or Ctrl-C while they work)
/approve approve the call that waits here: the one whose card was shown when the line was begun
/refuse  refuse it: /refuse REASON; /answer TEXT answers a question
         (if several wait, name one: /approve CALL, /refuse CALL REASON, /answer CALL TEXT)
/quit    quit (or Ctrl-D, or Ctrl-C twice)
//text   post a text that begins with a slash
Alt-Enter starts a new line, Tab completes commands and names
Up and Down recall earlier lines, Ctrl-R searches them";

impl<'a> Line<'a> {
    /// Parses a line. Blank lines before a command do not make it text.
    pub(crate) fn read(line: &'a str) -> Self {
        let Some(command) = line.trim_start().strip_prefix('/') else { return Self::Say(line) };
        if command.starts_with('/') {
            return Self::Say(command);
        }
        match command.trim() {
            "help" | "h" | "?" => Self::Help,
            "who" | "w" => Self::Who,
            "cancel" | "c" => Self::Cancel,
            "quit" | "q" | "exit" => Self::Quit,
            other => Self::answer(other).unwrap_or({
                // Text such as `/etc/hosts is missing` is posted, not read as a command.
                if other.contains([' ', '/', '\n']) { Self::Say(line) } else { Self::Unknown(other) }
            }),
        }
    }

    fn answer(command: &'a str) -> Option<Self> {
        let approve = word(command, "approve").map(Self::Approve);
        let refuse = || word(command, "refuse").map(Self::Refuse);
        approve.or_else(refuse).or_else(|| word(command, "answer").map(Self::Answer))
    }
}

/// What follows that command, if it is that command.
fn word<'a>(line: &'a str, command: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(command)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_starts_a_command_only_before_a_single_word() {
        assert_eq!(Line::read("hello /quit"), Line::Say("hello /quit"));
        assert_eq!(Line::read("/quit "), Line::Quit);
        assert_eq!(Line::read("/quti"), Line::Unknown("quti"));
        assert_eq!(Line::read("//quit"), Line::Say("/quit"));
        assert_eq!(Line::read("/etc/hosts is missing"), Line::Say("/etc/hosts is missing"));
        assert_eq!(Line::read("/refuse too dear"), Line::Refuse("too dear"));
        assert_eq!(Line::read("/answer the blue one"), Line::Answer("the blue one"));
        assert_eq!(Line::read("/approve c1"), Line::Approve("c1"));
        assert_eq!(Line::read("/refused it"), Line::Say("/refused it"));
    }

    #[test]
    fn a_blank_line_before_a_command_does_not_make_it_text() {
        assert_eq!(Line::read("\n \n/help\n"), Line::Help);
        assert_eq!(Line::read("\nhello"), Line::Say("\nhello"));
        for command in COMMANDS {
            assert!(!matches!(Line::read(command), Line::Unknown(_) | Line::Say(_)), "{command}");
        }
    }
}

//! Lines of a chat: text to post, or a command such as `/help`, `/who`, `/cancel` or `/quit`.

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Text to post.
    Say(&'a str),
    /// Show the help.
    Help,
    /// List the members.
    Who,
    /// Cancel what agents do here.
    Cancel,
    /// Quit.
    Quit,
    /// There is no command with this name.
    Unknown(&'a str),
}

/// The help text.
pub(crate) const HELP: &str = "\
Enter posts what you type in the space, also while an agent works
/who     list the members and what they do
/cancel  cancel what agents do here (or Ctrl-C while they work)
/quit    quit (or Ctrl-D, or Ctrl-C while no agent works)
//text   post a text that begins with a slash
Alt-Enter starts a new line, Up and Down recall earlier lines";

impl<'a> Line<'a> {
    /// Parses a line.
    pub(crate) fn read(line: &'a str) -> Self {
        let Some(command) = line.strip_prefix('/') else { return Self::Say(line) };
        if command.starts_with('/') {
            return Self::Say(command);
        }
        match command.trim() {
            "help" | "h" | "?" => Self::Help,
            "who" | "w" => Self::Who,
            "cancel" | "c" => Self::Cancel,
            "quit" | "q" | "exit" => Self::Quit,
            // Text such as `/etc/hosts is missing` is posted, not read as a command.
            other if other.contains([' ', '/', '\n']) => Self::Say(line),
            other => Self::Unknown(other),
        }
    }
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
    }
}

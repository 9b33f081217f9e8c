//! Lines of a chat that are not said: `/help`, `/who`, `/cancel`, `/quit`.

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// To be said.
    Say(&'a str),
    /// Explain.
    Help,
    /// List the members.
    Who,
    /// Cancel what agents do here.
    Cancel,
    /// Leave.
    Quit,
    /// No command is called that.
    Unknown(&'a str),
}

/// The explanation.
pub(crate) const HELP: &str = "\
what you type is said in the space when you press Enter, also while an agent works
/who     who is here and what they do
/cancel  stop what agents do here (or Ctrl-C while they work)
/quit    leave (or Ctrl-D, or Ctrl-C while nobody works)
//text   say a text that begins with a slash
Alt-Enter begins a new line, Up and Down call earlier lines back";

impl<'a> Line<'a> {
    /// Reads a line.
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
            // A path or the like, such as `/etc/hosts is missing`, is something said.
            other if other.contains([' ', '/', '\n']) => Self::Say(line),
            other => Self::Unknown(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_begins_a_command_only_where_one_could_be_meant() {
        assert_eq!(Line::read("hello /quit"), Line::Say("hello /quit"));
        assert_eq!(Line::read("/quit "), Line::Quit);
        assert_eq!(Line::read("/quti"), Line::Unknown("quti"));
        assert_eq!(Line::read("//quit"), Line::Say("/quit"));
        assert_eq!(Line::read("/etc/hosts is missing"), Line::Say("/etc/hosts is missing"));
    }
}

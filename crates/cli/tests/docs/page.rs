//! Parses the fenced blocks of a Markdown page. Runs nothing.

/// How a block of commands is run, given by the word after `sh` in its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Runs to its end and succeeds.
    Runs,
    /// Runs to its end and exits with this code (`sh fails=4`).
    Fails(i32),
    /// Starts a server in the background (`sh background`).
    Background,
    /// Runs until something was printed, then is ended (`sh follows`).
    Follows,
    /// Kills the server, as a crash would (`sh kills`); its commands are only for the reader.
    Kills,
    /// Is not run: `make`, `git clone` and `cd` only, which the project's own check runs or which create
    /// the project (`sh elsewhere`).
    Elsewhere,
}

/// Commands, and the output that the page shows for them.
#[derive(Debug)]
pub(crate) struct Step {
    /// Line of the opening fence, starting at 1.
    pub(crate) line: usize,
    pub(crate) kind: BlockKind,
    pub(crate) commands: String,
    /// The `text` block that follows.
    pub(crate) output: Option<String>,
    /// A file that the reader writes first: a block with the fence `LANG file=PATH`.
    pub(crate) file: Option<String>,
}

/// The steps of a page, in order.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let body = body.join("\n") + "\n";
        let mut words = info.split_whitespace();
        let language = words.next().unwrap_or_default();
        let word = words.next();
        let line = index + 1;
        if let Some(path) = word.and_then(|word| word.strip_prefix("file=")) {
            let file = Some(path.to_owned());
            steps.push(Step { line, kind: BlockKind::Runs, commands: body, output: None, file });
        } else if language == "sh" {
            let kind =
                kind(word).unwrap_or_else(|| panic!("line {line}: `{info}` names no known kind of block"));
            steps.push(Step { line, kind, commands: body, output: None, file: None });
        } else if language == "text" && word.is_none() {
            // `text picture` is a drawing; any other `text` block is the output of the commands before it.
            let step = steps.last_mut().unwrap_or_else(|| panic!("line {line}: output of no command"));
            assert!(step.output.is_none() && step.file.is_none(), "line {line}: output of no command");
            step.output = Some(body);
        } else if ["bash", "shell", "console"].contains(&language) {
            panic!("line {line}: use `sh` for a block of commands");
        }
    }
    steps
}

fn kind(word: Option<&str>) -> Option<BlockKind> {
    Some(match word {
        None => BlockKind::Runs,
        Some("background") => BlockKind::Background,
        Some("follows") => BlockKind::Follows,
        Some("kills") => BlockKind::Kills,
        Some("elsewhere") => BlockKind::Elsewhere,
        Some(other) => BlockKind::Fails(other.strip_prefix("fails=")?.parse().ok()?),
    })
}

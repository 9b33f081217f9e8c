//! A page of Markdown as far as its fenced blocks go. Runs nothing.

/// What a reader does with a block of commands, named behind `sh` in its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Runs it to its end; it succeeds.
    Runs,
    /// Runs it to its end; it ends with this code (`sh fails=4`).
    Fails(i32),
    /// Starts a server in another terminal and leaves it there (`sh background`).
    Background,
    /// Watches it until something was shown, then ends it (`sh follows`).
    Follows,
    /// Ends the server at once, as a crash would (`sh kills`); the words are for the reader.
    Kills,
    /// What the project's own check does, or what comes before there is a project (`sh elsewhere`):
    /// `make`, `git clone` and `cd` only.
    Elsewhere,
}

/// Commands, and what the page says they print.
#[derive(Debug)]
pub(crate) struct Step {
    /// Where the fence opens, counted from 1.
    pub(crate) line: usize,
    pub(crate) manner: Manner,
    pub(crate) commands: String,
    /// The `text` block right behind it.
    pub(crate) output: Option<String>,
    /// A file that the reader writes first: a block whose fence is `LANG file=PATH`.
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
            steps.push(Step { line, manner: Manner::Runs, commands: body, output: None, file });
        } else if language == "sh" {
            let manner = manner(word).unwrap_or_else(|| panic!("line {line}: `{info}` says no known manner"));
            steps.push(Step { line, manner, commands: body, output: None, file: None });
        } else if language == "text" && word.is_none() {
            // A drawing says so (`text picture`); anything else is what the commands before it print.
            let step = steps.last_mut().unwrap_or_else(|| panic!("line {line}: output of no command"));
            assert!(step.output.is_none() && step.file.is_none(), "line {line}: output of no command");
            step.output = Some(body);
        } else if ["bash", "shell", "console"].contains(&language) {
            panic!("line {line}: a block of commands is called `sh`");
        }
    }
    steps
}

fn manner(word: Option<&str>) -> Option<Manner> {
    Some(match word {
        None => Manner::Runs,
        Some("background") => Manner::Background,
        Some("follows") => Manner::Follows,
        Some("kills") => Manner::Kills,
        Some("elsewhere") => Manner::Elsewhere,
        Some(other) => Manner::Fails(other.strip_prefix("fails=")?.parse().ok()?),
    })
}

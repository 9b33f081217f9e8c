//! What people and programs give on standard input: text, bounded, and confirmations.

use std::io::{BufRead, IsTerminal, Read};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{FileType, fstat};

use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;

/// Maximum wait for standard input that nobody asked to read.
const PIPED_TEXT_WAIT: Duration = Duration::from_secs(10);

/// Whether another program or a file is connected to standard input; a terminal or `/dev/null` is not.
pub(crate) fn is_piped() -> bool {
    let kind = fstat(std::io::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::RegularFile))
}

/// All of standard input without the line ends behind it. One byte more than `max` is read at most, so that a caller
/// can tell that it is too long.
pub(crate) fn text(max: usize) -> Result<String> {
    let mut text = String::new();
    let bound = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    std::io::stdin().lock().take(bound).read_to_string(&mut text).map_err(|error| {
        Failure::usage(format!("cannot read the text from standard input: {error}")).hint("send UTF-8 text")
    })?;
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(text)
}

/// As [`text`], for a command that was not told to read standard input: a pipe that nobody writes to or closes, as a
/// supervisor may leave one open, must not hold it up for ever.
pub(crate) fn piped_text(max: usize) -> Result<String> {
    in_time(PIPED_TEXT_WAIT, move || text(max))
}

fn in_time(wait: Duration, read: impl FnOnce() -> Result<String> + Send + 'static) -> Result<String> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || sender.send(read()));
    receiver.recv_timeout(wait).unwrap_or_else(|_| {
        let seconds = wait.as_secs();
        Err(Failure::usage(format!("standard input is a pipe that did not end within {seconds} s")).hint(
            "give the text as an argument, `-` to wait for standard input, or `</dev/null` if there is none",
        ))
    })
}

/// Splits KEY=VALUE.
pub(crate) fn key_value<'a>(text: &'a str, hint: &str) -> Result<(&'a str, &'a str)> {
    let parts = text.split_once('=').map(|(key, value)| (key.trim(), value));
    let wrong = || Failure::usage(format!("wanted KEY=VALUE, got `{text}`")).hint(hint);
    parts.filter(|(key, _)| !key.is_empty()).ok_or_else(wrong)
}

/// Refuses options of a list before a verb, which would have no effect.
pub(crate) fn no_list_options(options: &str, given: bool) -> Result<()> {
    match given {
        false => Ok(()),
        true => Err(Failure::usage(format!("{options} only to the list")).hint("leave it out")),
    }
}

/// Whether there is somebody to ask.
pub(crate) fn can_ask(screen: &Screen) -> bool {
    !screen.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on a terminal whether to do something that cannot be undone; elsewhere `--yes` is needed. `what` is a sentence
/// without its end, `instead` what to do otherwise, if there is something.
pub(crate) fn confirm(screen: &Screen, what: &str, yes: bool, instead: Option<&str>) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !can_ask(screen) {
        let instead = instead.map(|instead| format!(", or {instead}")).unwrap_or_default();
        return Err(Failure::usage(what).hint(format!("confirm with --yes{instead}; nothing was changed")));
    }
    screen.ask(&format!("{what}. Go on? (y/N) "));
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => {
            Err(Failure::new(Exit::Refused, "not_confirmed", "nothing was changed").hint("confirm with `y`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_ends_at_the_first_equals_sign() {
        assert!(key_value("=x", "").is_err() && key_value("novalue", "").is_err());
        assert_eq!(key_value("a=b=c", "").unwrap(), ("a", "b=c"));
    }

    #[test]
    fn a_pipe_that_nobody_closes_is_not_waited_for_forever() {
        let (writer, pipe) = mpsc::channel::<String>();
        let read = move || Ok(pipe.recv().unwrap_or_default());
        let failure = in_time(Duration::ZERO, read).unwrap_err();
        assert_eq!((failure.exit, failure.message.contains("did not end")), (Exit::Usage, true));
        drop(writer);
        let read = in_time(PIPED_TEXT_WAIT, || Ok("{}".to_owned()));
        assert_eq!(read.unwrap(), "{}");
    }
}

//! Replies that cannot be processed, or not as they are: what a model sends is bounded before any of it
//! may enter the log, where it would be sent again and again.

use std::sync::Arc;

use crate::entry::Entry;
use crate::limits;
use crate::message::Native;
use crate::port::{ModelError, Reply, ReplyPart, StopReason};

/// Why nothing of the reply may be processed.
pub(super) fn unusable(reply: &Reply) -> Option<ModelError> {
    if reply.parts.is_empty() {
        return Some(match &reply.stop {
            StopReason::Refused(why) => ModelError::Invalid(format!("the model refused: {why}")),
            _ => ModelError::Garbage("an empty reply".into()),
        });
    }
    let (mut words, mut calls) = (0, 0);
    for part in &reply.parts {
        match part {
            ReplyPart::Text(text) | ReplyPart::Reasoning(text) => words += text.len(),
            ReplyPart::Call { .. } => calls += 1,
        }
    }
    if words > limits::REPLY_WORDS_MAX_BYTES {
        return Some(ModelError::Garbage(format!("a reply of {words} bytes of words")));
    }
    if calls > limits::REPLY_CALLS_MAX {
        return Some(ModelError::Garbage(format!("a reply of {calls} calls")));
    }
    None
}

/// The arguments of a call as they are kept: none of those that are refused for their size.
pub(super) fn kept(arguments: &str) -> &str {
    if arguments.len() > limits::ARGUMENTS_MAX_BYTES { "{}" } else { arguments }
}

/// The name of a called tool as it is kept and told: its beginning, where it is too long to be one.
pub(super) fn called(name: &str) -> &str {
    &name[..name.floor_char_boundary(limits::CALLED_NAME_MAX_BYTES)]
}

/// The native block of a reply, where it may stand in the log behind `window`: one that has what is not
/// kept may not, nor one whose call ids came before, which vendors refuse. Without it the entry is
/// sent in our own words and with our own ids.
pub(super) fn native(reply: &Reply, window: &[Arc<Entry>]) -> Option<Native> {
    let known = |id: &String| {
        let natives = window.iter().filter_map(|entry| entry.message.native.as_ref());
        natives.into_iter().any(|native| native.call_ids.contains(id))
    };
    reply.native.clone().filter(|native| is_kept_whole(reply) && !native.call_ids.iter().any(known))
}

fn is_kept_whole(reply: &Reply) -> bool {
    let fits = |part: &ReplyPart| match part {
        ReplyPart::Call { name, arguments } => {
            arguments.len() <= limits::ARGUMENTS_MAX_BYTES && called(name) == name
        }
        ReplyPart::Text(_) | ReplyPart::Reasoning(_) => true,
    };
    reply.parts.iter().all(fits)
}

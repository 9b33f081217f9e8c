//! Checks replies and bounds their parts before they enter the log: an entry is sent to the model with every
//! later request.

use std::sync::Arc;

use crate::entry::Entry;
use crate::limits;
use crate::message::Native;
use crate::port::{ModelError, Reply, ReplyPart, StopReason};

/// Why the reply cannot be processed. An empty one `may_end` a cycle that has processed its events: some models end
/// a turn after outcomes, or stay silent after a notice, in this way.
pub(super) fn unusable(reply: &Reply, may_end: bool) -> Option<ModelError> {
    if reply.parts.is_empty() {
        return match &reply.stop {
            StopReason::Refused(why) => Some(ModelError::Invalid(format!("the model refused: {why}"))),
            StopReason::End if may_end => None,
            _ => Some(ModelError::Garbage("an empty reply".into())),
        };
    }
    let (mut bytes, mut calls) = (0, 0);
    for part in &reply.parts {
        match part {
            ReplyPart::Text(text) | ReplyPart::Reasoning(text) => bytes += text.len(),
            ReplyPart::Call { .. } => calls += 1,
        }
    }
    if bytes > limits::REPLY_TEXT_MAX_BYTES {
        return Some(ModelError::Garbage(format!("a reply with {bytes} bytes of text")));
    }
    if calls > limits::REPLY_CALLS_MAX {
        return Some(ModelError::Garbage(format!("a reply with {calls} calls")));
    }
    None
}

/// The arguments that are stored for a call: `{}` if they are refused for their size.
pub(super) fn stored_arguments(arguments: &str) -> &str {
    if arguments.len() > limits::ARGUMENTS_MAX_BYTES { "{}" } else { arguments }
}

/// The tool name that is stored for a call, cut to the maximum length of a name.
pub(super) fn stored_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(limits::CALLED_NAME_MAX_BYTES)]
}

/// The native block of a reply, if it may enter the log after `window`. It may not if some of its calls are
/// stored shortened, or if a call id has occurred before, which vendors refuse. Without the block the entry is
/// encoded from its parts, with our own ids.
pub(super) fn native(reply: &Reply, window: &[Arc<Entry>]) -> Option<Native> {
    let known = |id: &String| {
        let natives = window.iter().filter_map(|entry| entry.message.native.as_ref());
        natives.into_iter().any(|native| native.call_ids.contains(id))
    };
    reply.native.clone().filter(|native| is_stored_whole(reply) && !native.call_ids.iter().any(known))
}

fn is_stored_whole(reply: &Reply) -> bool {
    let fits = |part: &ReplyPart| match part {
        ReplyPart::Call { name, arguments } => {
            arguments.len() <= limits::ARGUMENTS_MAX_BYTES && stored_name(name) == name
        }
        ReplyPart::Text(_) | ReplyPart::Reasoning(_) => true,
    };
    reply.parts.iter().all(fits)
}

//! The memo between requests: only new items are encoded, and the bytes equal those of a request without
//! a memo.

use std::sync::Arc;

use agent::port::Memo;
use agent::prompt::Item;
use models::client::VendorModel;
use models::wire::anthropic::Anthropic;
use models::wire::gemini::Gemini;
use models::wire::openai_chat::{Dialect, OpenAiChat, ToolMode};
use models::wire::openai_responses::OpenAiResponses;

use crate::support::{Conversation, model_with_wire, tool};

fn models() -> [VendorModel; 5] {
    let chat = |mode| OpenAiChat::new("m", 1_000, mode, Dialect::LOCAL);
    [
        model_with_wire(Anthropic::new("m", 1_000), "http://localhost"),
        model_with_wire(chat(ToolMode::Native), "http://localhost"),
        model_with_wire(chat(ToolMode::JsonSchema), "http://localhost"),
        model_with_wire(Gemini::new("m", 1_000), "http://localhost"),
        model_with_wire(OpenAiResponses::new("m", 1_000), "http://localhost"),
    ]
}

/// Asserts that the request with the memo equals one without it; returns how many items were encoded.
fn encoded_items(vendor_model: &VendorModel, conversation: &mut Conversation) -> usize {
    let kept = vendor_model.encode(&conversation.prompt, &mut conversation.memo);
    let anew = vendor_model.encode(&conversation.prompt, &mut Memo::default());
    assert_eq!(kept.body.concat(), anew.body.concat());
    assert_eq!(kept.body.len(), kept.body.concat().len() as u64);
    kept.fresh
}

#[test]
fn only_new_items_are_encoded() {
    for vendor_model in models() {
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
        assert_eq!(encoded_items(&vendor_model, &mut conversation), 2);
        for _ in 0..50 {
            conversation.foreign_step("x", &[("done", "{}")]);
            assert_eq!(encoded_items(&vendor_model, &mut conversation), 2);
        }
        assert_eq!(encoded_items(&vendor_model, &mut conversation), 0);
        let segments = vendor_model.encode(&conversation.prompt, &mut conversation.memo).body.segments();
        assert!(segments < 30, "{segments} segments");
    }
}

#[test]
fn a_new_cycle_encodes_only_the_last_cycle_again() {
    for vendor_model in models() {
        let mut conversation = Conversation::new();
        for cycle in 1..=5 {
            conversation.begin_cycle(cycle, "[INBOX]", "[WORKSPACE]");
            let encoded = encoded_items(&vendor_model, &mut conversation);
            assert!(encoded <= 7, "cycle {cycle}: {encoded}");
            for _ in 0..2 {
                conversation.foreign_step("x", &[("done", "{}")]);
                encoded_items(&vendor_model, &mut conversation);
            }
        }
    }
}

#[test]
fn a_shorter_view_or_another_system_tools_or_model_is_encoded_again() {
    let [vendor_model, other, ..] = models();
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    for _ in 0..4 {
        conversation.foreign_step("x", &[("done", "{}")]);
    }
    let all = conversation.prompt.items.len();
    assert_eq!(encoded_items(&vendor_model, &mut conversation), all);
    assert_eq!(encoded_items(&other, &mut conversation), all);
    assert_eq!(encoded_items(&vendor_model, &mut conversation), all);
    conversation.prompt.system = Arc::from("another");
    assert_eq!(encoded_items(&vendor_model, &mut conversation), all);
    conversation.prompt.tools = vec![tool("another")].into();
    assert_eq!(encoded_items(&vendor_model, &mut conversation), all);
    conversation.prompt.items.drain(0..2);
    conversation.prompt.items.insert(0, Item::Layer(Arc::from("[COMPACTED MEMORY]")));
    assert_eq!(encoded_items(&vendor_model, &mut conversation), all - 1);
    conversation.prompt.items.truncate(3);
    assert_eq!(
        encoded_items(&vendor_model, &mut conversation),
        0,
        "a shorter prompt is a prefix of the kept one"
    );
    // Equal content in another allocation is the same entry.
    let Item::Entry(entry) = &conversation.prompt.items[1] else { panic!("an entry") };
    conversation.prompt.items[1] = Item::Entry(Arc::new(entry.as_ref().clone()));
    assert_eq!(encoded_items(&vendor_model, &mut conversation), 0);
}

#[test]
fn a_pending_inbox_entry_that_grew_is_encoded_again() {
    for vendor_model in models() {
        let mut conversation = Conversation::new();
        conversation.begin_cycle(1, "[INBOX — 1]", "[WORKSPACE]");
        encoded_items(&vendor_model, &mut conversation);
        let mut again = Conversation::new();
        again.begin_cycle(1, "[INBOX — 2]", "[WORKSPACE]");
        again.memo = std::mem::take(&mut conversation.memo);
        assert_eq!(encoded_items(&vendor_model, &mut again), 2);
    }
}

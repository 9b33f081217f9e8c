//! What is kept from request to request: only the new is encoded, and the bytes are those of a
//! request that was built afresh.

use std::sync::Arc;

use agent::port::Memo;
use agent::prompt::Item;
use models::client::VendorModel;
use models::wire::anthropic::Anthropic;
use models::wire::gemini::Gemini;
use models::wire::openai_chat::{Dialect, OpenAiChat, ToolMode};
use models::wire::openai_responses::OpenAiResponses;

use crate::support::{Life, tool, wired};

fn models() -> [VendorModel; 5] {
    let chat = |mode| OpenAiChat::new("m", 1_000, mode, Dialect::LOCAL);
    [
        wired(Anthropic::new("m", 1_000), "http://localhost"),
        wired(chat(ToolMode::Native), "http://localhost"),
        wired(chat(ToolMode::JsonSchema), "http://localhost"),
        wired(Gemini::new("m", 1_000), "http://localhost"),
        wired(OpenAiResponses::new("m", 1_000), "http://localhost"),
    ]
}

/// The request from the memo is the request built afresh; tells how much was encoded for it.
fn fresh(vendor_model: &VendorModel, life: &mut Life) -> usize {
    let kept = vendor_model.encode(&life.prompt, &mut life.memo);
    let anew = vendor_model.encode(&life.prompt, &mut Memo::default());
    assert_eq!(kept.body.concat(), anew.body.concat());
    assert_eq!(kept.body.len(), kept.body.concat().len() as u64);
    kept.fresh
}

#[test]
fn only_what_is_new_is_encoded() {
    for vendor_model in models() {
        let mut life = Life::new();
        life.wake(1, "[INBOX]", "[WORKSPACE]");
        assert_eq!(fresh(&vendor_model, &mut life), 2);
        for _ in 0..50 {
            life.foreign_step("x", &[("done", "{}")]);
            assert_eq!(fresh(&vendor_model, &mut life), 2);
        }
        assert_eq!(fresh(&vendor_model, &mut life), 0);
        let segments = vendor_model.encode(&life.prompt, &mut life.memo).body.segments();
        assert!(segments < 30, "{segments} segments");
    }
}

#[test]
fn a_new_cycle_encodes_the_one_before_anew_and_nothing_older() {
    for vendor_model in models() {
        let mut life = Life::new();
        for cycle in 1..=5 {
            life.wake(cycle, "[INBOX]", "[WORKSPACE]");
            let encoded = fresh(&vendor_model, &mut life);
            assert!(encoded <= 7, "cycle {cycle}: {encoded}");
            for _ in 0..2 {
                life.foreign_step("x", &[("done", "{}")]);
                fresh(&vendor_model, &mut life);
            }
        }
    }
}

#[test]
fn a_cut_view_another_system_other_tools_or_another_model_build_anew() {
    let [vendor_model, other, ..] = models();
    let mut life = Life::new();
    life.wake(1, "[INBOX]", "[WORKSPACE]");
    for _ in 0..4 {
        life.foreign_step("x", &[("done", "{}")]);
    }
    let all = life.prompt.items.len();
    assert_eq!(fresh(&vendor_model, &mut life), all);
    assert_eq!(fresh(&other, &mut life), all);
    assert_eq!(fresh(&vendor_model, &mut life), all);
    life.prompt.system = Arc::from("another");
    assert_eq!(fresh(&vendor_model, &mut life), all);
    life.prompt.tools = vec![tool("another")].into();
    assert_eq!(fresh(&vendor_model, &mut life), all);
    life.prompt.items.drain(0..2);
    life.prompt.items.insert(0, Item::Layer(Arc::from("[COMPACTED MEMORY]")));
    assert_eq!(fresh(&vendor_model, &mut life), all - 1);
    life.prompt.items.truncate(3);
    assert_eq!(fresh(&vendor_model, &mut life), 0, "a shorter prompt is a prefix of what is kept");
    // Equal content in another allocation is the same entry.
    let Item::Entry(entry) = &life.prompt.items[1] else { panic!("an entry") };
    life.prompt.items[1] = Item::Entry(Arc::new(entry.as_ref().clone()));
    assert_eq!(fresh(&vendor_model, &mut life), 0);
}

#[test]
fn a_pending_inbox_entry_that_grew_is_encoded_anew() {
    for vendor_model in models() {
        let mut life = Life::new();
        life.wake(1, "[INBOX — 1]", "[WORKSPACE]");
        fresh(&vendor_model, &mut life);
        let mut again = Life::new();
        again.wake(1, "[INBOX — 2]", "[WORKSPACE]");
        again.memo = std::mem::take(&mut life.memo);
        assert_eq!(fresh(&vendor_model, &mut again), 2);
    }
}

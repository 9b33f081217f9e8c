//! The promises of the ports as named functions, run unchanged on every backend: a second store
//! passes when [`contract_tests!`](crate::contract_tests) and, where it outlives its process,
//! [`durable_contract_tests!`](crate::durable_contract_tests) pass.
//!
//! This module must not know any backend.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept is a failed test")]

pub mod accept;
pub mod again;
pub mod canceling;
pub mod commit;
pub mod dead_letters;
pub mod detached;
pub mod durable;
pub mod goals;
pub mod held;
pub mod life;
pub mod lived;
pub mod outside;
pub mod registry;
pub mod shown;
pub mod walks;
mod world;

use std::sync::Arc;

use agent::port::{BoxFuture, Calls, Lookup, Reader, Registry, Store};

/// A store under test: all its ports, and how it is ended and opened again.
pub struct Backend {
    /// The durable truth of the living.
    pub store: Arc<dyn Store>,
    /// Answers to calls.
    pub calls: Arc<dyn Calls>,
    /// Reading on an agent's behalf.
    pub lookup: Arc<dyn Lookup>,
    /// What administrators do.
    pub registry: Arc<dyn Registry>,
    /// Paged questions.
    pub reader: Arc<dyn Reader>,
    /// How many transactions that wrote something were committed so far.
    pub transactions: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Ends it in peace.
    pub close: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
    /// Opens the same store again, once everything above is dropped; the error is in words.
    pub open: Arc<dyn Fn() -> Result<Backend, String> + Send + Sync>,
}

impl Backend {
    /// Ends the store in peace and opens it again.
    pub async fn reopened(self) -> Self {
        let Self { close, open, .. } = self;
        close().await;
        open().expect("a store that was closed opens again")
    }

    /// Ends the store as a crash would, without a word, and opens it again.
    pub fn crashed(self) -> Self {
        let open = Arc::clone(&self.open);
        drop(self);
        open().expect("a store that crashed opens again")
    }
}

/// One named test per promise that every store keeps. `$make` is an async function that gives an
/// empty [`Backend`].
#[macro_export]
macro_rules! contract_tests {
    ($make:path) => {
        $crate::promises! { $make =>
            accept::a_message_and_the_events_it_causes_are_accepted_together,
            accept::a_message_of_a_stranger_or_in_a_closed_or_unknown_space_is_denied,
            accept::an_id_sent_five_times_is_one_message_and_one_event,
            accept::a_message_id_of_another_message_is_denied,
            accept::a_request_key_answers_the_same_body_and_refuses_another,
            accept::an_event_is_known_for_ever_and_wakes_once,
            accept::a_mention_replaces_the_plain_event_of_whom_it_names,
            accept::the_ninth_agent_message_of_a_root_is_held_and_a_persons_never,
            accept::a_space_is_quiet_for_agents_that_are_not_named_by_its_rule,
            accept::a_full_inbox_refuses_services_and_takes_all_that_is_said,
            accept::a_debounce_delays_the_waking_and_takes_along_what_came_meanwhile,
            accept::seqs_of_a_space_have_no_gaps_under_concurrency,
            life::a_cycle_opens_decides_and_closes,
            life::opening_appends_nothing_and_counts_only_what_it_says,
            life::once_the_first_of_what_waits_is_due_all_of_it_is_in_the_order_in_which_it_came,
            life::what_is_told_by_a_clock_that_is_ahead_counts_from_now,
            life::a_changed_config_ends_a_rest,
            life::who_rests_is_found_by_the_spaces_that_wait_for_it,
            life::events_given_back_have_failed_once_more_only_where_they_are_to_blame,
            life::an_event_is_lived_at_most_once,
            life::a_dead_event_is_never_due_again,
            life::who_is_due_is_looked_through_in_pages_most_overdue_first,
            life::a_skip_leaves_log_runs_and_ordinals_as_they_were,
            life::an_open_cycle_is_due_until_it_rests_and_a_held_agent_is_not,
            life::a_suspended_agent_keeps_its_events_and_is_never_due,
            life::an_operators_word_ends_a_rest,
            life::an_agent_that_is_set_apart_keeps_its_events_until_it_is_resumed,
            life::a_warm_waking_reads_no_window,
            life::a_due_plan_fires_one_event_once,
            life::plans_of_a_suspended_agent_fire_once_when_it_is_resumed,
            life::a_plan_that_finds_the_inbox_full_fires_later,
            life::a_view_is_a_row_of_its_own_and_the_log_stays_whole,
            life::layers_come_back_with_the_open_cycle,
            life::retiring_ends_plans_and_nothing_opens_again,
            commit::a_zombie_is_lost_and_writes_nothing,
            commit::a_repeated_commit_answers_as_the_first_time_and_writes_once,
            commit::two_takeovers_of_one_cycle_have_one_winner,
            commit::a_refused_commit_names_the_calls_and_writes_nothing,
            commit::a_goal_or_plan_of_another_agent_is_refused,
            commit::a_canceled_cycle_may_settle_and_close_but_not_decide_or_start,
            commit::what_an_agent_says_is_said_with_its_decision,
            commit::memories_are_versioned_and_the_last_word_stands,
            commit::a_glance_tells_what_others_did_meanwhile,
            commit::an_urgent_message_of_the_requester_is_shown_in_full,
            commit::a_start_behind_a_barrier_is_refused_after_an_urgent_word_of_the_requester,
            commit::an_urgent_word_is_heard_behind_any_backlog_and_never_before_its_speakers_first,
            commit::what_waits_is_read_up_to_a_number_of_bytes_and_lived_in_order,
            commit::a_look_brings_of_each_speaker_what_was_said_first_whatever_waits,
            commit::totals_count_receipts_and_skips,
            commit::two_agents_speak_into_each_others_spaces_at_once,
            again::an_event_that_left_is_not_settled_and_that_is_no_damage,
            again::a_cancel_before_a_cycle_is_taken_up_again_holds_and_its_id_leads_to_a_run,
            again::the_calls_of_the_open_step_come_back_and_those_before_it_are_not_read,
            again::a_canceled_cycle_of_a_suspended_agent_is_due_and_may_be_closed,
            again::the_parked_cycle_of_a_retired_agent_is_due_and_may_be_closed,
            goals::goals_are_versioned_and_the_last_word_stands,
            goals::a_sub_goal_of_another_agents_goal_is_refused,
            held::what_no_other_agent_hears_does_not_count_towards_the_bound,
            held::a_persons_word_lets_go_what_was_held_there_in_its_order,
            held::time_lets_go_what_was_held_and_wakes_whom_it_was_held_from,
            held::time_alone_lets_go_only_so_much_of_one_root,
            held::a_long_release_goes_on_with_the_next_sweep,
            held::nothing_is_let_go_to_an_agent_that_is_set_apart,
            held::what_is_let_go_before_a_persons_words_hides_none_of_them,
            held::a_held_event_is_taken_back_or_let_go_by_hand,
            dead_letters::a_dead_event_is_sent_again_and_its_attempts_begin_anew,
            dead_letters::a_lived_or_skipped_event_is_sent_again_as_one_that_cites_it,
            dead_letters::what_waits_for_an_agent_that_retires_is_taken_back,
            dead_letters::a_request_key_sends_an_event_again_once,
            dead_letters::a_dropped_event_keeps_its_row_and_never_comes_back,
            dead_letters::a_waiting_event_is_taken_back_and_a_taken_one_is_not,
            dead_letters::how_far_an_event_has_come_is_told_at_each_step,
            canceling::a_canceled_call_is_answered_at_once_and_only_once,
            canceling::a_canceled_call_never_starts,
            canceling::an_outcome_that_comes_after_a_cancel_is_not_written,
            canceling::who_sleeps_on_a_canceled_call_is_due_and_who_rests_for_a_failure_is_not,
            canceling::a_canceled_call_that_no_cycle_waits_for_is_told_by_an_event,
            canceling::a_canceled_call_that_is_shown_says_so,
            canceling::only_calls_without_an_answer_are_listed_as_open,
            detached::a_detached_call_is_found_taken_up_and_answered_by_an_event,
            detached::what_its_cycle_detaches_is_awaited_no_more,
            detached::an_answer_that_comes_before_the_detachment_is_told_once,
            detached::a_late_answer_is_told_in_short_and_kept_whole,
            detached::a_late_answer_descends_from_what_asked_for_it,
            outside::a_call_is_answered_once,
            outside::an_awaited_answer_makes_its_agent_due,
            outside::a_late_answer_becomes_an_event,
            outside::an_agent_reads_only_what_is_its_own,
            outside::an_agent_of_many_spaces_knows_the_liveliest_and_finds_the_others,
            outside::of_a_crowded_space_the_first_members_are_known_and_all_can_be_found,
            outside::pages_lead_through_everything_once,
            outside::the_recent_past_is_read_across_spaces_and_agents,
            registry::the_world_is_founded_once,
            registry::handles_are_unique_and_unknown_ids_are_named,
            registry::an_amendment_makes_a_revision_only_where_something_changes,
            registry::a_space_is_amended_only_where_something_changes,
            registry::members_raise_the_rev_and_a_full_space_takes_no_more,
            registry::a_key_is_found_by_its_hash_and_replaced_by_its_label,
            registry::only_an_open_cycle_can_be_canceled,
            shown::a_visible_call_is_one_message_that_follows_its_row,
            shown::a_visible_call_causes_no_events,
            shown::visible_calls_and_messages_of_a_step_come_in_the_order_of_its_calls,
            shown::a_visible_call_is_left_out_where_its_agent_may_not_speak,
            shown::a_visible_call_shows_how_it_ended_whoever_tells,
            walks::random_walks_of_the_protocol_are_walked_alike,
            walks::the_ways_on_which_a_flaw_breaks_a_promise_are_not_walked,
        }
    };
}

/// One named test per promise that a store keeps beyond its process.
#[macro_export]
macro_rules! durable_contract_tests {
    ($make:path) => {
        $crate::promises! { $make =>
            durable::what_was_accepted_survives_a_crash,
            durable::an_id_is_a_duplicate_also_after_years_and_restarts,
            durable::a_start_ends_a_rest_for_a_provider_with_all_that_waits,
            durable::an_open_cycle_is_due_again_after_a_crash,
            durable::receipts_of_steps_survive_a_crash_and_leave_with_their_cycle,
            durable::a_death_is_told_to_whoever_takes_up_what_was_being_lived_then,
            durable::a_waking_is_clean_after_a_peaceful_end_and_suspect_after_a_crash,
            durable::a_second_opening_is_refused_while_the_first_lives,
            durable::many_accepts_share_few_transactions,
            durable::a_closed_store_says_so,
        }
    };
}

/// A module with a test per promise.
#[doc(hidden)]
#[macro_export]
macro_rules! promises {
    ($make:path => $($area:ident :: $promise:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $crate::contract::$area::$promise($make().await).await;
            }
        )*
    };
}

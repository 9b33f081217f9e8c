//! The promises of the ports as named functions, run unchanged on every backend. A store keeps them if
//! [`contract_tests!`](crate::contract_tests) pass and, if it outlives its process,
//! [`durable_contract_tests!`](crate::durable_contract_tests) pass too.
//!
//! This module must not know any backend.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept is a failed test")]

pub mod accept;
pub mod alerts;
pub mod approvals;
pub mod canceling;
pub mod commit;
pub mod continued;
pub mod dead_letters;
pub mod detached;
pub mod durable;
pub mod goals;
pub mod held;
pub mod hooks;
pub mod life;
pub mod lists;
pub mod memories;
pub mod outside;
pub mod pauses;
pub mod plans;
pub mod recall;
pub mod recent;
pub mod registry;
pub mod rules;
pub mod sample;
pub mod targets;
pub mod tools;
pub mod visible_calls;
pub mod walks;
pub mod workers;
mod world;

use std::sync::Arc;

use agent::port::{
    Approvals, BoxFuture, Calls, HookBook, Lookup, Reader, Registry, Store, TargetBook, ToolBook,
};

/// A store under test: all its ports, and how to close and reopen it.
pub struct Backend {
    /// The durable state of running agents.
    pub store: Arc<dyn Store>,
    /// Calls that wait for people.
    pub approvals: Arc<dyn Approvals>,
    /// Answers to tool calls.
    pub calls: Arc<dyn Calls>,
    /// What an agent may read.
    pub lookup: Arc<dyn Lookup>,
    /// Changes by administrators.
    pub registry: Arc<dyn Registry>,
    /// Paged queries.
    pub reader: Arc<dyn Reader>,
    /// Declared tools.
    pub tool_book: Arc<dyn ToolBook>,
    /// Hooks and their deliveries.
    pub hook_book: Arc<dyn HookBook>,
    /// Targets and what waits for them.
    pub target_book: Arc<dyn TargetBook>,
    /// Number of committed transactions that wrote something.
    pub transactions: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Closes the store gracefully.
    pub close: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
    /// Reopens the same store after everything above is dropped. The error is a readable text.
    pub open: Arc<dyn Fn() -> Result<Backend, String> + Send + Sync>,
}

impl Backend {
    /// Closes the store gracefully and reopens it.
    pub async fn reopened(self) -> Self {
        let Self { close, open, .. } = self;
        close().await;
        open().expect("a store that was closed opens again")
    }

    /// Drops the store without closing it, as a crash does, and reopens it.
    pub fn crashed(self) -> Self {
        let open = Arc::clone(&self.open);
        drop(self);
        open().expect("a store that crashed opens again")
    }
}

/// One named test per promise that every store keeps. `$make` is an async function that returns an
/// empty [`Backend`].
#[macro_export]
macro_rules! contract_tests {
    ($make:path) => {
        $crate::promises! { $make =>
            accept::a_message_and_the_events_it_causes_are_accepted_together,
            accept::a_message_of_a_non_member_or_in_a_closed_or_unknown_space_is_denied,
            accept::an_id_sent_five_times_is_one_message_and_one_event,
            accept::a_message_id_that_is_taken_is_denied,
            accept::a_request_key_repeats_its_answer_and_refuses_another_body,
            accept::an_event_id_is_recognized_forever_and_wakes_once,
            accept::a_mention_replaces_the_plain_event_of_the_mentioned_agent,
            accept::the_ninth_agent_message_of_a_root_is_held_but_a_persons_never,
            accept::a_space_that_wakes_on_mentions_skips_plain_agent_messages,
            accept::a_full_inbox_refuses_service_events_and_accepts_all_messages,
            accept::a_debounce_delays_the_activation_and_includes_later_events,
            accept::seqs_of_a_space_have_no_gaps_under_concurrency,
            life::a_cycle_opens_decides_and_closes,
            life::opening_appends_nothing_and_writes_only_the_counts_it_lists,
            life::once_the_first_waiting_event_is_due_all_are_shown_in_order_of_arrival,
            life::times_written_by_a_clock_that_was_ahead_count_from_now,
            life::a_changed_config_ends_a_backoff,
            life::idle_agents_are_listed_for_the_spaces_that_wait_for_them,
            life::a_returned_event_counts_an_attempt_only_if_it_is_to_blame,
            life::an_event_is_processed_at_most_once,
            life::a_dead_event_is_never_due_again,
            life::due_agents_are_listed_in_pages_most_overdue_first,
            life::a_skip_changes_no_log_runs_or_ordinals,
            life::an_open_cycle_is_due_and_a_parked_one_only_after_its_wait,
            life::a_suspended_agent_keeps_its_events_and_is_never_due,
            life::resuming_an_agent_ends_its_wait,
            life::a_quarantined_agent_keeps_its_events_until_it_is_resumed,
            life::a_warm_activation_reads_no_window,
            life::a_view_is_stored_separately_and_the_log_stays_complete,
            life::layers_are_returned_with_the_open_cycle,
            life::layers_that_stay_are_returned_as_long_as_their_view_stands,
            life::layers_that_vanish_are_returned_with_their_cycle_alone,
            life::a_retired_agent_fires_no_plans_and_accepts_nothing,
            commit::an_outdated_node_is_refused_and_writes_nothing,
            commit::a_repeated_commit_is_recognized_and_written_once,
            commit::two_takeovers_of_one_cycle_have_one_winner,
            commit::a_refused_commit_names_the_calls_and_writes_nothing,
            commit::a_goal_or_plan_of_another_agent_is_refused,
            commit::a_canceled_cycle_may_settle_and_close_but_not_decide_or_start,
            commit::messages_of_an_agent_are_posted_with_its_decision,
            commit::memories_are_versioned_and_the_last_write_wins,
            commit::a_glance_shows_what_others_did_meanwhile,
            commit::an_urgent_message_of_the_requester_is_shown_in_full,
            commit::a_start_with_a_barrier_is_refused_after_an_urgent_message_of_the_requester,
            commit::an_urgent_message_is_shown_despite_any_backlog_after_earlier_ones_of_its_sender,
            commit::waiting_events_are_read_up_to_a_byte_limit_and_processed_in_order,
            commit::a_glance_shows_the_earliest_waiting_events_of_each_sender,
            commit::totals_count_runs_and_skips,
            commit::two_agents_post_to_shared_spaces_at_once,
            continued::settling_an_event_that_is_gone_is_refused_and_writes_nothing,
            continued::a_cancel_before_a_takeover_stays_in_force_and_its_cycle_has_a_run,
            continued::only_the_calls_of_the_open_step_are_read,
            continued::a_canceled_cycle_of_a_suspended_agent_is_due_and_can_be_closed,
            continued::the_parked_cycle_of_a_retired_agent_is_due_and_can_be_closed,
            goals::goals_are_versioned_and_the_last_write_wins,
            goals::a_goal_is_of_whoever_has_written_its_text,
            goals::a_sub_goal_of_another_agents_goal_is_refused,
            plans::a_due_plan_fires_one_event_once,
            plans::plans_of_a_suspended_agent_fire_once_when_it_is_resumed,
            plans::a_plan_that_finds_the_inbox_full_fires_later,
            plans::a_plan_that_skips_what_it_missed_fires_for_no_late_slot,
            plans::a_plan_that_wants_all_its_slots_gets_an_event_for_each,
            plans::a_plan_that_has_fired_for_the_last_time_has_ended,
            plans::an_operator_sets_and_deletes_plans_within_the_limit,
            plans::an_operators_plan_replaces_the_one_of_its_name,
            plans::an_agent_cannot_change_a_plan_that_an_operator_has_set,
            plans::the_plans_of_a_config_follow_it,
            plans::a_heartbeat_fires_only_if_its_agent_has_something_to_look_at,
            held::messages_that_reach_no_other_agent_do_not_count_towards_the_limit,
            held::a_persons_message_releases_the_held_events_of_its_space_in_order,
            held::time_releases_held_events_and_wakes_their_agent,
            held::time_alone_releases_a_limited_number_of_events_per_root,
            held::a_long_release_continues_with_the_next_sweep,
            held::nothing_is_released_to_a_quarantined_agent,
            held::released_events_do_not_hide_urgent_messages_of_a_person,
            held::an_operator_cancels_or_releases_a_held_event,
            hooks::a_delivery_is_one_event_of_each_agent,
            hooks::a_delivery_that_its_sender_names_is_bound_to_its_body,
            hooks::a_delivery_passes_by_retired_agents_and_waits_for_room,
            hooks::the_log_of_a_hook_is_bounded_for_each_outcome,
            alerts::what_ends_for_good_is_an_alert,
            alerts::of_each_agent_the_newest_alerts_are_kept,
            targets::a_target_is_told_what_it_asked_for_and_nothing_else,
            targets::a_target_is_told_which_call_waits_for_a_person,
            targets::deliveries_keep_their_order_and_hold_back_no_other_target,
            targets::it_is_known_when_the_next_delivery_is_due_and_that_there_may_be_one,
            targets::a_dead_delivery_is_listed_and_retried_in_its_place,
            targets::a_target_that_is_off_keeps_what_waits_until_it_is_on_again,
            targets::a_late_answer_of_the_old_address_neither_stops_nor_delays_the_new_one,
            dead_letters::a_dead_event_is_sent_again_with_its_attempts_reset,
            dead_letters::an_agent_lists_how_many_of_its_events_are_dead_and_why,
            dead_letters::a_processed_or_skipped_event_is_sent_again_as_a_new_event_that_cites_it,
            dead_letters::waiting_events_of_a_retiring_agent_are_canceled,
            dead_letters::a_request_key_sends_an_event_again_once,
            dead_letters::a_dropped_event_keeps_its_row_and_is_never_accepted_again,
            dead_letters::a_waiting_event_can_be_canceled_and_a_taken_one_cannot,
            dead_letters::the_progress_of_an_event_is_reported_at_each_step,
            canceling::a_canceled_call_is_answered_at_once_and_only_once,
            canceling::a_canceled_call_never_starts,
            canceling::an_outcome_that_comes_after_a_cancel_is_not_written,
            canceling::canceling_a_call_wakes_its_parked_cycle_but_does_not_shorten_a_backoff,
            canceling::a_canceled_call_that_no_cycle_waits_for_becomes_an_event,
            canceling::a_visible_call_shows_that_it_is_canceled,
            canceling::only_calls_without_an_outcome_are_listed_as_open,
            approvals::one_answer_to_a_call_counts,
            approvals::only_those_who_may_answer_a_call_do,
            approvals::who_approves_a_call_is_decided_by_the_config_when_the_answer_comes,
            approvals::an_approval_makes_its_agent_due_and_is_seen_in_a_glance,
            approvals::a_pause_that_comes_after_its_answer_ends_at_once,
            approvals::a_refusal_is_the_outcome_of_its_call_and_the_card_says_so,
            approvals::a_late_call_is_found_only_after_its_approval,
            approvals::a_late_refusal_and_an_expiry_are_events,
            approvals::people_are_reminded_once_and_what_nobody_answers_ends,
            approvals::what_is_canceled_waits_for_nobody,
            approvals::an_answer_to_a_question_is_its_outcome,
            pauses::an_agent_that_waits_for_a_person_is_due_as_soon_as_an_event_is,
            pauses::a_pause_for_a_person_does_not_begin_while_events_wait,
            pauses::a_call_that_nobody_can_answer_any_more_ends,
            pauses::a_message_answers_the_question_that_waits_in_its_space,
            rules::rules_are_kept_with_the_answer_that_gives_them,
            rules::a_persons_rule_is_for_the_space_that_was_asked_and_is_that_persons_to_delete,
            rules::no_call_is_decided_or_begun_by_a_rule_that_does_not_hold_any_more,
            rules::a_persons_rule_counts_only_while_that_person_might_approve_the_call,
            rules::a_persons_rule_for_a_call_without_a_space_is_for_such_calls_only,
            rules::each_person_has_rules_of_their_own,
            rules::rules_are_listed_in_pages_without_leaving_any_out,
            approvals::what_waits_for_people_is_listed,
            detached::a_detached_call_is_found_taken_over_and_answered_by_an_event,
            detached::a_detached_call_is_no_longer_awaited,
            detached::an_answer_before_the_detachment_is_reported_once,
            detached::a_late_answer_is_shown_shortened_and_stored_in_full,
            detached::a_late_answer_keeps_the_root_and_hop_of_its_call,
            workers::a_call_of_workers_is_claimed_by_one_at_a_time_and_answered_by_its_newest,
            workers::only_open_calls_of_workers_can_be_claimed,
            workers::a_call_that_may_not_begin_is_given_to_no_worker,
            workers::a_call_that_waits_for_a_person_is_given_to_no_worker,
            workers::a_call_that_is_given_up_gets_another_outcome_if_a_worker_has_it,
            workers::what_a_worker_says_after_all_is_an_event_if_its_agent_was_told_nothing_better,
            outside::a_call_is_answered_once,
            outside::an_awaited_answer_makes_its_agent_due,
            outside::a_late_answer_becomes_an_event,
            outside::an_agent_reads_only_spaces_it_is_a_member_of,
            outside::an_agent_in_many_spaces_is_given_the_most_active_and_can_look_up_the_others,
            outside::an_agent_is_given_the_first_members_of_a_large_space_and_can_look_up_all,
            outside::pages_return_every_row_once,
            outside::recent_items_are_read_across_spaces_and_agents,
            lists::lists_return_only_what_their_filters_want,
            lists::a_page_ends_before_it_has_too_many_bytes,
            lists::a_last_page_that_is_exactly_full_names_no_next_one,
            lists::times_of_messages_never_decrease_within_a_space,
            lists::a_request_is_noted_once_with_its_subject,
            lists::a_request_is_forgotten_after_its_time,
            memories::memories_come_in_the_order_of_pin_importance_and_last_use,
            memories::an_operator_pins_as_many_memories_as_always_have_room,
            memories::an_agent_and_an_operator_together_pin_no_more_than_always_has_room,
            memories::entries_and_memories_keep_their_trust,
            memories::a_copied_memory_keeps_its_trust,
            recall::an_agent_finds_what_it_was_shown_what_it_wrote_and_what_it_remembers,
            recall::a_cycle_does_not_find_the_events_that_it_was_woken_for,
            recall::an_agent_finds_nothing_of_another_agent,
            recall::of_a_space_that_it_left_an_agent_finds_what_it_processed,
            recall::messages_of_its_spaces_are_found_and_those_of_other_spaces_are_not,
            recall::a_search_can_be_limited_to_a_time_a_space_and_a_kind,
            recall::a_search_in_a_space_that_the_agent_never_knew_is_refused,recall::a_search_says_when_only_the_newest_spaces_are_searched,recall::words_are_found_in_every_script,
            recall::a_strange_query_finds_words_or_nothing,
            recall::the_rarest_words_decide_what_is_found_first,
            recall::texts_that_say_almost_the_same_do_not_hide_another_one,
            recent::messages_that_woke_nobody_are_given_with_the_next_event_and_once,
            recent::a_message_that_the_agent_skipped_is_not_given_again,
            recent::messages_that_the_agent_knows_or_will_be_shown_are_not_given,
            recent::few_earlier_messages_are_given_and_none_of_a_space_that_was_left,
            recent::a_new_member_is_given_what_was_said_before,
            registry::the_first_world_is_created_once,
            registry::handles_are_unique_and_unknown_ids_are_named,
            registry::a_retired_agent_is_not_counted_among_the_members_of_a_space,
            registry::the_handles_of_a_retired_agent_and_a_closed_space_can_be_taken,
            registry::a_closed_space_is_opened_again,
            registry::an_operators_change_of_a_memory_leaves_an_open_cycle_valid,
            registry::changing_an_agent_creates_a_revision_only_if_a_cycle_uses_the_old_one,
            registry::a_space_is_updated_only_if_something_changes,
            registry::membership_changes_raise_the_rev_and_a_full_space_accepts_no_more,
            registry::a_key_is_found_by_its_hash_and_replaced_by_its_label,
            registry::a_revoked_key_is_listed_and_not_found,
            registry::a_key_keeps_its_expiry_and_its_last_use,
            registry::a_rotated_key_has_a_successor_and_expires,
            registry::a_request_for_a_key_creates_one_key_however_often_it_is_repeated,
            registry::only_an_open_cycle_can_be_canceled,
            visible_calls::a_visible_call_is_one_message_that_is_updated_with_its_row,
            visible_calls::a_visible_call_causes_no_events,
            visible_calls::visible_calls_and_messages_of_a_step_are_posted_in_the_order_of_its_calls,
            visible_calls::a_visible_call_is_not_shown_where_its_agent_may_not_post,
            visible_calls::a_visible_call_shows_every_kind_of_outcome,
            walks::the_store_behaves_like_the_model_on_random_walks,
            walks::the_store_differs_from_the_model_where_a_flaw_breaks_a_promise,
        }
    };
}

/// One named test per promise of a store that outlives its process.
#[macro_export]
macro_rules! durable_contract_tests {
    ($make:path) => {
        $crate::promises! { $make =>
            hooks::hooks_and_their_log_are_kept_and_survive_a_restart,
            targets::whether_a_server_outside_is_told_is_a_fact_of_the_agents_that_post_there,
            targets::targets_and_what_waits_for_them_survive_a_restart,
            alerts::alerts_are_kept_with_the_commit_in_which_they_happen,
            tools::declared_tools_are_kept_by_name_and_survive_a_restart,
            approvals::what_waits_for_a_person_survives_a_crash,
            durable::accepted_messages_and_events_survive_a_crash,
            durable::an_id_is_recognized_even_after_years_and_restarts,
            durable::a_restart_ends_a_backoff_for_a_provider,
            recall::the_archive_is_found_after_a_crash,
            durable::an_open_cycle_is_due_again_after_a_crash,
            durable::step_records_survive_a_crash_and_move_to_the_run,
            durable::a_crash_is_reported_only_to_activations_that_continue_interrupted_work,
            durable::a_panic_is_read_until_an_opening_has_counted_it,
            durable::an_activation_is_clean_after_a_graceful_stop_and_suspect_after_a_crash,
            durable::a_store_that_is_in_use_cannot_be_opened_again,
            durable::many_accepts_share_few_transactions,
            durable::a_closed_store_returns_an_error,
        }
    };
}

/// One test function per promise.
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

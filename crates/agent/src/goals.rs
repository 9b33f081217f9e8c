//! The tree of an agent's goals: the order in which goals are shown, the sub-goals of a goal, and which changes are
//! valid.
//!
//! Must not know tools or stores; both call this module. Stored rows that the rules would not accept (a ring, a missing
//! parent) are shown anyway.

use std::collections::{HashMap, HashSet};

use crate::changes::GoalChange;
use crate::event::Trust;
use crate::id::GoalId;
use crate::life::{Goal, GoalStatus};
use crate::limits;

/// A goal and its depth in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch<'a> {
    /// The goal.
    pub goal: &'a Goal,
    /// Number of goals above it.
    pub depth: usize,
}

/// Why a change of goals is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGoals {
    /// More than [`limits::GOALS_MAX`].
    #[error("wanted at most {max} goals in all, these would make {0}", max = limits::GOALS_MAX)]
    TooMany(usize),
    /// A goal would be its own sub-goal, directly or through others.
    #[error("the goal `{0}` would be a sub-goal of itself")]
    Ring(GoalId),
    /// More than [`limits::GOAL_LEVELS_MAX`].
    #[error("wanted at most {max} levels of goals, `{0}` would be deeper", max = limits::GOAL_LEVELS_MAX)]
    TooDeep(GoalId),
}

/// All goals, each once: a goal before its sub-goals, siblings in the given order. A goal whose parent is missing is at
/// the top level.
pub fn tree(goals: &[Goal]) -> Vec<Branch<'_>> {
    let known: HashSet<GoalId> = goals.iter().map(|goal| goal.id).collect();
    let mut below: HashMap<Option<GoalId>, Vec<&Goal>> = HashMap::new();
    for goal in goals.iter().rev() {
        below.entry(goal.parent.filter(|parent| known.contains(parent))).or_default().push(goal);
    }
    let (mut shown, mut branches) = (HashSet::new(), Vec::with_capacity(goals.len()));
    // A ring has no top-level goal: after all others, its first goal is treated as one.
    let tops = below.get(&None).into_iter().flatten().rev().copied();
    for top in tops.chain(goals) {
        let mut next = vec![(top, 0)];
        while let Some((goal, depth)) = next.pop() {
            if shown.insert(goal.id) {
                branches.push(Branch { goal, depth });
                let children = below.get(&Some(goal.id)).into_iter().flatten();
                next.extend(children.map(|child| (*child, depth + 1)));
            }
        }
    }
    branches
}

/// The tree without finished goals: goals that are active or have an active goal below them.
pub fn pursued(goals: &[Goal]) -> Vec<Branch<'_>> {
    let mut kept = Vec::new();
    // Walks from the last to the first; `active` says for each depth whether an active goal was seen there.
    let mut active: Vec<bool> = Vec::new();
    for branch in tree(goals).into_iter().rev() {
        active.resize(branch.depth + 2, false);
        if branch.goal.status == GoalStatus::Active || active[branch.depth + 1] {
            active[branch.depth] = true;
            kept.push(branch);
        }
        active.truncate(branch.depth + 1);
    }
    kept.reverse();
    kept
}

/// The sub-goals of a goal and theirs, in the order of the tree.
pub fn below(goals: &[Goal], id: GoalId) -> Vec<GoalId> {
    let branches = tree(goals);
    let Some(at) = branches.iter().position(|branch| branch.goal.id == id) else { return Vec::new() };
    let deeper = |branch: &&Branch<'_>| branch.depth > branches[at].depth;
    branches[at + 1..].iter().take_while(deeper).map(|branch| branch.goal.id).collect()
}

/// The goals after these changes, highest priority first, in the order in which a store returns them.
pub fn amended(goals: &[Goal], changes: &[GoalChange]) -> Vec<Goal> {
    let mut all: Vec<Goal> = goals.to_vec();
    for change in changes {
        let id = match change {
            GoalChange::Set(goal) => goal.id,
            GoalChange::Delete(id) => *id,
        };
        all.retain(|goal| goal.id != id);
        if let GoalChange::Set(goal) = change {
            all.push(goal.clone());
        }
    }
    all.sort_by_key(|goal| (std::cmp::Reverse(goal.priority), goal.id));
    all
}

/// The trust of a goal after a change by somebody of that trust: whoever has written its text is whom it comes from.
pub fn trust_after(before: Option<&Goal>, after: &Goal, by: Trust) -> Trust {
    before.filter(|before| before.description == after.description).map_or(by, |before| before.trust)
}

/// Checks the number of goals, their depth, and that there is no ring.
pub fn check(goals: &[Goal]) -> Result<(), BadGoals> {
    if goals.len() > limits::GOALS_MAX {
        return Err(BadGoals::TooMany(goals.len()));
    }
    let parents: HashMap<GoalId, Option<GoalId>> = goals.iter().map(|goal| (goal.id, goal.parent)).collect();
    for goal in goals {
        let (mut above, mut seen) = (goal.parent, HashSet::from([goal.id]));
        while let Some(parent) = above {
            if parent == goal.id {
                return Err(BadGoals::Ring(goal.id));
            }
            if !seen.insert(parent) {
                // A ring above this goal; the goals in the ring are reported when the loop reaches them.
                break;
            }
            above = parents.get(&parent).copied().flatten();
        }
        if seen.len() > limits::GOAL_LEVELS_MAX {
            let ring = goals.iter().find(|other| in_ring(other, &parents));
            return Err(ring.map_or(BadGoals::TooDeep(goal.id), |ring| BadGoals::Ring(ring.id)));
        }
    }
    Ok(())
}

fn in_ring(goal: &Goal, parents: &HashMap<GoalId, Option<GoalId>>) -> bool {
    let above = |id: &GoalId| parents.get(id).copied().flatten();
    std::iter::successors(goal.parent, above).take(parents.len()).any(|parent| parent == goal.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn id(n: u128) -> GoalId {
        GoalId(Uuid::from_u128(n))
    }

    fn goal(n: u128, parent: u128) -> Goal {
        let parent = (parent > 0).then(|| id(parent));
        Goal {
            id: id(n),
            parent,
            description: n.to_string(),
            priority: 5,
            status: GoalStatus::Active,
            trust: Default::default(),
        }
    }

    fn finished(n: u128, parent: u128) -> Goal {
        Goal { status: GoalStatus::Completed, ..goal(n, parent) }
    }

    fn shape(branches: &[Branch<'_>]) -> String {
        let each = branches.iter().map(|b| format!("{}{}", ".".repeat(b.depth), b.goal.description));
        each.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_goal_is_in_the_tree_once_even_if_rows_are_inconsistent() {
        for (goals, wanted) in [
            (vec![goal(3, 1), goal(1, 0), goal(4, 3), goal(2, 0), goal(5, 1)], "1 .3 ..4 .5 2"),
            (vec![goal(1, 9), goal(2, 1)], "1 .2"),
            (vec![goal(1, 2), goal(2, 1), goal(3, 2), goal(4, 0)], "4 1 .2 ..3"),
            (vec![goal(1, 1)], "1"),
            (vec![], ""),
        ] {
            assert_eq!(shape(&tree(&goals)), wanted);
        }
    }

    #[test]
    fn finished_goals_are_left_out_unless_an_active_goal_is_below() {
        let goals = [
            finished(1, 0),
            finished(2, 1),
            goal(3, 2),
            finished(4, 2),
            finished(5, 0),
            goal(6, 0),
            finished(7, 6),
        ];
        assert_eq!(shape(&pursued(&goals)), "1 .2 ..3 6");
        assert_eq!(shape(&pursued(&[finished(1, 0), finished(2, 1)])), "");
    }

    #[test]
    fn below_returns_the_sub_goals_of_a_goal_at_all_levels() {
        let goals = [goal(1, 0), goal(2, 1), goal(3, 2), goal(4, 1), goal(5, 0)];
        assert_eq!(below(&goals, id(1)), [2, 3, 4].map(id));
        assert_eq!((below(&goals, id(5)), below(&goals, id(9))), (vec![], vec![]));
    }

    #[test]
    fn rings_and_too_deep_or_too_many_goals_are_refused() {
        assert_eq!(check(&[goal(1, 0), goal(2, 1), goal(3, 9)]), Ok(()));
        assert_eq!(check(&[goal(1, 1)]), Err(BadGoals::Ring(id(1))));
        assert_eq!(check(&[goal(9, 1), goal(1, 2), goal(2, 1)]), Err(BadGoals::Ring(id(1))));
        let chain: Vec<_> = (1..=6).map(|n| goal(n, n - 1)).collect();
        assert_eq!(check(&chain[..limits::GOAL_LEVELS_MAX]), Ok(()));
        assert_eq!(check(&chain), Err(BadGoals::TooDeep(id(6))));
        let ring: Vec<_> = (1..=6).map(|n| goal(n, if n == 1 { 6 } else { n - 1 })).collect();
        assert_eq!(check(&ring), Err(BadGoals::Ring(id(1))));
        let many: Vec<_> = (1..=101).map(|n| goal(n, 0)).collect();
        assert_eq!((check(&many), check(&many[1..])), (Err(BadGoals::TooMany(101)), Ok(())));
    }

    #[test]
    fn changes_are_applied_in_order_and_the_last_one_wins() {
        let urgent = Goal { priority: 9, ..goal(3, 0) };
        let changes = [
            GoalChange::Set(goal(3, 0)),
            GoalChange::Delete(id(1)),
            GoalChange::Set(urgent.clone()),
            GoalChange::Delete(id(7)),
        ];
        assert_eq!(amended(&[goal(1, 0), goal(2, 0)], &changes), [urgent, goal(2, 0)]);
    }
}

//! A random history: the messages to an agent and their times, the replies of its model, and what happens to the
//! process. It can be printed and reduced.

use std::fmt;

use agent::call::Effect;
use agent::config::Awareness;

/// Random numbers determined by a seed (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// One call that the model makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Reads.
    Look,
    /// May be repeated under its key.
    Put,
    /// Must not be repeated.
    Fire,
    /// Runs until the gate is opened.
    Slow,
    /// Reads, asynchronously.
    Ask,
    /// As `slow`, asynchronously.
    Order,
    /// Posts in a space where it is a member.
    Post,
    /// Posts in a space from which it may have been removed.
    PostInTheDen,
    /// Sets a memory.
    Remember,
    /// Peeks into the inbox.
    Peek,
    /// Fails.
    Fail,
    /// Calls an unknown tool.
    Nonsense,
    /// Calls with invalid arguments.
    Garble,
    /// Skips the activation.
    Skip,
    /// Ends the cycle.
    Done,
}

const CALLS: [Call; 18] = [
    Call::Look,
    Call::Put,
    Call::Put,
    Call::Fire,
    Call::Fire,
    Call::Slow,
    Call::Ask,
    Call::Order,
    Call::Post,
    Call::Post,
    Call::PostInTheDen,
    Call::Remember,
    Call::Peek,
    Call::Fail,
    Call::Nonsense,
    Call::Garble,
    Call::Skip,
    Call::Done,
];

/// What the model does in the cycle of one message: the calls of each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply(pub(crate) Vec<Vec<Call>>);

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A person posts a message; how the model replies.
    Message(Reply),
    /// The last message arrives again.
    Duplicate,
    /// A service sends an event.
    ServiceEvent,
    /// That many milliseconds pass.
    Pass(u64),
    /// The cycle is canceled.
    Canceled,
    /// The agent is suspended, or resumed.
    Suspended(bool),
    /// The process is told to stop, and another one starts.
    Stopped,
    /// The process dies, and another one starts.
    Killed,
    /// The agent is removed from the den.
    Revoked,
    /// The slow tools finish.
    GateOpens,
}

/// A whole history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) awareness: Awareness,
    /// The effect of `slow`.
    pub(crate) slow: Effect,
    pub(crate) moments: Vec<Moment>,
}

impl History {
    /// The history of that seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let awareness = dice.pick(&[
            Awareness::None,
            Awareness::Preview,
            Awareness::Inject,
            Awareness::PreviewInject,
            Awareness::Interrupt,
        ]);
        let slow = dice.pick(&[Effect::ReadOnly, Effect::Idempotent, Effect::Unsafe]);
        let mut moments = vec![Moment::Message(reply(&mut dice))];
        for _ in 0..2 + dice.below(6) {
            moments.push(match dice.below(14) {
                0..=2 => Moment::Message(reply(&mut dice)),
                3 => Moment::Duplicate,
                4 => Moment::ServiceEvent,
                5..=7 => Moment::Pass(dice.pick(&[50, 150, 250, 700, 3_000, 40_000])),
                8 => Moment::Canceled,
                9 => Moment::Suspended(dice.below(2) == 0),
                10 => Moment::Stopped,
                11 => Moment::Killed,
                12 => Moment::Revoked,
                _ => Moment::GateOpens,
            });
        }
        Self { awareness, slow, moments }
    }

    /// How the model replies to each message, in their order.
    pub(crate) fn replies(&self) -> Vec<Reply> {
        let reply = |moment: &Moment| match moment {
            Moment::Message(reply) => Some(reply.clone()),
            _ => None,
        };
        self.moments.iter().filter_map(reply).collect()
    }

    pub(crate) fn has(&self, moment: &Moment) -> bool {
        self.moments.contains(moment)
    }

    /// The histories that are smaller by one thing.
    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        for (index, moment) in self.moments.iter().enumerate() {
            let mut without = self.clone();
            without.moments.remove(index);
            smaller.push(without);
            let Moment::Message(Reply(steps)) = moment else { continue };
            for (nth, step) in steps.iter().enumerate() {
                let mut fewer = steps.clone();
                fewer.remove(nth);
                smaller.push(self.with(index, fewer));
                for call in (0..step.len()).filter(|_| step.len() > 1) {
                    let mut fewer = steps.clone();
                    fewer[nth].remove(call);
                    smaller.push(self.with(index, fewer));
                }
            }
        }
        if self.awareness != Awareness::None {
            smaller.push(Self { awareness: Awareness::None, ..self.clone() });
        }
        smaller
    }

    fn with(&self, index: usize, steps: Vec<Vec<Call>>) -> Self {
        let mut history = self.clone();
        history.moments[index] = Moment::Message(Reply(steps));
        history
    }

    /// The smallest failing history that is reached by removing one thing at a time, and how it fails.
    pub(crate) fn shrunk(self, why: String, fails: impl Fn(&Self) -> Option<String>) -> (Self, String) {
        let (mut history, mut why) = (self, why);
        while let Some(next) =
            history.smaller().into_iter().find_map(|smaller| Some((fails(&smaller)?, smaller)))
        {
            (why, history) = next;
        }
        (history, why)
    }
}

fn reply(dice: &mut Dice) -> Reply {
    let step = |dice: &mut Dice| (0..1 + dice.below(3)).map(|_| dice.pick(&CALLS)).collect();
    Reply((0..1 + dice.below(3)).map(|_| step(dice)).collect())
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "awareness {:?}, `slow` is {}", self.awareness, self.slow.as_str())?;
        let mut posted = 0;
        for moment in &self.moments {
            match moment {
                Moment::Message(Reply(steps)) => {
                    write!(f, "- husam posts #{posted}, and the model replies")?;
                    for step in steps {
                        write!(f, " {step:?}")?;
                    }
                    writeln!(f)?;
                    posted += 1;
                }
                Moment::Duplicate => writeln!(f, "- the last message arrives again")?,
                Moment::ServiceEvent => writeln!(f, "- a service sends an event")?,
                Moment::Pass(ms) => writeln!(f, "- {ms} ms pass")?,
                Moment::Canceled => writeln!(f, "- the cycle is canceled")?,
                Moment::Suspended(true) => writeln!(f, "- the agent is suspended")?,
                Moment::Suspended(false) => writeln!(f, "- the agent is resumed")?,
                Moment::Stopped => writeln!(f, "- the process stops, another one starts")?,
                Moment::Killed => writeln!(f, "- the process is killed, another one starts")?,
                Moment::Revoked => writeln!(f, "- the agent is removed from the den")?,
                Moment::GateOpens => writeln!(f, "- the slow tools finish")?,
            }
        }
        Ok(())
    }
}

#[test]
fn a_failing_history_is_reduced_to_the_smallest_one_and_printed() {
    let fires = |history: &History| {
        let fires =
            history.replies().iter().any(|reply| reply.0.iter().flatten().any(|call| *call == Call::Fire));
        (fires && history.has(&Moment::Killed)).then(|| "it fires and is killed".to_owned())
    };
    let history =
        (0..).map(History::of).find(|history| fires(history).is_some() && history.moments.len() > 4).unwrap();
    let (history, why) = history.shrunk(String::new(), fires);
    assert_eq!(why, "it fires and is killed");
    let text = history.to_string();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines.contains(&"- husam posts #0, and the model replies [Fire]"), "{text}");
    assert!(lines.contains(&"- the process is killed, another one starts"), "{text}");
}

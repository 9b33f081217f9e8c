//! A life as chance writes it: what is said to an agent and when, what its model answers, what happens to the
//! process. It can be read, and made smaller.

use std::fmt;

use agent::call::Effect;
use agent::config::Awareness;

/// Chance that repeats (SplitMix64).
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
pub(crate) enum Deed {
    /// Reads.
    Look,
    /// May be repeated under its key.
    Put,
    /// Must not be repeated.
    Fire,
    /// Takes as long as the gate is shut.
    Slow,
    /// Reads, and nobody waits for it.
    Ask,
    /// As `slow`, and nobody waits for it.
    Order,
    /// Speaks where it is a member.
    Say,
    /// Speaks where it may not be one any more.
    SayInTheDen,
    /// Remembers.
    Remember,
    /// Asks to see what waits.
    Peek,
    /// Fails.
    Fail,
    /// Calls a tool that is not there.
    Nonsense,
    /// Calls with arguments that are none.
    Garble,
    /// Gives the activation back.
    Skip,
    /// Ends the cycle.
    Done,
}

const DEEDS: [Deed; 18] = [
    Deed::Look,
    Deed::Put,
    Deed::Put,
    Deed::Fire,
    Deed::Fire,
    Deed::Slow,
    Deed::Ask,
    Deed::Order,
    Deed::Say,
    Deed::Say,
    Deed::SayInTheDen,
    Deed::Remember,
    Deed::Peek,
    Deed::Fail,
    Deed::Nonsense,
    Deed::Garble,
    Deed::Skip,
    Deed::Done,
];

/// What the model does in a cycle that one message woke: the calls of each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part(pub(crate) Vec<Vec<Deed>>);

/// What happens to the agent, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A person speaks; what the model makes of it.
    Said(Part),
    /// The last message arrives once more.
    Again,
    /// A service speaks.
    Called,
    /// Milliseconds pass.
    Passes(u64),
    /// The cycle is canceled.
    Canceled,
    /// The agent is suspended, or resumed.
    Suspended(bool),
    /// The process is told to stop, and another one starts.
    Stopped,
    /// The process dies, and another one starts.
    Killed,
    /// The agent is put out of the den.
    Revoked,
    /// What takes long comes to its end.
    GateOpens,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) awareness: Awareness,
    /// What repeating `slow` would do.
    pub(crate) slow: Effect,
    pub(crate) moments: Vec<Moment>,
}

impl Life {
    /// The life of that number.
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
        let mut moments = vec![Moment::Said(part(&mut dice))];
        for _ in 0..2 + dice.below(6) {
            moments.push(match dice.below(14) {
                0..=2 => Moment::Said(part(&mut dice)),
                3 => Moment::Again,
                4 => Moment::Called,
                5..=7 => Moment::Passes(dice.pick(&[50, 150, 250, 700, 3_000, 40_000])),
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

    /// What the model makes of each message, in the order in which they are said.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let part = |moment: &Moment| match moment {
            Moment::Said(part) => Some(part.clone()),
            _ => None,
        };
        self.moments.iter().filter_map(part).collect()
    }

    pub(crate) fn has(&self, moment: &Moment) -> bool {
        self.moments.contains(moment)
    }

    /// The lives that are smaller by one thing.
    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        for (place, moment) in self.moments.iter().enumerate() {
            let mut without = self.clone();
            without.moments.remove(place);
            smaller.push(without);
            let Moment::Said(Part(steps)) = moment else { continue };
            for (nth, step) in steps.iter().enumerate() {
                let mut fewer = steps.clone();
                fewer.remove(nth);
                smaller.push(self.with(place, fewer));
                for call in (0..step.len()).filter(|_| step.len() > 1) {
                    let mut fewer = steps.clone();
                    fewer[nth].remove(call);
                    smaller.push(self.with(place, fewer));
                }
            }
        }
        if self.awareness != Awareness::None {
            smaller.push(Self { awareness: Awareness::None, ..self.clone() });
        }
        smaller
    }

    fn with(&self, place: usize, steps: Vec<Vec<Deed>>) -> Self {
        let mut life = self.clone();
        life.moments[place] = Moment::Said(Part(steps));
        life
    }

    /// The smallest life that can be reached one thing at a time and still fails, with how it does.
    pub(crate) fn shrunk(self, why: String, fails: impl Fn(&Self) -> Option<String>) -> (Self, String) {
        let (mut life, mut why) = (self, why);
        while let Some(next) =
            life.smaller().into_iter().find_map(|smaller| Some((fails(&smaller)?, smaller)))
        {
            (why, life) = next;
        }
        (life, why)
    }
}

fn part(dice: &mut Dice) -> Part {
    let step = |dice: &mut Dice| (0..1 + dice.below(3)).map(|_| dice.pick(&DEEDS)).collect();
    Part((0..1 + dice.below(3)).map(|_| step(dice)).collect())
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "awareness {:?}, `slow` is {}", self.awareness, self.slow.as_str())?;
        let mut said = 0;
        for moment in &self.moments {
            match moment {
                Moment::Said(Part(steps)) => {
                    write!(f, "- husam says #{said}, and the model answers")?;
                    for step in steps {
                        write!(f, " {step:?}")?;
                    }
                    writeln!(f)?;
                    said += 1;
                }
                Moment::Again => writeln!(f, "- the last message arrives once more")?,
                Moment::Called => writeln!(f, "- a service speaks")?,
                Moment::Passes(ms) => writeln!(f, "- {ms} ms pass")?,
                Moment::Canceled => writeln!(f, "- the cycle is canceled")?,
                Moment::Suspended(true) => writeln!(f, "- the agent is suspended")?,
                Moment::Suspended(false) => writeln!(f, "- the agent is resumed")?,
                Moment::Stopped => writeln!(f, "- the process stops, another one starts")?,
                Moment::Killed => writeln!(f, "- the process is killed, another one starts")?,
                Moment::Revoked => writeln!(f, "- the agent is put out of the den")?,
                Moment::GateOpens => writeln!(f, "- what takes long comes to its end")?,
            }
        }
        Ok(())
    }
}

#[test]
fn a_life_that_fails_is_made_as_small_as_it_can_be_and_can_be_read() {
    let fires = |life: &Life| {
        let fires = life.parts().iter().any(|part| part.0.iter().flatten().any(|deed| *deed == Deed::Fire));
        (fires && life.has(&Moment::Killed)).then(|| "it fires and is killed".to_owned())
    };
    let life = (0..).map(Life::of).find(|life| fires(life).is_some() && life.moments.len() > 4).unwrap();
    let (life, why) = life.shrunk(String::new(), fires);
    assert_eq!(why, "it fires and is killed");
    let text = life.to_string();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines.contains(&"- husam says #0, and the model answers [Fire]"), "{text}");
    assert!(lines.contains(&"- the process is killed, another one starts"), "{text}");
}

//! The pulse of agents: how much was heard of each in the last seconds. Holds those only of whom
//! something was heard.

use std::collections::HashMap;

use agent::id::AgentId;

/// Seconds that a pulse looks back.
pub(crate) const BEATS: usize = 10;

/// Bars of growing height, the first for nothing.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same for terminals that know no UTF-8.
const MARKS: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '#', '@'];

/// The pulses of a server.
#[derive(Debug, Default)]
pub(crate) struct Pulses(HashMap<AgentId, [u16; BEATS]>);

impl Pulses {
    /// Something was heard of the agent.
    pub(crate) fn beat(&mut self, agent: AgentId) {
        let beats = self.0.entry(agent).or_default();
        beats[BEATS - 1] = beats[BEATS - 1].saturating_add(1);
    }

    /// A second passed.
    pub(crate) fn pass(&mut self) {
        self.0.retain(|_, beats| {
            beats.rotate_left(1);
            beats[BEATS - 1] = 0;
            beats.iter().any(|beat| *beat > 0)
        });
    }

    /// The pulse of an agent as a row of bars, the newest at the right.
    pub(crate) fn of(&self, agent: AgentId, utf8: bool) -> String {
        let bars = if utf8 { BARS } else { MARKS };
        let Some(beats) = self.0.get(&agent) else { return String::new() };
        // Each bar twice as much as the one below: a word and a torrent both show.
        let height = |beat: u16| (u16::BITS - beat.leading_zeros()).min(8) as usize;
        beats.iter().map(|beat| bars[height(*beat)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_pulse_rises_moves_on_and_is_forgotten() {
        let (mut pulses, agent) = (Pulses::default(), AgentId(Uuid::from_u128(1)));
        assert_eq!(pulses.of(agent, true), "");
        pulses.beat(agent);
        pulses.pass();
        (0..200).for_each(|_| pulses.beat(agent));
        assert_eq!(pulses.of(agent, true), "        ▁█");
        assert_eq!(pulses.of(agent, false), "        .@");
        for _ in 0..BEATS {
            pulses.pass();
        }
        assert!(pulses.0.is_empty());
    }
}

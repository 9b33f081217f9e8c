//! The pulse of agents: how many updates arrived for each in the last seconds. Agents without updates are
//! not stored.

use std::collections::HashMap;

use agent::id::AgentId;

/// Number of seconds that a pulse covers.
pub(crate) const BEATS: usize = 10;

/// Bars of growing height; the first means no updates.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same for terminals without UTF-8.
const MARKS: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '#', '@'];

/// The pulses of all agents.
#[derive(Debug, Default)]
pub(crate) struct Pulses(HashMap<AgentId, [u16; BEATS]>);

impl Pulses {
    /// An update about the agent arrived.
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
        // Each bar stands for twice as much as the one below, so both few and many updates are visible.
        let height = |beat: u16| (u16::BITS - beat.leading_zeros()).min(8) as usize;
        beats.iter().map(|beat| bars[height(*beat)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_pulse_rises_shifts_and_is_dropped() {
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

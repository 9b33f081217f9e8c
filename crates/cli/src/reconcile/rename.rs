//! Guesses which agent of a new file is one that lost its file: whoever renames a file wants the life
//! to go on under it. A guess is only told; nothing is renamed by it.

use std::collections::{BTreeSet, HashMap};

use agent::life::Standing;
use agent::limits::PAGE_MAX;
use agent::port::PageRequest;

use super::record::Record;
use super::{Reconciler, Report, There, failed};
use crate::agent_file::AgentFile;
use crate::errors::Result;

/// Agents of the store that are looked at.
const LOOKED_AT: usize = 1_000;
/// Of a thousand words those that two texts have in common, from which on they are nearly the same.
const NEARLY: usize = 750;
/// The same words in the same order.
const EQUAL: usize = 1_000;

/// An agent that no file names.
struct Life {
    name: String,
    instructions: String,
    /// It had a file once, so a nearly equal text is enough.
    had_a_file: bool,
}

impl Reconciler {
    /// Notes for each agent that was just made whose life its file may have meant.
    pub(super) async fn guess_renames(
        &self,
        files: &[AgentFile],
        there: &There,
        record: &Record,
        report: &mut Report,
    ) -> Result<()> {
        let fresh: Vec<&AgentFile> = files.iter().filter(|file| report.has_created(&file.name)).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        let mut lives = self.without_a_file(there, record).await?;
        for file in fresh {
            let likely = |life: &Life| {
                let least = if life.had_a_file { NEARLY } else { EQUAL };
                Some(likeness(&life.instructions, &file.config.instructions))
                    .filter(|common| *common >= least)
            };
            let found =
                lives.iter().enumerate().filter_map(|(i, life)| Some((likely(life)?, life.had_a_file, i)));
            if let Some((.., i)) = found.max() {
                report.guess(&file.name, lives.remove(i).name);
            }
        }
        Ok(())
    }

    async fn without_a_file(&self, there: &There, record: &Record) -> Result<Vec<Life>> {
        let mut lives = Vec::new();
        let mut cursor = None;
        let mut looked_at = 0;
        let broken: BTreeSet<_> = record
            .agents
            .iter()
            .filter(|known| there.broken.contains(&known.file))
            .map(|known| known.id)
            .collect();
        loop {
            let page = PageRequest { cursor, limit: PAGE_MAX };
            let page = self.ports.reader.agents(page).await.map_err(failed)?;
            looked_at += page.items.len();
            lives.extend(page.items.into_iter().filter_map(|card| {
                let free = card.standing != Standing::Retired
                    && !there.names.contains(&card.entity.name)
                    && !broken.contains(&card.id);
                free.then(|| Life {
                    had_a_file: record.of(card.id).is_some(),
                    instructions: card.config.instructions.clone(),
                    name: card.entity.name,
                })
            }));
            cursor = page.next;
            if cursor.is_none() || looked_at >= LOOKED_AT {
                return Ok(lives);
            }
        }
    }
}

/// How many of a thousand words two texts have in common; all of them only where they are the same.
fn likeness(old: &str, new: &str) -> usize {
    if old.trim() == new.trim() {
        return EQUAL;
    }
    let mut words: HashMap<&str, usize> = HashMap::new();
    let (mut all, mut common) = (0, 0);
    for word in old.split_whitespace() {
        *words.entry(word).or_default() += 1;
        all += 1;
    }
    for word in new.split_whitespace() {
        all += 1;
        if let Some(left) = words.get_mut(word).filter(|left| **left > 0) {
            *left -= 1;
            common += 2;
        }
    }
    (common * EQUAL / all.max(1)).min(EQUAL - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_like_another_by_the_words_that_they_share() {
        let text = "You are Ada. You keep the workshop and know what is where.";
        assert_eq!(likeness(text, &format!("{text}\n")), EQUAL);
        assert!((NEARLY..EQUAL).contains(&likeness(text, &text.replace("Ada", "Eve"))));
        assert!((NEARLY..EQUAL).contains(&likeness("a b", "b a")));
        assert!(likeness(text, "You are Bob. You count sheep.") < NEARLY);
        assert_eq!(likeness("", "something"), 0);
    }
}

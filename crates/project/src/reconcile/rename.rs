//! Guesses which new file is a renamed one: the user then wants the old agent under the new file. A guess
//! is only reported; it renames nothing.

use std::collections::{BTreeSet, HashMap};

use agent::life::Standing;
use agent::limits::PAGE_MAX;
use agent::port::PageRequest;

use super::record::Record;
use super::{ExistingFiles, ReconcileReport, Reconciler, Result, failed};
use crate::agent_file::AgentFile;

/// Maximum number of the store's agents that are compared.
const SCAN_MAX: usize = 1_000;
/// Per mille of words in common from which two texts count as nearly the same.
const SIMILAR: usize = 750;
/// Per mille for texts with the same words in the same order.
const IDENTICAL: usize = 1_000;

/// An agent without a file.
struct Candidate {
    name: String,
    instructions: String,
    /// It had a file before, so a nearly equal text is enough.
    had_a_file: bool,
}

impl Reconciler {
    /// Notes for each agent that was just created which old agent its file may be meant for.
    pub(super) async fn guess_renames(
        &self,
        files: &[AgentFile],
        existing: &ExistingFiles,
        record: &Record,
        report: &mut ReconcileReport,
    ) -> Result<()> {
        if report.created.is_empty() {
            return Ok(());
        }
        let mut candidates = self.without_a_file(existing, record).await?;
        for created in &mut report.created {
            let Some(file) = files.iter().find(|file| file.name == created.name) else { continue };
            let likely = |candidate: &Candidate| {
                let least = if candidate.had_a_file { SIMILAR } else { IDENTICAL };
                let common = similarity(&candidate.instructions, &file.config.instructions);
                (common >= least).then_some(common)
            };
            let found = candidates.iter().enumerate();
            let found = found.filter_map(|(i, one)| Some((likely(one)?, one.had_a_file, i)));
            if let Some((.., i)) = found.max() {
                created.was = Some(candidates.remove(i).name);
            }
        }
        Ok(())
    }

    async fn without_a_file(&self, existing: &ExistingFiles, record: &Record) -> Result<Vec<Candidate>> {
        let mut candidates = Vec::new();
        let mut cursor = None;
        let mut scanned = 0;
        let broken = record.agents.iter().filter(|known| existing.broken.contains(&known.file));
        let broken: BTreeSet<_> = broken.map(|known| known.id).collect();
        loop {
            let page = PageRequest { cursor, limit: PAGE_MAX };
            let page = self.ports.reader.agents(None, page).await.map_err(failed)?;
            scanned += page.items.len();
            candidates.extend(page.items.into_iter().filter_map(|card| {
                let free = card.standing != Standing::Retired
                    && !existing.names.contains(&card.entity.name)
                    && !broken.contains(&card.id);
                free.then(|| Candidate {
                    had_a_file: record.of(card.id).is_some(),
                    instructions: card.config.instructions.clone(),
                    name: card.entity.name,
                })
            }));
            cursor = page.next;
            if cursor.is_none() || scanned >= SCAN_MAX {
                return Ok(candidates);
            }
        }
    }
}

/// How many words of a thousand two texts have in common; 1000 only if they are the same.
fn similarity(old: &str, new: &str) -> usize {
    if old.trim() == new.trim() {
        return IDENTICAL;
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
    (common * IDENTICAL / all.max(1)).min(IDENTICAL - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_the_share_of_common_words() {
        let text = "You are Ada. You keep the workshop and know what is where.";
        assert_eq!(similarity(text, &format!("{text}\n")), IDENTICAL);
        assert!((SIMILAR..IDENTICAL).contains(&similarity(text, &text.replace("Ada", "Eve"))));
        assert!((SIMILAR..IDENTICAL).contains(&similarity("a b", "b a")));
        assert!(similarity(text, "You are Bob. You count sheep.") < SIMILAR);
        assert_eq!(similarity("", "something"), 0);
    }
}

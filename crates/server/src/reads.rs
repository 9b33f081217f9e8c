//! Whose turn it is to read: how many reads each key may have at once, and a place that only administrators use. Keys
//! that wait take turns, however many requests each of them sends. Must not know routes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::id::CredentialId;
use agent::limits;
use tokio::sync::oneshot;

/// The reads of all keys.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    keys: HashMap<CredentialId, Line>,
    /// Keys with waiting reads, in the order of their turns.
    turns: VecDeque<CredentialId>,
    running: usize,
    /// Those of keys that are not an administrator's.
    others: usize,
}

/// The reads of one key.
#[derive(Debug, Default)]
struct Line {
    operator: bool,
    running: usize,
    waiting: VecDeque<oneshot::Sender<Read>>,
}

/// One read that runs; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Read {
    reads: Arc<Reads>,
    key: CredentialId,
}

impl Reads {
    /// Waits for the turn of a read of this key.
    pub(crate) async fn turn(self: &Arc<Self>, key: CredentialId, operator: bool) -> Read {
        let waiting = {
            let mut state = self.lock();
            state.keys.entry(key).or_default().operator = operator;
            if state.may_run(key) && !state.turns.contains(&key) {
                state.run(key);
                return Read { reads: Arc::clone(self), key };
            }
            let (sender, waiting) = oneshot::channel();
            if let Some(line) = state.keys.get_mut(&key) {
                line.waiting.push_back(sender);
            }
            if !state.turns.contains(&key) {
                state.turns.push_back(key);
            }
            waiting
        };
        match waiting.await {
            Ok(read) => read,
            // A waiting read is only dropped by whoever awaits it here.
            Err(_) => std::future::pending().await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets those run whose turn it is.
    fn next(self: &Arc<Self>) {
        loop {
            // A statement of its own: the lock must be free when a read ends.
            let next = self.lock().take_next();
            let Some((sender, key)) = next else { return };
            // If it stopped waiting meanwhile, the read comes back and ends at once.
            let _ = sender.send(Read { reads: Arc::clone(self), key });
        }
    }
}

impl State {
    fn may_run(&self, key: CredentialId) -> bool {
        let Some(line) = self.keys.get(&key) else { return false };
        let room = line.operator || self.others < limits::READERS_API - limits::READERS_RESERVED;
        room && self.running < limits::READERS_API && line.running < limits::READS_PER_KEY
    }

    fn run(&mut self, key: CredentialId) {
        if let Some(line) = self.keys.get_mut(&key) {
            line.running += 1;
            self.running += 1;
            self.others += usize::from(!line.operator);
        }
    }

    fn end(&mut self, key: CredentialId) {
        if let Some(line) = self.keys.get_mut(&key) {
            line.running -= 1;
            self.running -= 1;
            self.others -= usize::from(!line.operator);
        }
        self.tidy(key);
    }

    /// The first waiting read of the first key that may run one. That key's next turn comes after all others'.
    fn take_next(&mut self) -> Option<(oneshot::Sender<Read>, CredentialId)> {
        let mut at = 0;
        while let Some(key) = self.turns.get(at).copied() {
            let may_run = self.may_run(key);
            let Some(line) = self.keys.get_mut(&key) else {
                self.turns.remove(at);
                continue;
            };
            line.waiting.retain(|waiting| !waiting.is_closed());
            if line.waiting.is_empty() {
                self.turns.remove(at);
                self.tidy(key);
                continue;
            }
            if !may_run {
                at += 1;
                continue;
            }
            let next = line.waiting.pop_front();
            let more = !line.waiting.is_empty();
            self.turns.remove(at);
            if more {
                self.turns.push_back(key);
            }
            self.run(key);
            return next.map(|sender| (sender, key));
        }
        None
    }

    fn tidy(&mut self, key: CredentialId) {
        if self.keys.get(&key).is_some_and(|line| line.running == 0 && line.waiting.is_empty()) {
            self.keys.remove(&key);
        }
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        self.reads.lock().end(self.key);
        self.reads.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use uuid::Uuid;

    const PERSON: u128 = 1;
    const OTHER: u128 = 2;
    const ADMIN: u128 = 1_000;

    fn read(reads: &Arc<Reads>, key: u128) -> BoxFuture<'static, Read> {
        let reads = Arc::clone(reads);
        async move { reads.turn(CredentialId(Uuid::from_u128(key)), key >= ADMIN).await }.boxed()
    }

    /// The reads that run, by the place of their requests.
    fn running(requests: &mut [BoxFuture<'static, Read>]) -> Vec<Option<Read>> {
        requests.iter_mut().map(|request| request.now_or_never()).collect()
    }

    #[test]
    fn an_operator_is_not_behind_the_queue_of_a_person() {
        let reads = Arc::<Reads>::default();
        let mut many: Vec<_> = (0..100).map(|_| read(&reads, PERSON)).collect();
        let held: Vec<Read> = running(&mut many).into_iter().flatten().collect();
        assert_eq!(held.len(), limits::READS_PER_KEY, "one key has its part");
        let mut more: Vec<_> = (0..100).map(|n| read(&reads, 2 + n)).collect();
        let others: Vec<Read> = running(&mut more).into_iter().flatten().collect();
        assert_eq!(held.len() + others.len(), limits::READERS_API - limits::READERS_RESERVED);
        let operator = read(&reads, ADMIN).now_or_never();
        assert!(operator.is_some(), "199 reads of others wait, an operator's runs at once");
        drop((many, more, held, others, operator));
        let state = reads.lock();
        assert_eq!((state.running, state.others, state.keys.len(), state.turns.len()), (0, 0, 0, 0));
    }

    #[test]
    fn keys_that_wait_take_turns() {
        let reads = Arc::<Reads>::default();
        let mut person: Vec<_> = (0..5).map(|_| read(&reads, PERSON)).collect();
        let mut held: Vec<Read> = running(&mut person).into_iter().flatten().collect();
        let mut person: Vec<_> = person.split_off(held.len());
        let mut third = read(&reads, 3);
        held.push(third.as_mut().now_or_never().unwrap());
        let mut other: Vec<_> = (0..2).map(|_| read(&reads, OTHER)).collect();
        assert_eq!(running(&mut other).into_iter().flatten().count(), 0, "the places of people are taken");
        // A read of the person ends: its own key waited first, then it is the other's turn.
        drop(held.remove(0));
        let next = person.remove(0).now_or_never();
        assert!(next.is_some());
        drop(held.remove(0));
        assert!(running(&mut person).into_iter().all(|read| read.is_none()), "two of the person wait on");
        let turned = other.remove(0).now_or_never();
        assert!(turned.is_some(), "the other key has its turn");
        drop((held, next, turned));
    }

    /// A read that stops waiting at the moment at which it is chosen must not block all others.
    #[test]
    fn reads_that_stop_waiting_block_nobody() {
        let reads = Arc::<Reads>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..20_000 {
                        let waits = read(&reads, n % 3).now_or_never();
                        drop(waits);
                    }
                });
            }
        });
        assert_eq!(reads.lock().keys.len(), 0);
    }
}

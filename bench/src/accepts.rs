//! Durable accepts under load: how many share one fsync, and the CPU of the writer's thread per accept,
//! compared with the bare inserts.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::config::{AgentConfig, Limits};
use agent::port::Accepted;
use anyhow::{Context, Result, bail};
use models::scripted::Script;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};
use tokio::task::JoinSet;

use crate::Bench;
use crate::instant;
use crate::measure::{Samples, own_cpu_us, short, thread_cpu_us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, Home};

/// Producers that post at the same time.
const PRODUCERS: usize = 64;
/// Messages of each producer in one round.
const MESSAGES: usize = 100;
/// Rounds; the first is a warm-up.
const ROUNDS: usize = 6;
/// Bytes of one message.
const TEXT_BYTES: usize = 256;
/// The name of the store's writer thread.
const WRITER: &str = "viv-writer";
/// The number of spaces that they post to, each with an agent: one space for all, where index entries are
/// close together and bare inserts cost least, and one for each, where they cost most.
const LAYOUTS: [(usize, &str); 2] = [(1, "all in one space"), (PRODUCERS, "each in its own space")];

/// The results of one round.
struct Round {
    per_group: f64,
    cpu_us: f64,
    per_second: f64,
}

/// The results of all rounds with one number of spaces.
struct Rounds {
    label: &'static str,
    grouped: Samples,
    cpu: Samples,
    speed: Samples,
    bare: Samples,
}

impl Rounds {
    fn ratio(&self) -> f64 {
        self.cpu.median() / self.bare.median()
    }
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let layouts = LAYOUTS.map(|(spaces, label)| all_rounds(bench, spaces, label));
    let [one, own] = layouts;
    let (one, own) = (one?, own?);
    let (least, other) =
        if one.grouped.median() <= own.grouped.median() { (&one, &own) } else { (&own, &one) };
    let note = format!(
        "{PRODUCERS} producers of {TEXT_BYTES} B, {}: {}, {} accepts/s; {}: {}, {} accepts/s; floor: one fsync \
         for each",
        least.label,
        least.grouped.spread(),
        short(least.speed.median()),
        other.label,
        short(other.grouped.median()),
        short(other.speed.median()),
    );
    let value = (least.grouped.median(), "accepts");
    let shared =
        Metric::new("core.accepts_per_fsync", value, Floor::Bound(1.0), Goal::ValueAtLeast(15.0), note);

    let (worse, better) = if one.ratio() >= own.ratio() { (&one, &own) } else { (&own, &one) };
    let note = format!(
        "CPU of the writer's thread per accept, fsync and copying the log back included, {}: {}; floor: the same \
         rows by plain prepared statements into the same tables in groups of the same size: {}; {}: {} us, ratio {}",
        worse.label,
        worse.cpu.spread(),
        worse.bare.spread(),
        better.label,
        short(better.cpu.median()),
        short(better.ratio()),
    );
    let value = (worse.cpu.median(), "us");
    let goal = Goal::RatioAtMost(3.0);
    let ratio = Metric::new("core.accept_cpu_ratio", value, Floor::Bound(worse.bare.median()), goal, note);
    Ok(vec![shared, ratio])
}

fn all_rounds(bench: &Bench, spaces: usize, label: &'static str) -> Result<Rounds> {
    let dir = bench.scratch()?;
    let data = dir.path().join("data");
    let rounds = server::threads()?.block_on(accept_all(&data, spaces))?;
    let of = |what: fn(&Round) -> f64| rounds.iter().skip(1).map(what).collect::<Samples>();
    let (grouped, cpu, speed) = (of(|r| r.per_group), of(|r| r.cpu_us), of(|r| r.per_second));
    // A group of the same size, rounded, at least 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let group = grouped.median().round().max(1.0) as usize;
    Ok(Rounds { label, grouped, cpu, speed, bare: bare_inserts(&data, group, ROUNDS)? })
}

async fn accept_all(data: &Path, spaces: usize) -> Result<Vec<Round>> {
    // The keeper gets no signals and no agent is activated: its sweeps come after the rounds.
    let server =
        Arc::new(BenchServer::build(data, |clock| instant::models(clock, |_| Script::new().text("Noted.")))?);
    let mut homes = Vec::new();
    for n in 0..spaces {
        homes.push(server.home(&format!("agent{n}"), debouncing()).await?);
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(round(&server, &homes).await?);
    }
    let server = Arc::into_inner(server).context("a producer is still running")?;
    server.stop().await?;
    Ok(rounds)
}

/// An agent with the longest debounce, so that only accepting is measured.
fn debouncing() -> AgentConfig {
    let limits = Limits { inbox_max: 1_000_000, ..Limits::default() };
    AgentConfig { debounce: 60_000, limits, ..AgentConfig::default() }
}

async fn round(server: &Arc<BenchServer>, homes: &[Home]) -> Result<Round> {
    let (cpu, groups, began) = (thread_cpu_us(WRITER)?, server.stats().groups, Instant::now());
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        let (server, home) = (Arc::clone(server), homes[producer % homes.len()]);
        producers.spawn(async move {
            for _ in 0..MESSAGES {
                match server.accept(server.message(&home, &"x".repeat(TEXT_BYTES))).await? {
                    Accepted::Fresh { .. } => {}
                    other => bail!("wanted a fresh message, got {other:?}"),
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = producers.join_next().await {
        ended.context("a producer failed")??;
    }
    let took = began.elapsed().as_secs_f64();
    // Wait for the last checkpoint, which is part of the cost.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let accepts = (PRODUCERS * MESSAGES) as f64;
    Ok(Round {
        per_group: accepts / (server.stats().groups - groups) as f64,
        cpu_us: (thread_cpu_us(WRITER)? - cpu) / accepts,
        per_second: accepts / took,
    })
}

/// The bare inserts of as many accepts into the tables that the rounds have filled: the message, its event
/// and the row in `waiting`. Nothing is read or decided, and no head is updated.
fn bare_inserts(data: &Path, group: usize, rounds: usize) -> Result<Samples> {
    let db = Connection::open(data.join("vivarium.db"))?;
    // Like the store. Without it, partial indexes make SQLite prepare an insert again and again, and
    // the floor would be too high.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    for (name, value) in [("journal_mode", "WAL"), ("synchronous", "FULL")] {
        db.pragma_update(None, name, value)?;
    }
    for (name, value) in [("wal_autocheckpoint", 1_000), ("cache_size", -16_384)] {
        db.pragma_update(None, name, value)?;
    }
    let mut message = db.prepare(
        "INSERT INTO message (space, seq, uuid, rev, sender, kind, urgent, at, principal_kind, principal, \
         trust, root, hop, cycle, call, mentions, text, data, crc) \
         VALUES (?, ?, ?, ?, 1, 0, 0, ?, 0, ?, 2, ?, 0, NULL, NULL, NULL, ?, NULL, 0)",
    )?;
    let mut event = db.prepare(
        "INSERT INTO event (agent, seq, id, kind, urgent, at, state, principal_kind, principal, channel, \
         trust, root, hop, space, from_seq, data, cycle, step, reason) \
         VALUES (?, ?, ?, 0, 0, ?, 0, 0, ?, 0, 2, ?, 0, ?, ?, NULL, NULL, NULL, NULL)",
    )?;
    let mut waiting = db.prepare(
        "INSERT INTO waiting (agent, seq, urgent, speaker, deep, not_before, boot) VALUES (?, ?, 0, 1, 0, ?, 1)",
    )?;
    let positions = positions(&db)?;
    let text = "x".repeat(TEXT_BYTES);
    let (begin, commit) = (&mut db.prepare("BEGIN IMMEDIATE")?, &mut db.prepare("COMMIT")?);
    let mut times = Samples::default();
    let (mut n, at) = (0usize, 1_800_000_000_000i64);
    for _ in 0..rounds {
        let before = own_cpu_us();
        for _ in 0..PRODUCERS * MESSAGES / group {
            begin.raw_execute()?;
            for _ in 0..group {
                let (space, agent, head) = positions[n % positions.len()];
                let seq = head + 1 + i64::try_from(n / positions.len())?;
                // Like real ids: an increasing time, then random bytes.
                let id = id(n);
                message.execute(params![space, seq, id, seq, at, id, id, text])?;
                event.execute(params![agent, seq, id, at, id, id, space, seq])?;
                waiting.execute(params![agent, seq, at])?;
                n += 1;
            }
            commit.raw_execute()?;
        }
        times.push((own_cpu_us() - before) / (PRODUCERS * MESSAGES / group * group) as f64);
    }
    Ok(times)
}

/// The spaces with their agents and the agents' last sequence numbers.
fn positions(db: &Connection) -> Result<Vec<(i64, i64, i64)>> {
    let mut found = db.prepare(
        "SELECT m.space, m.entity, h.head_seq FROM member m JOIN inbox_head h ON h.agent = m.entity",
    )?;
    let positions = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(positions.collect::<rusqlite::Result<Vec<_>>>()?)
}

fn id(n: usize) -> [u8; 16] {
    let mixed = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let mut random = [0; 10];
    random[..8].copy_from_slice(&mixed);
    *uuid::Builder::from_unix_timestamp_millis(1_800_000_000_000 + n as u64 / 8, &random).as_uuid().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bare_inserts_fit_the_tables_of_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let threads = server::threads().unwrap();
        threads.block_on(async {
            let server =
                BenchServer::build(dir.path(), |clock| instant::models(clock, |_| Script::new())).unwrap();
            server.home("ada", debouncing()).await.unwrap();
            server.stop().await.unwrap();
        });
        assert_eq!(bare_inserts(dir.path(), PRODUCERS, 1).unwrap().len(), 1);
    }
}

//! The format of an export file: a first line that identifies it, records, and a last line with counts and a
//! checksum of all lines before it, so that a truncated or changed file is recognized.
//!
//! This module must not know what records mean.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use agent::limits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::engine::schema::VERSION;

/// The version of the format.
const FORMAT: u64 = 1;
/// The first line's key.
pub(super) const HEADER: &str = "vivarium_agent";
/// The last line's key.
pub(super) const END: &str = "end";

/// The first line. It contains no time of the export, so that an unchanged agent is exported as the same
/// bytes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    format: u64,
    /// The version of the tables whose rows follow.
    tables: i64,
    /// The agent's handle, for people who look into the file.
    agent: String,
    /// The number of records between the first line and the last one.
    pub(super) records: u64,
}

impl Header {
    pub(super) fn new(agent: &str, records: u64) -> Self {
        Self { format: FORMAT, tables: VERSION, agent: agent.to_owned(), records }
    }

    /// Reads the first line, and refuses a file whose format or tables are of another version.
    pub(super) fn read(what: &str, row: Map<String, Value>) -> Outcome<Self> {
        if what != HEADER {
            return Err(damaged(format!(
                "it is not an export of an agent: the first line of one is `{HEADER}`"
            )));
        }
        match row.get("format").and_then(Value::as_u64) {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => {
                return Err(damaged(format!(
                    "its format is {newer}, written by a newer viv; this one reads {FORMAT}"
                )));
            }
            _ => return Err(damaged("its format is not stated")),
        }
        match row.get("tables").and_then(Value::as_i64) {
            Some(VERSION) => {}
            Some(tables) => {
                let which = if tables > VERSION { "a newer" } else { "an older" };
                return Err(damaged(format!(
                    "it was exported by {which} viv (tables of version {tables}, here {VERSION}): import it \
                     with that viv into a new data directory, run `viv up` of this version on it, and export the agent again"
                )));
            }
            None => return Err(damaged("the version of its tables is not stated")),
        }
        serde_json::from_value(Value::Object(row)).map_err(|error| damaged(error.to_string()))
    }
}

/// The last line: describes the lines before it.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Footer {
    /// The number of records of each kind.
    counts: BTreeMap<String, u64>,
    /// CRC-32 of all lines before it, each with one line feed.
    crc: u32,
}

impl Footer {
    /// Reads the last line.
    pub(super) fn read(row: Map<String, Value>) -> Outcome<Self> {
        serde_json::from_value(Value::Object(row)).map_err(|error| damaged(error.to_string()))
    }

    /// How the lines that were `seen` differ from what it describes.
    pub(super) fn differences(&self, seen: &Seen) -> Vec<String> {
        let mut differences = Vec::new();
        let kinds: std::collections::BTreeSet<&String> =
            self.counts.keys().chain(seen.counts.keys()).collect();
        for kind in kinds {
            let count = |counts: &BTreeMap<String, u64>| counts.get(kind).copied().unwrap_or(0);
            let (wanted, there) = (count(&self.counts), count(&seen.counts));
            if wanted != there {
                differences.push(format!("it counts {wanted} records of `{kind}`, but there are {there}"));
            }
        }
        if self.crc != seen.crc() {
            let what = "its checksum does not match: a line was changed, or the lines are in another order";
            differences.push(what.into());
        }
        differences
    }
}

/// The lines that were written or read so far.
#[derive(Default)]
pub(super) struct Seen {
    hasher: crc32fast::Hasher,
    counts: BTreeMap<String, u64>,
}

impl Seen {
    /// Adds a line, given without its line feed.
    pub(super) fn line(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.hasher.update(b"\n");
    }

    /// Counts a record of that kind.
    pub(super) fn record(&mut self, kind: &str) {
        *self.counts.entry(kind.to_owned()).or_default() += 1;
    }

    fn crc(&self) -> u32 {
        self.hasher.clone().finalize()
    }

    /// The last line for these.
    pub(super) fn footer(&self) -> Footer {
        Footer { counts: self.counts.clone(), crc: self.crc() }
    }
}

/// One line of a file.
pub(super) struct Line {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Its bytes without the line ending; empty if it is too long.
    pub(super) bytes: Vec<u8>,
    /// Whether it is longer than a record may be.
    pub(super) long: bool,
}

impl Line {
    /// The key and the object of the line.
    pub(super) fn object(&self) -> Outcome<(String, Map<String, Value>)> {
        if self.long {
            let most = limits::IMPORT_LINE_MAX_BYTES;
            return Err(damaged(format!("it is longer than any record: one has at most {most} bytes")));
        }
        let text = std::str::from_utf8(&self.bytes).map_err(|_| damaged("it is not UTF-8"))?;
        if text.trim().is_empty() {
            return Err(damaged("it is empty"));
        }
        let line: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| damaged(format!("it cannot be read: {error}")))?;
        let mut line = line.into_iter();
        match (line.next(), line.next()) {
            (Some((what, Value::Object(row))), None) => Ok((what, row)),
            _ => Err(damaged("wanted one object with one key, such as {\"entry\": {…}}")),
        }
    }
}

/// Reads the lines of a file; their length is limited.
pub(super) struct Lines {
    input: BufReader<File>,
    number: u64,
}

impl Lines {
    pub(super) fn open(file: &Path) -> io::Result<Self> {
        Ok(Self { input: BufReader::new(File::open(file)?), number: 0 })
    }

    /// The next line, if there is one. The rest of a line that is too long is skipped.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let (mut bytes, most) = (Vec::new(), limits::IMPORT_LINE_MAX_BYTES);
        if (&mut self.input).take(most as u64 + 1).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        } else if bytes.len() > most {
            self.input.skip_until(b'\n')?;
            return Ok(Some(Line { number, bytes: Vec::new(), long: true }));
        }
        Ok(Some(Line { number, bytes, long: false }))
    }
}

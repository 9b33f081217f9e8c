CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;

-- How far the log and the ledger of an agent were read, or the messages of a space, and how many documents it has.
CREATE TABLE done (
  owner INTEGER PRIMARY KEY,           -- agent; spaces have the bit 26
  entries INTEGER NOT NULL DEFAULT 0,
  events INTEGER NOT NULL DEFAULT 0,
  docs INTEGER NOT NULL DEFAULT 0,
  words INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE doc (
  id INTEGER PRIMARY KEY,              -- owner << 36 | seq; memories have the bit 35, and a slot instead of a seq
  at INTEGER NOT NULL,
  kind INTEGER NOT NULL,               -- index in RecallKind::ALL
  words INTEGER NOT NULL,
  cycle BLOB                           -- NULL for a message, and for a memory that an operator wrote
) STRICT;

CREATE TABLE cycle (
  agent INTEGER NOT NULL,
  cycle BLOB NOT NULL,
  first INTEGER,                       -- seqs of its entries
  last INTEGER,
  trust INTEGER,                       -- the lowest of its events
  PRIMARY KEY (agent, cycle)
) STRICT, WITHOUT ROWID;

-- The spaces that a cycle was about: those of its events and of its messages.
CREATE TABLE cycle_space (
  agent INTEGER NOT NULL,
  cycle BLOB NOT NULL,
  space INTEGER NOT NULL,
  PRIMARY KEY (agent, cycle, space)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory (
  agent INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  key TEXT NOT NULL,
  words INTEGER NOT NULL,
  PRIMARY KEY (agent, slot)
) STRICT;
CREATE UNIQUE INDEX memory_key ON memory(agent, key);

-- No texts: a document is read from the store. The words come from `words.rs`, which folds them.
CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1,
  tokenize="unicode61 remove_diacritics 0 categories 'L* N* M* Co'");

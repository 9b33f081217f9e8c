-- The first schema. Times are milliseconds since the epoch. UUIDs are stored as 16 bytes. Ids that are usually
-- UUIDs but may be other text (event, root) are ANY: 16 bytes if they are a UUID.
-- An agent has the rowid of its entity, so that references to either are small. Only tables with short rows are
-- WITHOUT ROWID: in such a table SQLite reads whole rows on the way to a key, so a row with 100 KB of text would
-- slow down every search for a neighboring row.

CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;

CREATE TABLE entity (
  id INTEGER PRIMARY KEY,
  uuid BLOB NOT NULL UNIQUE,
  kind INTEGER NOT NULL,               -- 0 human, 1 agent
  name TEXT NOT NULL UNIQUE,
  display_name TEXT NOT NULL,
  external_id TEXT,
  created_at INTEGER NOT NULL
) STRICT;

-- Columns that accepting a message needs from the config are copied here from the newest revision.
CREATE TABLE agent (
  id INTEGER PRIMARY KEY,              -- entity.id
  standing INTEGER NOT NULL,           -- 0 active, 1 suspended, 2 retired
  config_rev INTEGER NOT NULL,
  wake_on INTEGER NOT NULL,            -- 0 all, 1 mention
  hop_limit INTEGER NOT NULL,
  inbox_max INTEGER NOT NULL,
  debounce INTEGER NOT NULL,
  facts_rev INTEGER NOT NULL DEFAULT 0, -- raised by every change of its facts
  urgency TEXT,                        -- its config's rule for urgent events, as JSON; NULL for the default
  damage TEXT                          -- why it is quarantined: one of its records cannot be read
) STRICT;

CREATE TABLE config_rev (
  agent INTEGER NOT NULL,
  rev INTEGER NOT NULL,
  at INTEGER NOT NULL,
  config TEXT NOT NULL,
  PRIMARY KEY (agent, rev)
) STRICT;

CREATE TABLE space (
  id INTEGER PRIMARY KEY,
  uuid BLOB NOT NULL UNIQUE,
  name TEXT NOT NULL UNIQUE,
  display_name TEXT NOT NULL,
  description TEXT NOT NULL,
  head_seq INTEGER NOT NULL DEFAULT 0,
  rev INTEGER NOT NULL DEFAULT 0,
  closed INTEGER NOT NULL DEFAULT 0,
  wake_on INTEGER NOT NULL DEFAULT 0,  -- 0 all, 1 mention; the stricter of this and the agent's own applies
  created_at INTEGER NOT NULL,
  active_at INTEGER NOT NULL           -- time of the newest message, else of its creation
) STRICT;

CREATE TABLE member (
  space INTEGER NOT NULL,
  entity INTEGER NOT NULL,
  role TEXT NOT NULL,
  since INTEGER NOT NULL,
  PRIMARY KEY (space, entity)
) STRICT, WITHOUT ROWID;
CREATE INDEX member_entity ON member(entity, space);

CREATE TABLE message (
  space INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  uuid BLOB NOT NULL,
  rev INTEGER NOT NULL,
  sender INTEGER NOT NULL,
  kind INTEGER NOT NULL,               -- 0 text, 1 tool
  urgent INTEGER NOT NULL,
  at INTEGER NOT NULL,
  principal_kind INTEGER NOT NULL,     -- 0 entity, 1 credential, 2 webhook, 3 own
  principal ANY,
  trust INTEGER NOT NULL,              -- 0 outside, 1 agent, 2 member, 3 operator
  root ANY NOT NULL,
  hop INTEGER NOT NULL,
  cycle BLOB,
  call TEXT,
  mentions BLOB,                       -- 16 bytes per id; NULL if there are none
  text TEXT NOT NULL,
  data TEXT,
  crc INTEGER NOT NULL,                -- CRC-32 of the content, see `sums.rs`
  PRIMARY KEY (space, seq)
) STRICT;
CREATE UNIQUE INDEX message_uuid ON message(uuid);
CREATE INDEX message_rev ON message(space, rev);
CREATE INDEX message_cycle ON message(cycle) WHERE cycle IS NOT NULL;

-- The ledger: every accepted event, kept forever, in exactly one state.
CREATE TABLE event (
  agent INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  id ANY NOT NULL,
  kind INTEGER NOT NULL,               -- index in EventKind::ALL
  urgent INTEGER NOT NULL,
  at INTEGER NOT NULL,
  state INTEGER NOT NULL,              -- 0 waiting, 1 held, 2 processed, 3 skipped, 4 canceled, 5 dead, 6 dropped
  principal_kind INTEGER NOT NULL,
  principal ANY,
  channel INTEGER NOT NULL,            -- 0 space, 1 api, 2 webhook, 3 timer, 4 tool
  trust INTEGER NOT NULL,
  root ANY NOT NULL,
  hop INTEGER NOT NULL,
  space INTEGER,                       -- for a message: its space,
  from_seq INTEGER,                    --   its seq
  data TEXT,                           -- the data of any other event, as JSON
  cycle BLOB,                          -- processed: in which cycle and step
  step INTEGER,
  reason TEXT,                         -- skipped, dead: why; processed: why it was dead before it was sent again
  cites ANY,                           -- the processed event that an operator sent again as this one
  release_at INTEGER,                  -- held: when it is released by itself
  addressed INTEGER NOT NULL DEFAULT 0, -- its agent named it in `done(addressed)`
  PRIMARY KEY (agent, seq)
) STRICT;
CREATE UNIQUE INDEX event_id ON event(agent, id);
CREATE INDEX event_held ON event(agent, seq) WHERE state = 1;
CREATE INDEX event_held_in ON event(agent, space, seq) WHERE state = 1;
CREATE INDEX event_dead ON event(agent, seq) WHERE state = 5;
CREATE INDEX event_release ON event(release_at) WHERE release_at IS NOT NULL;

-- Events that wait. A row is removed when its event is settled.
CREATE TABLE waiting (
  agent INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  urgent INTEGER NOT NULL,
  speaker INTEGER NOT NULL,            -- CRC-32 of its principal: finds a sender's events without the ledger
  deep INTEGER NOT NULL,               -- 1: many others waited before it, so it is indexed by sender
  not_before INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, -- failed cycles that its content may have caused
  deaths INTEGER NOT NULL DEFAULT 0,   -- times that the process died while it was being processed
  taken INTEGER NOT NULL DEFAULT 0,    -- 1: the open cycle has taken it
  boot INTEGER NOT NULL,               -- number of the start of the store during which it was accepted
  PRIMARY KEY (agent, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX waiting_first ON waiting(agent, boot, not_before);
CREATE INDEX waiting_taken ON waiting(agent, seq) WHERE taken = 1;
CREATE INDEX waiting_urgent ON waiting(agent, seq) WHERE urgent = 1;
CREATE INDEX waiting_deep ON waiting(agent, speaker, seq) WHERE deep = 1;

CREATE TABLE inbox_head (
  agent INTEGER PRIMARY KEY,
  head_seq INTEGER NOT NULL DEFAULT 0,
  waiting INTEGER NOT NULL DEFAULT 0,  -- rows of `waiting`
  taken INTEGER NOT NULL DEFAULT 0,    -- how many of these the open cycle has taken
  due_at INTEGER,                      -- NULL: it has nothing to do, or is suspended or retired
  hold_until INTEGER,
  idle_reason INTEGER,                 -- 0 provider, 1 backoff
  held INTEGER NOT NULL DEFAULT 0,     -- rows of `event` that are held
  cancel BLOB                          -- the cycle that must be canceled
) STRICT;
CREATE INDEX inbox_due ON inbox_head(due_at) WHERE due_at IS NOT NULL;
CREATE INDEX inbox_idle ON inbox_head(agent) WHERE idle_reason = 0;

CREATE TABLE life (
  agent INTEGER PRIMARY KEY,
  epoch INTEGER NOT NULL DEFAULT 0,
  commit_n INTEGER NOT NULL DEFAULT 0,
  head_seq INTEGER NOT NULL DEFAULT 0,
  cycles INTEGER NOT NULL DEFAULT 0,
  skips INTEGER NOT NULL DEFAULT 0,
  active_space INTEGER,
  failures INTEGER NOT NULL DEFAULT 0,
  usage_input INTEGER,
  usage_cached INTEGER,
  usage_output INTEGER,
  usage_reasoning INTEGER,
  cost_micros INTEGER,                 -- total known cost of its cycles; NULL: none is known
  unpriced INTEGER NOT NULL DEFAULT 0, -- runs whose cost is unknown
  open_cycle BLOB,
  step INTEGER,                        -- of the open cycle
  boot INTEGER NOT NULL DEFAULT 0,     -- the start of the store that runs the open cycle; 0: none
  requesters TEXT,                     -- of the open cycle; read by every accept
  notice TEXT,
  open TEXT
) STRICT;
CREATE INDEX life_open ON life(agent) WHERE open_cycle IS NOT NULL;

CREATE TABLE entry (
  agent INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  cycle BLOB NOT NULL,
  step INTEGER NOT NULL,
  kind TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  at INTEGER NOT NULL,
  format INTEGER NOT NULL,
  crc INTEGER NOT NULL,                -- CRC-32 of the message's bytes
  message TEXT NOT NULL,
  PRIMARY KEY (agent, seq)
) STRICT;

CREATE TABLE call (
  agent INTEGER NOT NULL,
  cycle BLOB NOT NULL,
  step INTEGER NOT NULL,
  idx INTEGER NOT NULL,
  id TEXT NOT NULL,
  tool TEXT NOT NULL,
  effect TEXT NOT NULL,
  tool_version TEXT NOT NULL,
  awaited INTEGER NOT NULL,
  state TEXT NOT NULL,
  arguments TEXT NOT NULL,
  outcome TEXT,
  outside INTEGER NOT NULL DEFAULT 0,  -- 1: answered from outside its cycle, or canceled
  root ANY,                            -- open calls: the root of their answers,
  hop INTEGER,                         --   and the hop
  attempts INTEGER NOT NULL DEFAULT 0, -- detached: how often a later start resumed it
  PRIMARY KEY (agent, cycle, step, idx)
) STRICT;
CREATE UNIQUE INDEX call_id ON call(id);
CREATE INDEX call_outside ON call(agent, cycle, step, awaited) WHERE outside = 1;
CREATE INDEX call_detached ON call(id) WHERE state = 'detached';
CREATE INDEX call_detached_of ON call(agent) WHERE state = 'detached';

-- Records of the older steps of open cycles; the newest few are in `life.open`. After the cycle its run has them all.
CREATE TABLE step (
  agent INTEGER NOT NULL,
  cycle BLOB NOT NULL,
  step INTEGER NOT NULL,
  record TEXT NOT NULL,
  PRIMARY KEY (agent, cycle, step)
) STRICT;

CREATE TABLE view (
  agent INTEGER NOT NULL,
  rev INTEGER NOT NULL,
  commit_n INTEGER NOT NULL,
  tail INTEGER NOT NULL,
  reasoning_from INTEGER NOT NULL,
  native_from INTEGER NOT NULL DEFAULT 1, -- vendor-specific blocks are sent from this entry on
  ranges TEXT NOT NULL,
  summary TEXT,
  PRIMARY KEY (agent, rev)
) STRICT;

-- The audit of commits. It has the tokens used, so that skipped cycles, which have no run, are counted too.
CREATE TABLE commits (
  agent INTEGER NOT NULL,
  n INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  cycle BLOB NOT NULL,
  step INTEGER NOT NULL,
  kind TEXT NOT NULL,
  at INTEGER NOT NULL,
  usage_input INTEGER,
  usage_cached INTEGER,
  usage_output INTEGER,
  usage_reasoning INTEGER,
  PRIMARY KEY (agent, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
  agent INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  cycle BLOB NOT NULL,
  events INTEGER NOT NULL,
  opened_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  usage_input INTEGER,
  usage_cached INTEGER,
  usage_output INTEGER,
  usage_reasoning INTEGER,
  cost_micros INTEGER,
  config_rev INTEGER NOT NULL,
  ending TEXT NOT NULL,
  model TEXT NOT NULL,
  woke_for TEXT NOT NULL,
  steps TEXT NOT NULL,
  reason TEXT,
  summary TEXT,
  PRIMARY KEY (agent, ordinal)
) STRICT;
CREATE UNIQUE INDEX run_cycle ON run(cycle);

-- Versioned: a row is valid from one commit of the agent up to (not including) another, so that a fork can read
-- the state at any commit. Overwriting ends the old row.
CREATE TABLE memory (
  agent INTEGER NOT NULL,
  key TEXT NOT NULL,
  from_commit INTEGER NOT NULL,
  to_commit INTEGER,
  at INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (agent, key, from_commit)
) STRICT;
CREATE INDEX memory_now ON memory(agent, at) WHERE to_commit IS NULL;

CREATE TABLE goal (
  agent INTEGER NOT NULL,
  id BLOB NOT NULL,
  from_commit INTEGER NOT NULL,
  to_commit INTEGER,
  parent BLOB,
  priority INTEGER NOT NULL,
  status TEXT NOT NULL,
  description TEXT NOT NULL,
  PRIMARY KEY (agent, id, from_commit)
) STRICT;
CREATE INDEX goal_id ON goal(id, agent);
CREATE INDEX goal_now ON goal(agent) WHERE to_commit IS NULL;

CREATE TABLE plan (
  agent INTEGER NOT NULL,
  id BLOB NOT NULL,
  from_commit INTEGER NOT NULL,
  to_commit INTEGER,
  next_at INTEGER,                     -- NULL: it has ended
  name TEXT NOT NULL,
  schedule TEXT NOT NULL,
  instruction TEXT NOT NULL,
  root ANY NOT NULL,                   -- the cause of its events: the root of the cycle that set it,
  hop INTEGER NOT NULL,                --   the hop,
  trust INTEGER NOT NULL,              --   and the lowest trust of the events in that cycle
  fire_at INTEGER,                     -- when it is checked next; NULL: it has ended, or its agent may not run
  fired INTEGER,                       -- seq of its last event since it was set
  PRIMARY KEY (agent, id, from_commit)
) STRICT;
CREATE INDEX plan_id ON plan(id, agent);
CREATE INDEX plan_now ON plan(agent) WHERE to_commit IS NULL;
CREATE INDEX plan_due ON plan(fire_at) WHERE to_commit IS NULL AND fire_at IS NOT NULL;

-- Text that models were sent in addition to the log. Kept for an agent's newest requests only.
CREATE TABLE layer (
  agent INTEGER NOT NULL,
  request INTEGER NOT NULL,            -- counts the agent's requests that had layers
  idx INTEGER NOT NULL,
  cycle BLOB NOT NULL,
  after INTEGER NOT NULL,              -- its place is right after this entry
  text TEXT NOT NULL,
  PRIMARY KEY (agent, request, idx)
) STRICT;
CREATE INDEX layer_cycle ON layer(agent, cycle);

-- Idempotency keys, kept forever.
CREATE TABLE request (
  principal TEXT NOT NULL,             -- the uuid of a person, else the scope of the key
  key TEXT NOT NULL,
  body_hash TEXT NOT NULL,
  message BLOB,
  subject BLOB,                        -- id of what it creates or ended
  PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;

-- Messages of agents per causal root: only those that were delivered to another agent count.
CREATE TABLE root (id ANY NOT NULL PRIMARY KEY, agent_messages INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE credential (
  id BLOB NOT NULL PRIMARY KEY,
  scope INTEGER NOT NULL,              -- 0 admin, 1 operator:read, 2 person, 3 service
  entity INTEGER,                      -- the person
  service TEXT,                        -- the name of the service
  label TEXT NOT NULL,
  secret_hash TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  used_at INTEGER,                     -- at most once a minute
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- What the outward tools do that the agent has called: 1 private, 2 exfiltrates, 4 outside. 0 again when an operator
-- clears its guard.
ALTER TABLE life ADD COLUMN used INTEGER NOT NULL DEFAULT 0;

-- The lowest trust of what the agent had read when it wrote the goal: 0 outside, 1 agent, 2 member, 3 operator.
ALTER TABLE goal ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;

-- Plans that an operator or the agent's config has set, and what becomes of slots at which they could not fire.
ALTER TABLE plan ADD COLUMN missed INTEGER NOT NULL DEFAULT 0; -- 0 once, 1 skip, 2 all
ALTER TABLE plan ADD COLUMN max_late INTEGER;                  -- ms; NULL: as late as it may be
ALTER TABLE plan ADD COLUMN source INTEGER NOT NULL DEFAULT 0; -- 0 agent, 1 operator, 2 config, 3 heartbeat

-- The revision of the agent's facts at the end of its last cycle; NULL before the first one.
ALTER TABLE life ADD COLUMN facts_seen INTEGER;

-- Who runs a call, and the newest claim of a worker. `attempts` of a worker's call counts its claims.
ALTER TABLE call ADD COLUMN runner TEXT NOT NULL DEFAULT 'node'; -- node, worker
ALTER TABLE call ADD COLUMN claim BLOB;
CREATE INDEX call_claim ON call(claim) WHERE claim IS NOT NULL;

-- Declared tools, in use from the next activation on.
CREATE TABLE tool (
  name TEXT PRIMARY KEY,
  declaration TEXT NOT NULL,           -- JSON
  file TEXT,                           -- the file that declares it; NULL for the API
  at INTEGER NOT NULL                  -- when it was declared or changed
) STRICT;

-- Hooks, through which services outside send events.
CREATE TABLE hook (
  name TEXT PRIMARY KEY,
  declaration TEXT NOT NULL,           -- JSON
  agents BLOB NOT NULL,                -- who gets its events: ids, 16 bytes each
  at INTEGER NOT NULL                  -- when it was declared or changed
) STRICT;

-- The last deliveries of each hook. That a delivery is accepted once is known from the ids of its events.
CREATE TABLE hook_delivery (
  n INTEGER PRIMARY KEY,
  hook TEXT NOT NULL,
  at INTEGER NOT NULL,
  delivery TEXT,                       -- the sender's id of it
  outcome INTEGER NOT NULL,            -- 0 accepted, 1 duplicate, 2 answered, 3 refused
  detail TEXT,                         -- why it was refused
  event TEXT,                          -- the same for all agents
  agents BLOB                          -- who got it: ids, 16 bytes each
) STRICT;
CREATE INDEX hook_delivery_of ON hook_delivery(hook, outcome, n);

-- Servers outside that are told what happens in a space, or to an agent.
CREATE TABLE target (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  url TEXT NOT NULL,
  secrets TEXT NOT NULL,               -- names of the secrets, each of which signs: JSON
  allow TEXT NOT NULL,                 -- addresses inside that it may have: JSON
  kinds INTEGER NOT NULL,              -- what it is told: 1 message, 2 cycle.ended, 4 alert, 8 approval.wanted
  space INTEGER,                       -- of this space,
  agent INTEGER,                       -- or of this agent
  off TEXT,                            -- why nothing is sent any more; NULL while it is on
  at INTEGER NOT NULL                  -- when it was added or changed
) STRICT;
CREATE INDEX target_of_space ON target(space) WHERE space IS NOT NULL;
CREATE INDEX target_of_agent ON target(agent) WHERE agent IS NOT NULL;

-- What waits to be sent to targets, written in the commit in which it happens; to each target in the order of `n`.
CREATE TABLE outgoing (
  n INTEGER PRIMARY KEY,
  target INTEGER NOT NULL,
  id TEXT NOT NULL UNIQUE,             -- the same at each attempt
  body TEXT NOT NULL,                  -- JSON, the same bytes at each attempt
  at INTEGER NOT NULL,                 -- when it happened, or was last sent again by an operator
  attempts INTEGER NOT NULL DEFAULT 0, -- that failed
  next_at INTEGER NOT NULL DEFAULT 0,
  why TEXT,                            -- why the last attempt failed
  dead INTEGER NOT NULL DEFAULT 0      -- 1: given up
) STRICT;
CREATE INDEX outgoing_of ON outgoing(target, dead, n);
-- What is known of a call that waits, or has waited, for a person (JSON), and while nobody has answered, when people are
-- reminded or it expires. `outside` has a second bit: 2, a person has approved it.
ALTER TABLE call ADD COLUMN approval TEXT;
ALTER TABLE call ADD COLUMN ask_at INTEGER;
-- What its rule must be for, of a call that needs no approval because of one (JSON).
ALTER TABLE call ADD COLUMN by_rule TEXT;
CREATE INDEX call_lapse ON call(ask_at) WHERE ask_at IS NOT NULL;
CREATE INDEX call_approval ON call((ask_at IS NOT NULL)) WHERE approval IS NOT NULL;
DROP INDEX call_outside;
CREATE INDEX call_outside ON call(agent, cycle, step, awaited) WHERE outside > 0;
DROP INDEX call_detached;
CREATE INDEX call_detached ON call(id) WHERE state = 'detached' AND ask_at IS NULL;

-- Calls of these tools by these agents need no approval for a time.
CREATE TABLE approval_rule (
  agent INTEGER NOT NULL,
  tool TEXT NOT NULL,
  version TEXT NOT NULL,               -- of the tool
  space BLOB NOT NULL,                 -- uuid of the space whose calls it is for; empty: all, or those without a space if a person gave it
  until INTEGER NOT NULL,
  tainted INTEGER NOT NULL,            -- 1: also while the agent has read strangers' text
  by TEXT NOT NULL,                    -- who gave it
  person BLOB NOT NULL,                -- uuid of the person who gave it; empty: an operator
  at INTEGER NOT NULL,
  PRIMARY KEY (agent, tool, space, person)
) STRICT;

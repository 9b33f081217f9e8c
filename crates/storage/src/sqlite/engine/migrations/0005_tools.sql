-- What the outward tools do that the agent has called: 1 private, 2 exfiltrates, 4 outside. 0 again when an operator
-- clears its guard.
ALTER TABLE life ADD COLUMN used INTEGER NOT NULL DEFAULT 0;

-- The lowest trust of what the agent had read when it wrote the goal: 0 outside, 1 agent, 2 member, 3 operator.
ALTER TABLE goal ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;

-- Plans that an operator or the agent's config has set, and what becomes of slots at which they could not fire.
ALTER TABLE plan ADD COLUMN missed INTEGER NOT NULL DEFAULT 0; -- 0 once, 1 skip, 2 all
ALTER TABLE plan ADD COLUMN max_late INTEGER;                  -- ms; NULL: as late as it may be
ALTER TABLE plan ADD COLUMN source INTEGER NOT NULL DEFAULT 0; -- 0 agent, 1 operator, 2 config

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

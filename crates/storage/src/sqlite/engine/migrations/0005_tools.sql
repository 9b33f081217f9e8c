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

-- What is known of a call that waits, or has waited, for a person (JSON), and while nobody has answered, when people are
-- reminded or it expires. `outside` has a second bit: 2, a person has approved it.
ALTER TABLE call ADD COLUMN approval TEXT;
ALTER TABLE call ADD COLUMN ask_at INTEGER;
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
  until INTEGER NOT NULL,
  tainted INTEGER NOT NULL,            -- 1: also while the agent has read strangers' text
  by TEXT NOT NULL,                    -- who gave it
  at INTEGER NOT NULL,
  PRIMARY KEY (agent, tool)
) STRICT;

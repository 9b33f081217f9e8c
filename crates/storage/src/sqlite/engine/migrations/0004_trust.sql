-- How far a content can be trusted: 0 outside, 1 agent, 2 member, 3 operator. What older versions wrote counts as from
-- outside, because nobody noted what it was made of.
ALTER TABLE entry ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;
-- The lowest of all that the summary replaces.
ALTER TABLE view ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memory ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;

ALTER TABLE memory ADD COLUMN importance INTEGER NOT NULL DEFAULT 1; -- 0 low, 1 normal, 2 high
ALTER TABLE memory ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;     -- 1: shown in every cycle
-- When it was written, or found by the agent's `recall`, whichever was later. Changed in place.
ALTER TABLE memory ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
UPDATE memory SET used_at = at;

-- The order in which memories get room in a workspace.
DROP INDEX memory_now;
CREATE INDEX memory_now ON memory(agent, pinned, importance, used_at) WHERE to_commit IS NULL;

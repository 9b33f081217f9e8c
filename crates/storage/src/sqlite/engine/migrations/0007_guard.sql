-- What an agent's model had read when it made the call: 0 outside, 1 agent, 2 member, 3 operator. What older versions wrote
-- counts as from outside.
ALTER TABLE call ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;

-- What is private is what the view shows, no longer what was once used.
ALTER TABLE life DROP COLUMN used;

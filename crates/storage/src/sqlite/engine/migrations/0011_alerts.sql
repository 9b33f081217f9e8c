-- What operators should know of that has happened, also if nobody was watching: the newest 200 of each agent, and of the server.
CREATE TABLE alert (
  n INTEGER PRIMARY KEY,
  agent INTEGER,                       -- NULL: it is the server's
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  cycle BLOB,                          -- uuid of the cycle in which it happened
  event TEXT,                          -- id of the event
  target TEXT,                         -- name of the target
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX alert_of ON alert(agent, n);

-- Agents that are not active, which are few, are counted without the others.
CREATE INDEX agent_standing ON agent(standing) WHERE standing <> 0;
CREATE INDEX agent_damaged ON agent(id) WHERE damage IS NOT NULL;

-- How attempts at a target go: since when none has succeeded (NULL: the last one has), and when the last one did.
ALTER TABLE target ADD COLUMN failed_at INTEGER;
ALTER TABLE target ADD COLUMN arrived_at INTEGER;

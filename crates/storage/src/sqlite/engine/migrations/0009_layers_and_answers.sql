-- The first revision of the view whose layers are sent. Those of earlier versions had layers of their own each.
ALTER TABLE view ADD COLUMN layers_from INTEGER NOT NULL DEFAULT 0;
UPDATE view SET layers_from = rev;

-- Answers may be long: the rows get an id.
CREATE TABLE request_kept (
  principal TEXT NOT NULL,             -- the uuid of a person, else the scope of the key
  key TEXT NOT NULL,
  body_hash TEXT NOT NULL,
  subject BLOB,                        -- id of what it creates or ended
  at INTEGER NOT NULL DEFAULT 0,       -- when it arrived
  answer TEXT,                         -- JSON; only of what cannot be read again
  PRIMARY KEY (principal, key)
) STRICT;
INSERT INTO request_kept (principal, key, body_hash, subject, at, answer)
  SELECT principal, key, body_hash, subject, at, answer FROM request;
DROP TABLE request;
ALTER TABLE request_kept RENAME TO request;
CREATE INDEX request_at ON request(at);

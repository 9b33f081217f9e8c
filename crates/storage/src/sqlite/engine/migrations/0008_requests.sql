-- Idempotency keys are kept for 30 days. A message is the subject of its request, like everything else that a request creates.
ALTER TABLE request ADD COLUMN at INTEGER NOT NULL DEFAULT 0; -- when it arrived
ALTER TABLE request ADD COLUMN answer TEXT;                   -- JSON; only of what cannot be read again
UPDATE request SET subject = coalesce(subject, message, randomblob(16)), at = 1000 * unixepoch();
ALTER TABLE request DROP COLUMN message;
CREATE INDEX request_at ON request(at);

-- When time alone lets a held event go. Those that were held before get their time too.
ALTER TABLE event ADD COLUMN release_at INTEGER;
UPDATE event SET release_at = at + 600000 WHERE state = 1;
CREATE INDEX event_release ON event(release_at) WHERE release_at IS NOT NULL;
ALTER TABLE inbox_head ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
UPDATE inbox_head SET held = (SELECT count(*) FROM event e WHERE e.agent = inbox_head.agent AND e.state = 1);

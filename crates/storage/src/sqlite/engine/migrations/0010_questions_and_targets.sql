-- The newest event of the inbox when an activation ended by a mistake of the program that no opening has counted yet.
ALTER TABLE life ADD COLUMN panicked INTEGER;

-- Calls of an agent for which a person is waited.
CREATE INDEX call_asked ON call(agent) WHERE ask_at IS NOT NULL;
-- What waits for people in a space: closed spaces end it, and a message there may answer it.
CREATE INDEX call_asked_in ON call(approval ->> '$.space') WHERE ask_at IS NOT NULL;

-- What of the news a target is sent, and how it is written.
ALTER TABLE target ADD COLUMN only_if TEXT; -- an expression; all news without one
ALTER TABLE target ADD COLUMN body TEXT;    -- JSON whose texts are templates; the news as they are without one

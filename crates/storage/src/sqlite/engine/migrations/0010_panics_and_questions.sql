-- The newest event of the inbox when an activation ended by a mistake of the program that no opening has counted yet.
ALTER TABLE life ADD COLUMN panicked INTEGER;

-- Calls of an agent for which a person is waited.
CREATE INDEX call_asked ON call(agent) WHERE ask_at IS NOT NULL;

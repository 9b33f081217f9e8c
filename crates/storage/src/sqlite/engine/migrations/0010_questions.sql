-- What waits for people in a space: closed spaces end it, and a message there may answer it.
CREATE INDEX call_asked_in ON call(approval ->> '$.space') WHERE ask_at IS NOT NULL;

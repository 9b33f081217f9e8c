-- What of the news a target is sent, and how it is written.
ALTER TABLE target ADD COLUMN only_if TEXT; -- an expression; all news without one
ALTER TABLE target ADD COLUMN body TEXT;    -- JSON whose texts are templates; the news as they are without one

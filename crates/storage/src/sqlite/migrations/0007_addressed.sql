-- Events that their agent has named as dealt with (`done(addressed)`), besides those whose space it spoke in.
ALTER TABLE event ADD COLUMN addressed INTEGER NOT NULL DEFAULT 0;

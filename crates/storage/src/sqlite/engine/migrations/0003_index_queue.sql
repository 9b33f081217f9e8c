-- What the search index must still read. Rows are written in the commit that changes something and are deleted long
-- after they were indexed; `n` never restarts, because the newest rows stay.
CREATE TABLE index_queue (
  n INTEGER PRIMARY KEY,
  agent INTEGER,                       -- whose log or memories changed; NULL: a message was posted
  space INTEGER,                       -- the message's space
  at INTEGER NOT NULL,
  events TEXT,                         -- seqs of the events that a commit processed, as JSON
  key TEXT                             -- the memory that was changed
) STRICT;

-- An index belongs to one store.
INSERT INTO meta (key, value) VALUES ('index_of', abs(random() / 2));

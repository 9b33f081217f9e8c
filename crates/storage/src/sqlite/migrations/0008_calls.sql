-- Calls that are answered by others than their cycle, and calls that go on beyond it (`detached`).
ALTER TABLE call ADD COLUMN outside INTEGER NOT NULL DEFAULT 0;  -- answered by whoever claimed it, or canceled
ALTER TABLE call ADD COLUMN root ANY;                            -- open calls: what their answers descend from,
ALTER TABLE call ADD COLUMN hop INTEGER;                         --   and the hop that they carry
ALTER TABLE call ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0; -- detached: times that a later start took it up
CREATE INDEX call_outside ON call(agent, cycle) WHERE outside = 1;
CREATE INDEX call_detached ON call(id) WHERE state = 'detached';
CREATE INDEX call_detached_of ON call(agent) WHERE state = 'detached';

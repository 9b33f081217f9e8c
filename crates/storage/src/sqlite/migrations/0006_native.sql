-- From which entry on vendors' own blocks are sent; before it one has refused them.
ALTER TABLE view ADD COLUMN native_from INTEGER NOT NULL DEFAULT 1;

-- Which agents' messages wake the agents of a space, beside what each agent's own config says: 0 all,
-- 1 mention. The stricter of the two holds.
ALTER TABLE space ADD COLUMN wake_on INTEGER NOT NULL DEFAULT 0;

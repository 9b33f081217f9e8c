-- What an agent's receipts cost together, so that a list of agents reads no receipts but the newest.
ALTER TABLE life ADD COLUMN cost_micros INTEGER;                -- NULL: no receipt has a price
ALTER TABLE life ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0; -- receipts whose cost is unknown
UPDATE life SET
  cost_micros = (SELECT sum(r.cost_micros) FROM run r WHERE r.agent = life.agent),
  unpriced = (SELECT count(*) FROM run r WHERE r.agent = life.agent AND r.cost_micros IS NULL);

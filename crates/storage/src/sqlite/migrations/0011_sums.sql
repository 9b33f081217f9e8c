-- Checksums (CRC-32, see `sums.rs`) of what else is read again: messages, calls, memories. Those of rows
-- that are there are filled in when this is run.
ALTER TABLE message ADD COLUMN crc INTEGER;
ALTER TABLE call ADD COLUMN crc INTEGER;          -- what was asked for
ALTER TABLE call ADD COLUMN outcome_crc INTEGER;  -- what it came to; NULL while it has no outcome
ALTER TABLE memory ADD COLUMN crc INTEGER;

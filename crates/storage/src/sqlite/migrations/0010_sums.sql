-- Checksums of the ledger: CRC-32 over what an event is (see `sums.rs`). Those of events that were
-- accepted before are filled in when this is run.
ALTER TABLE event ADD COLUMN crc INTEGER;
-- Why an agent was set apart: a record of its own that cannot be read. NULL where nothing is wrong.
ALTER TABLE agent ADD COLUMN damage TEXT;

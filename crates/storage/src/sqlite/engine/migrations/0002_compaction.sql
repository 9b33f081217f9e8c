-- How the summary of a view came about: round, cycles, method, model, usage, tokens before and after. JSON.
ALTER TABLE view ADD COLUMN compaction TEXT;

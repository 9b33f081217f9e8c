-- An event that an operator sent again after it was lived names the first one.
ALTER TABLE event ADD COLUMN cites ANY;

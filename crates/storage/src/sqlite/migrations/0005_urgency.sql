-- What an agent's config calls urgent, as JSON; NULL where it says nothing. Read by every accept.
ALTER TABLE agent ADD COLUMN urgency TEXT;

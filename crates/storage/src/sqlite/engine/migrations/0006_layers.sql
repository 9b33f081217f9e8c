-- What a layer is, the view that it belongs to, and what of the workspace it shows. Layers of earlier versions belong to no
-- view: the next request shows the whole workspace.
DROP INDEX layer_cycle;
ALTER TABLE layer ADD COLUMN kind TEXT NOT NULL DEFAULT 'preview'; -- whole, update, preview, phase
ALTER TABLE layer ADD COLUMN view INTEGER NOT NULL DEFAULT -1;     -- revision of the view
ALTER TABLE layer ADD COLUMN shown TEXT;                           -- JSON; NULL: nothing of the workspace
CREATE INDEX layer_view ON layer(agent, view, cycle);

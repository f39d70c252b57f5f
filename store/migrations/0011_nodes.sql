-- A sign of life of each node. Whoever sees none for a whole lease takes the node's runs over.
CREATE TABLE nodes (
  id   TEXT PRIMARY KEY,
  beat BIGINT NOT NULL
);

-- Who watches a session: a node that has open streams of it, as long as the node lives (until is 0),
-- or a viewer that has let go of its stream, for a while.
CREATE TABLE viewers (
  session_id TEXT NOT NULL,
  viewer     TEXT NOT NULL,
  until      BIGINT NOT NULL,
  PRIMARY KEY (session_id, viewer)
);
CREATE INDEX viewers_by_viewer ON viewers (viewer);

ALTER TABLE runs DROP COLUMN lease_until;

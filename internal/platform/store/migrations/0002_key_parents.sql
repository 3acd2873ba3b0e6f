-- A key that was created with another key names it, so that revoking that one revokes both. There is no foreign
-- key: a backup restores rows in any order.
ALTER TABLE api_keys ADD COLUMN parent_id TEXT NOT NULL DEFAULT '';
CREATE INDEX api_keys_of_parent ON api_keys (parent_id) WHERE parent_id <> '';

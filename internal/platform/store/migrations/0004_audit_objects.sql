-- An entry names the person, the key, the object and the status code in columns of their own. Entries from before have
-- them empty: what they recorded is in actor, target and detail.
ALTER TABLE audit_entries ADD COLUMN user_id TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_entries ADD COLUMN user_email TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_entries ADD COLUMN key_id TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_entries ADD COLUMN runtime TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_entries ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_entries ADD COLUMN application TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_entries ADD COLUMN revision TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_entries ADD COLUMN code TEXT NOT NULL DEFAULT '';

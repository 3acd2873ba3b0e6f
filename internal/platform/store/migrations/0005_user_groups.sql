-- Groups of the identity provider, for policies about rights.
ALTER TABLE users ADD COLUMN group_names TEXT NOT NULL DEFAULT '[]';

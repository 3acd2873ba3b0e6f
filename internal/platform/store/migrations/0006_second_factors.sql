-- What proves a sign-in besides the password. last_proof is the last accepted proof (a time step, or the time of a
-- challenge): an older or equal one is a replay. The secret is encrypted by the platform.
CREATE TABLE second_factors (
    id TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    last_proof BIGINT NOT NULL,
    secret BYTEA NOT NULL
);
CREATE INDEX second_factors_of_user ON second_factors (user_id, created_at);

-- Each is deleted when it is used.
CREATE TABLE recovery_codes (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash BYTEA NOT NULL,
    PRIMARY KEY (user_id, hash)
);

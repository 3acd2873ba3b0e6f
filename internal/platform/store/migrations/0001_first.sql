-- One text for SQLite and PostgreSQL. TEXT gets the collation "C" in PostgreSQL, so that both order alike.
-- Times are microseconds since 1970 in UTC; 0 is never. What is large comes last in a row.

CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    email TEXT NOT NULL,
    email_folded TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    must_change_password BOOLEAN NOT NULL,
    disabled BOOLEAN NOT NULL,
    subject TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_sign_in_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_by_email ON users (email_folded);
CREATE UNIQUE INDEX users_by_subject ON users (subject) WHERE subject <> '';
CREATE INDEX users_of_account ON users (account_id, email_folded);

CREATE TABLE sessions (
    hash BYTEA NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    csrf_hash BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id);
CREATE INDEX sessions_of_account ON sessions (account_id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    hash BYTEA NOT NULL,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL
);
CREATE INDEX api_keys_of_account ON api_keys (account_id, created_at, id);
CREATE INDEX api_keys_of_user ON api_keys (user_id, created_at, id);

CREATE TABLE audit_entries (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    actor_kind TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    outcome TEXT NOT NULL,
    address TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX audit_entries_by_time ON audit_entries (account_id, at, id);
CREATE INDEX audit_entries_by_actor ON audit_entries (account_id, actor, at, id);
CREATE INDEX audit_entries_by_action ON audit_entries (account_id, action, at, id);
CREATE INDEX audit_entries_by_target ON audit_entries (account_id, target, at, id);
CREATE INDEX audit_entries_by_age ON audit_entries (at);

-- The key is a hash: people type passwords where the email belongs.
CREATE TABLE sign_in_attempts (
    id TEXT NOT NULL PRIMARY KEY,
    key_hash BYTEA NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX sign_in_attempts_by_key ON sign_in_attempts (key_hash, at);
CREATE INDEX sign_in_attempts_by_age ON sign_in_attempts (at);

CREATE TABLE runtimes (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    namespace TEXT NOT NULL,
    cluster TEXT NOT NULL,
    cluster_uid TEXT NOT NULL,
    version TEXT NOT NULL,
    chart_version TEXT NOT NULL,
    kubernetes_version TEXT NOT NULL,
    access_mode BIGINT NOT NULL,
    access_url TEXT NOT NULL,
    ingress_class TEXT NOT NULL,
    configuration_runtime BOOLEAN NOT NULL,
    uninstalling BOOLEAN NOT NULL,
    clean_shared_repository BOOLEAN NOT NULL,
    registered_at BIGINT NOT NULL,
    heartbeat_at BIGINT NOT NULL,
    state BYTEA NOT NULL
);
CREATE UNIQUE INDEX runtimes_by_name ON runtimes (account_id, name);
CREATE UNIQUE INDEX runtimes_by_place ON runtimes (account_id, cluster_uid, namespace) WHERE cluster_uid <> '';
CREATE UNIQUE INDEX runtimes_configuration ON runtimes (account_id) WHERE configuration_runtime;

CREATE TABLE runtime_credentials (
    runtime_id TEXT NOT NULL PRIMARY KEY REFERENCES runtimes (id) ON DELETE CASCADE,
    generation BIGINT NOT NULL,
    refresh_hash BYTEA NOT NULL,
    previous_hash BYTEA NOT NULL,
    rotated_at BIGINT NOT NULL,
    revoked BOOLEAN NOT NULL
);

-- Refresh tokens that were replaced: whoever shows one is not the only one who has them.
CREATE TABLE spent_refresh_tokens (
    runtime_id TEXT NOT NULL REFERENCES runtimes (id) ON DELETE CASCADE,
    hash BYTEA NOT NULL,
    spent_at BIGINT NOT NULL,
    PRIMARY KEY (runtime_id, hash)
);
CREATE INDEX spent_refresh_tokens_by_age ON spent_refresh_tokens (runtime_id, spent_at);

CREATE TABLE report_cursors (
    runtime_id TEXT NOT NULL PRIMARY KEY REFERENCES runtimes (id) ON DELETE CASCADE,
    stream TEXT NOT NULL,
    stored BIGINT NOT NULL,
    mark BIGINT NOT NULL,
    resyncing BOOLEAN NOT NULL
);

CREATE TABLE applications (
    runtime_id TEXT NOT NULL REFERENCES runtimes (id) ON DELETE CASCADE,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    sync TEXT NOT NULL,
    health TEXT NOT NULL,
    cluster TEXT NOT NULL,
    destination_namespace TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    mark BIGINT NOT NULL,
    labels TEXT NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (runtime_id, namespace, name)
);
CREATE INDEX applications_by_name ON applications (account_id, name, namespace, runtime_id);
CREATE INDEX applications_by_health ON applications (account_id, health, name, namespace, runtime_id);
CREATE INDEX applications_by_sync ON applications (account_id, sync, name, namespace, runtime_id);
CREATE INDEX applications_of_runtime ON applications (runtime_id, name, namespace);

CREATE TABLE application_labels (
    runtime_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (runtime_id, namespace, name, label),
    FOREIGN KEY (runtime_id, namespace, name) REFERENCES applications (runtime_id, namespace, name) ON DELETE CASCADE
);
CREATE INDEX application_labels_by_value ON application_labels (account_id, label, value, name, namespace, runtime_id);

CREATE TABLE git_settings (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    provider TEXT NOT NULL,
    api_url TEXT NOT NULL,
    shared_repository TEXT NOT NULL,
    validated BOOLEAN NOT NULL
);

CREATE TABLE signing_keys (
    id TEXT NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL,
    not_after BIGINT NOT NULL,
    private BYTEA NOT NULL
);

CREATE TABLE replicas (
    id TEXT NOT NULL PRIMARY KEY,
    peer_url TEXT NOT NULL,
    tunnel_url TEXT NOT NULL,
    seen_at BIGINT NOT NULL
);

CREATE TABLE connections (
    runtime_id TEXT NOT NULL REFERENCES runtimes (id) ON DELETE CASCADE,
    replica_id TEXT NOT NULL,
    count BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (runtime_id, replica_id)
);
CREATE INDEX connections_of_replica ON connections (replica_id);

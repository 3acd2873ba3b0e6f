-- A sync that changed the revision of an application, or failed to. The ID is derived from what identifies the sync, so that a
-- report that is sent again gives the same row.
CREATE TABLE deployments (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    runtime_id TEXT NOT NULL REFERENCES runtimes (id) ON DELETE CASCADE,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    project TEXT NOT NULL,
    revision TEXT NOT NULL,
    previous_revision TEXT NOT NULL,
    committed_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    rolled_back_at BIGINT NOT NULL,
    succeeded BOOLEAN NOT NULL,
    going_back BOOLEAN NOT NULL,
    automated BOOLEAN NOT NULL,
    initiator TEXT NOT NULL,
    message TEXT NOT NULL
);
CREATE INDEX deployments_by_time ON deployments (account_id, finished_at, id);
CREATE INDEX deployments_of_application ON deployments (runtime_id, namespace, name, finished_at);
CREATE INDEX deployments_by_age ON deployments (finished_at);

-- A digest of the syncs that an application was last reported with: most reports have no new one.
ALTER TABLE applications ADD COLUMN syncs_digest TEXT NOT NULL DEFAULT '';

-- Work that one replica does for all of them.
CREATE TABLE maintenance_tasks (
    name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    held_until BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    problem TEXT NOT NULL
);

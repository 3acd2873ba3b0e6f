-- Traffic of a runtime, summed up for steps of a minute and of an hour (in seconds). A row has all series of its time, so that the
-- number of rows depends on the retention alone.
CREATE TABLE traffic_sums (
    runtime_id TEXT NOT NULL REFERENCES runtimes (id) ON DELETE CASCADE,
    step BIGINT NOT NULL,
    at BIGINT NOT NULL,
    sums BYTEA NOT NULL,
    PRIMARY KEY (runtime_id, step, at)
);
CREATE INDEX traffic_sums_by_age ON traffic_sums (step, at);

-- What an edge had counted at its last report. The difference to the next one is added to the sums, in the same transaction.
CREATE TABLE traffic_edges (
    runtime_id TEXT NOT NULL REFERENCES runtimes (id) ON DELETE CASCADE,
    edge TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    counts BYTEA NOT NULL,
    PRIMARY KEY (runtime_id, edge)
);
CREATE INDEX traffic_edges_by_age ON traffic_edges (seen_at);

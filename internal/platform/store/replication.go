package store

import "context"

// Replication is how the database is replicated, as far as the platform sees it.
type Replication struct {
	// Kind is sqlite or postgres. The rest is of PostgreSQL.
	Kind string
	// Hosts is how many hosts the URL names.
	Hosts int
	// Standbys is how many standbys are connected to the primary.
	Standbys int
	// Synchronous is set if commits wait for a standby.
	Synchronous bool
}

// Replication reads how the database is replicated. It needs no rights beyond those of
// the platform: the view hides the details of standbys from it, but not their number.
func (s *Store) Replication(ctx context.Context) (Replication, error) {
	found := Replication{Kind: s.engine.name()}
	engine, isPostgres := s.engine.(postgresEngine)
	if !isPostgres {
		return found, nil
	}
	found.Hosts = len(databaseHosts(engine.config))
	return readOne(ctx, s, func(r row) (Replication, error) {
		err := r.Scan(&found.Standbys, &found.Synchronous)
		return found, err
	}, `SELECT (SELECT count(*) FROM pg_stat_replication),
		current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') NOT IN ('off', 'local')`)
}

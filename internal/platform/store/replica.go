package store

import (
	"context"
	"errors"
	"time"
)

// Replica is a process of the platform. It counts as live while SeenAt is
// recent; the caller decides how recent.
type Replica struct {
	ID, PeerURL, TunnelURL string
	SeenAt                 time.Time
}

// Connection records that a replica holds tunnels of a runtime.
type Connection struct {
	RuntimeID, ReplicaID string
	Count                int
	SeenAt               time.Time
}

// maxReplicas bounds a list without pages.
const maxReplicas = 1000

// scanReplica and scanConnection scan the rows of the two tables.
func scanReplica(r row) (n Replica, err error) {
	return n, r.Scan(&n.ID, &n.PeerURL, &n.TunnelURL, timeColumn{&n.SeenAt})
}

func scanConnection(r row) (n Connection, err error) {
	return n, r.Scan(&n.RuntimeID, &n.ReplicaID, &n.Count, timeColumn{&n.SeenAt})
}

// PutReplica stores a replica or renews its timestamp. A renewal alone is not
// published as a change, because it happens every few seconds.
func (s *Store) PutReplica(ctx context.Context, replica Replica) error {
	if replica.ID == "" {
		return invalid("a replica needs an ID")
	}
	return s.write(ctx, func(c *call) error {
		// The previous row decides whether the change is published.
		before, err := queryOne(c, scanReplica, "SELECT id, peer_url, tunnel_url, seen_at FROM replicas WHERE id = $1", replica.ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err != nil || before.PeerURL != replica.PeerURL || before.TunnelURL != replica.TunnelURL {
			c.changed(Change{Kind: ChangeReplica, ID: replica.ID})
		}
		_, err = c.exec(`INSERT INTO replicas (id, peer_url, tunnel_url, seen_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (id) DO UPDATE SET peer_url = excluded.peer_url, tunnel_url = excluded.tunnel_url, seen_at = excluded.seen_at`,
			replica.ID, replica.PeerURL, replica.TunnelURL, micros(replica.SeenAt))
		return err
	})
}

// Replicas returns the replicas that were seen since a time, by ID.
func (s *Store) Replicas(ctx context.Context, since time.Time) ([]Replica, error) {
	return readAll(ctx, s, scanReplica, "SELECT id, peer_url, tunnel_url, seen_at FROM replicas WHERE seen_at >= $1 ORDER BY id LIMIT $2", micros(since), maxReplicas)
}

// DeleteReplica deletes a replica and its connections. It is idempotent.
func (s *Store) DeleteReplica(ctx context.Context, id string) error {
	return s.write(ctx, func(c *call) error {
		// Connections reference the replica by ID only, because a replica may
		// write them before its own row exists.
		if _, err := c.exec("DELETE FROM connections WHERE replica_id = $1", id); err != nil {
			return err
		}
		c.changed(Change{Kind: ChangeReplica, ID: id})
		_, err := c.exec("DELETE FROM replicas WHERE id = $1", id)
		return err
	})
}

// PutConnection stores how many tunnels of a runtime a replica holds; a count
// of zero deletes the row. A renewal alone is not published as a change.
func (s *Store) PutConnection(ctx context.Context, connection Connection) error {
	if connection.ReplicaID == "" || connection.Count < 0 {
		return invalid("a connection needs a replica, and a count from zero")
	}
	return s.write(ctx, func(c *call) error {
		before, err := queryOne(c, scanConnection, "SELECT runtime_id, replica_id, count, seen_at FROM connections WHERE runtime_id = $1 AND replica_id = $2",
			connection.RuntimeID, connection.ReplicaID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if before.Count != connection.Count {
			c.changed(Change{Kind: ChangeReplica, ID: connection.ReplicaID})
		}
		if connection.Count == 0 {
			_, err = c.exec("DELETE FROM connections WHERE runtime_id = $1 AND replica_id = $2", connection.RuntimeID, connection.ReplicaID)
			return err
		}
		_, err = c.exec(`INSERT INTO connections (runtime_id, replica_id, count, seen_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (runtime_id, replica_id) DO UPDATE SET count = excluded.count, seen_at = excluded.seen_at`,
			connection.RuntimeID, connection.ReplicaID, connection.Count, micros(connection.SeenAt))
		return err
	})
}

// Connections returns the connections of a runtime that were seen since a
// time, the most recent first.
func (s *Store) Connections(ctx context.Context, runtimeID string, since time.Time) ([]Connection, error) {
	return readAll(ctx, s, scanConnection, `SELECT runtime_id, replica_id, count, seen_at FROM connections
		WHERE runtime_id = $1 AND seen_at >= $2 ORDER BY seen_at DESC, replica_id LIMIT $3`, runtimeID, micros(since), maxReplicas)
}

// DeleteConnections deletes the connections of a replica.
func (s *Store) DeleteConnections(ctx context.Context, replicaID string) error {
	return s.write(ctx, func(c *call) error {
		removed, err := c.exec("DELETE FROM connections WHERE replica_id = $1", replicaID)
		if removed > 0 {
			c.changed(Change{Kind: ChangeReplica, ID: replicaID})
		}
		return err
	})
}

package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"slipway.dev/slipway/internal/backoff"
)

const (
	changeChannel  = "slipway_changes"
	listenIdle     = 15 * time.Second // then the connection is probed
	listenPingTime = 5 * time.Second
	listenRetry    = time.Second
)

// listen receives the changes that replicas broadcast over PostgreSQL's
// LISTEN. It returns when the first connection listens, so no later change is
// lost.
//
// States: connecting (changes may be lost) and listening. Each return to
// listening publishes ChangeAll.
func (s *Store) listen(ctx context.Context) error {
	// SQLite has one process, which publishes its changes directly.
	engine, ok := s.engine.(postgresEngine)
	if !ok {
		return nil
	}
	connection, err := engine.connectListener(ctx)
	if err != nil {
		return preferContextError(ctx, engine.explain(err))
	}
	s.running.Go(func() {
		for {
			// receive only returns with an error; the connection is unusable
			// then.
			err := s.receive(connection)
			closeConnection(connection)
			if s.closing.Err() != nil {
				return
			}
			s.log.Warn("lost connection to the database; changes of other replicas are delayed until it is back", "error", engine.explain(err))
			if connection = s.relisten(engine); connection == nil {
				return
			}
			s.subscribers.publish([]Change{{Kind: ChangeAll}})
		}
	})
	return nil
}

// relisten retries until a connection listens. It returns nil when the store
// is closed.
func (s *Store) relisten(engine postgresEngine) *pgx.Conn {
	// A fixed interval is enough: only a few replicas reconnect, and late
	// changes delay watches of users.
	for {
		connection, err := engine.connectListener(s.closing)
		if err == nil {
			return connection
		}
		if backoff.Sleep(s.closing, listenRetry) != nil {
			return nil
		}
	}
}

// connectListener opens a connection that listens. It is not part of the
// pool: a pooled connection would lose the subscription.
func (e postgresEngine) connectListener(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	// The configuration is copied, because pgx modifies it while connecting.
	connection, err := pgx.ConnectConfig(ctx, e.config.Copy())
	if err != nil {
		return nil, err
	}
	if _, err := connection.Exec(ctx, "LISTEN "+changeChannel); err != nil {
		closeConnection(connection)
		return nil, err
	}
	return connection, nil
}

// receive publishes notifications until the connection fails. An idle
// connection is probed at intervals, because a dead network path looks like
// an idle one.
func (s *Store) receive(connection *pgx.Conn) error {
	for {
		quiet, cancel := context.WithTimeout(s.closing, listenIdle)
		message, err := connection.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			s.subscribers.publish([]Change{parseChange(message.Payload)})
		case s.closing.Err() != nil:
			return s.closing.Err()
		// The wait timed out. A query distinguishes an idle connection from a
		// dead one, and from one to a server that is no primary any more.
		case errors.Is(err, context.DeadlineExceeded) && !connection.IsClosed():
			ping, cancel := context.WithTimeout(s.closing, listenPingTime)
			err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ping, connection.PgConn())
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// parseChange decodes a notification. One that this program cannot decode
// comes from a newer replica and may concern anything, so it becomes
// ChangeAll.
func parseChange(payload string) Change {
	var change Change
	if err := json.Unmarshal([]byte(payload), &change); err != nil {
		return Change{Kind: ChangeAll}
	}
	switch change.Kind {
	case ChangeRuntime, ChangeApplication, ChangeCredential, ChangeReplica, ChangeAll:
		return change
	}
	return Change{Kind: ChangeAll}
}

// closeConnection closes a connection within a second.
func closeConnection(connection *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = connection.Close(ctx) // the connection is discarded anyway
}

package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	changeChannel  = "slipway_changes"
	listenQuiet    = 15 * time.Second // then the connection is asked whether it lives
	listenPingTime = 5 * time.Second
	listenRetry    = time.Second
)

// listen follows the changes that replicas announce. It returns when the first
// connection listens, so that nothing is missed from then on.
//
// States: connecting (changes are missed), listening. Each time it comes back to
// listening, everybody is told ChangeAll.
func (s *Store) listen(ctx context.Context) error {
	engine, ok := s.engine.(postgresEngine)
	if !ok {
		return nil
	}
	connection, err := engine.listening(ctx)
	if err != nil {
		return ended(ctx, engine.explain(err))
	}
	s.running.Go(func() {
		for {
			err := s.follow(connection)
			closeSoon(connection)
			if s.closing.Err() != nil {
				return
			}
			s.log.Warn("changes of other replicas are missed until the database answers", "error", engine.explain(err))
			if connection = s.listenAgain(engine); connection == nil {
				return
			}
			s.audience.tell([]Change{{Kind: ChangeAll}})
		}
	})
	return nil
}

// listenAgain tries until it listens. It is nil when the store is closed.
func (s *Store) listenAgain(engine postgresEngine) *pgx.Conn {
	retry := time.NewTicker(listenRetry)
	defer retry.Stop()
	for {
		connection, err := engine.listening(s.closing)
		if err == nil {
			return connection
		}
		select {
		case <-retry.C:
		case <-s.closing.Done():
			return nil
		}
	}
}

// listening makes a connection that listens.
func (e postgresEngine) listening(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	connection, err := pgx.ConnectConfig(ctx, e.config.Copy())
	if err != nil {
		return nil, err
	}
	if _, err := connection.Exec(ctx, "LISTEN "+changeChannel); err != nil {
		closeSoon(connection)
		return nil, err
	}
	return connection, nil
}

// follow tells what comes until the connection fails. A connection that says
// nothing is asked now and then: one behind a dead network looks just as quiet.
func (s *Store) follow(connection *pgx.Conn) error {
	for {
		quiet, cancel := context.WithTimeout(s.closing, listenQuiet)
		message, err := connection.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			s.audience.tell([]Change{parseChange(message.Payload)})
		case s.closing.Err() != nil:
			return s.closing.Err()
		case errors.Is(err, context.DeadlineExceeded) && !connection.IsClosed():
			ping, cancel := context.WithTimeout(s.closing, listenPingTime)
			err := connection.Ping(ping)
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// parseChange reads a message. One that this program does not understand, of a
// newer replica, may be about anything.
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

func closeSoon(connection *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = connection.Close(ctx) // it is given up anyway
}

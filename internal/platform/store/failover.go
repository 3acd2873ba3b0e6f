package store

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// hostTimeout bounds the connection to one of several hosts, so that a
	// host that is down leaves time for the next one.
	hostTimeout = 3 * time.Second
	// unacknowledgedTimeout is how long the other end of a connection may fail
	// to acknowledge data. Without it a connection to a machine that lost
	// power would hang for a quarter of an hour.
	unacknowledgedTimeout = 5 * time.Second
	// synchronousWait is the function of PostgreSQL that waits for standbys.
	// Notices name it in every language.
	synchronousWait = "SyncRepWaitForLSN"
	readOnlyState   = "25006" // read_only_sql_transaction
)

// errUnconfirmed reports a commit that the primary has stored and no standby
// confirmed.
var errUnconfirmed = errors.New("no standby confirmed the commit")

// followPrimary makes the connections of a configuration follow the primary
// when it moves to another host of the URL.
//
// Only connections that can write are used: without a choice in the URL, the
// first reachable host would do, also a standby. A connection that turns
// read-only, as those of proxies and some managed databases do, is closed by
// its first error.
func followPrimary(config *pgx.ConnConfig, unconfirmed *atomic.Uint64) {
	config.ConnectTimeout = effectiveConnectTimeout(config)
	config.DialFunc = dialDatabase
	if config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	onError := config.OnPgError
	config.OnPgError = func(conn *pgconn.PgConn, failure *pgconn.PgError) bool {
		return onError(conn, failure) && failure.Code != readOnlyState
	}
	// A primary whose wait for a standby is cancelled, for example by an
	// operator, reports success and this notice.
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if notice.Routine == synchronousWait {
			unconfirmed.Add(1)
		}
	}
}

// effectiveConnectTimeout is the timeout for one host.
func effectiveConnectTimeout(config *pgx.ConnConfig) time.Duration {
	switch {
	case config.ConnectTimeout > 0:
		return config.ConnectTimeout
	case len(databaseHosts(config)) > 1:
		return hostTimeout
	}
	return connectTimeout
}

// databaseHosts returns the distinct hosts of a configuration in their order.
// The fallbacks of a single host are the variants of its TLS.
func databaseHosts(config *pgx.ConnConfig) []string {
	hosts := []string{config.Host}
	for _, fallback := range config.Fallbacks {
		if !slices.Contains(hosts, fallback.Host) {
			hosts = append(hosts, fallback.Host)
		}
	}
	return hosts
}

// dialDatabase connects with a bound on unacknowledged data.
func dialDatabase(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: unacknowledgedTimeout, Count: 3}}
	if strings.HasPrefix(network, "tcp") {
		dialer.Control = func(_, _ string, raw syscall.RawConn) error {
			var failed error
			err := raw.Control(func(fd uintptr) { failed = boundUnacknowledged(int(fd), unacknowledgedTimeout) })
			return errors.Join(err, failed)
		}
	}
	return dialer.DialContext(ctx, network, address)
}

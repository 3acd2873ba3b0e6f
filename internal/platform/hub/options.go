package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
)

// Directory holds the live replicas and which runtimes are connected to each.
// The store implements it. Entries have a timestamp and count as stale when
// it is too old, so a crashed replica needs no cleanup.
type Directory interface {
	PutReplica(ctx context.Context, replica store.Replica) error
	Replicas(ctx context.Context, since time.Time) ([]store.Replica, error)
	DeleteReplica(ctx context.Context, id string) error
	PutConnection(ctx context.Context, connection store.Connection) error
	Connections(ctx context.Context, runtimeID string, since time.Time) ([]store.Connection, error)
	DeleteConnections(ctx context.Context, replicaID string) error
	Changes(ctx context.Context) <-chan store.Change
}

// PeerAuth signs and verifies the tokens between replicas. The signer
// implements it.
type PeerAuth interface {
	Peer(replicaID string) (string, error)
	VerifyPeer(token string) (replicaID string, err error)
}

// Options configures a hub.
type Options struct {
	// Verify checks signature, expiry and generation of an agent's token. An
	// error that wraps store.ErrUnavailable does not mean that the token is
	// invalid.
	Verify    func(ctx context.Context, token string) (signing.RuntimeIdentity, error)
	Directory Directory
	Peer      PeerAuth
	// ReplicaID identifies this process. It is unique across restarts, so
	// that entries of an earlier process are never taken for this one's.
	ReplicaID string
	// PeerURL is the URL at which other replicas reach this one; empty for a
	// single replica. Its scheme does not matter: replicas use TLS.
	PeerURL string
	// PeerTLS authenticates other replicas and this one to them. Without it
	// no replica is trusted, and nothing is forwarded to others.
	PeerTLS *tls.Config
	// TunnelURL is the URL at which agents reach this replica, or any
	// replica.
	TunnelURL string

	Limits  Limits
	Timing  Timing
	Log     *slog.Logger
	Metrics *Metrics
}

// Limits bound the resources of agents and requests. Zero selects the
// default.
type Limits struct {
	// ConnectionsPerRuntime defaults to 8. Above it the oldest connection is
	// closed: an agent that reconnects after a network failure is preferred
	// over its dead connections.
	ConnectionsPerRuntime int
	// Connections is the limit of this replica: 20000 by default. Above it
	// agents get 503 and connect to another replica.
	Connections int
	// StreamsPerRuntime is the limit of concurrent requests to a runtime: 256
	// by default. Each can buffer 256 KiB for a slow reader.
	StreamsPerRuntime int
	// HeaderBytes bounds the header of a request and of a response: 64 KiB by
	// default.
	HeaderBytes int64
	// BodyBytes bounds the body of a request: 64 MiB by default. Response
	// bodies are streamed and unbounded.
	BodyBytes int64
	// Handshakes is the number of concurrent handshakes: 64 by default.
	// Further agents queue, so that a reconnect of all agents does not
	// overload the store.
	Handshakes int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		ConnectionsPerRuntime: cmp.Or(l.ConnectionsPerRuntime, 8),
		Connections:           cmp.Or(l.Connections, 20000),
		StreamsPerRuntime:     cmp.Or(l.StreamsPerRuntime, 256),
		HeaderBytes:           cmp.Or(l.HeaderBytes, 64<<10),
		BodyBytes:             cmp.Or(l.BodyBytes, 64<<20),
		Handshakes:            cmp.Or(l.Handshakes, 64),
	}
}

// Timing holds the intervals and timeouts of a hub. Zero selects the default.
type Timing struct {
	// Ping is the keepalive interval of an idle connection: 15 s.
	Ping time.Duration
	// Dead is the read timeout of a connection: 30 s. A write without
	// progress times out after half of it.
	Dead time.Duration
	// Handshake bounds the handshake with an agent: 10 s.
	Handshake time.Duration
	// HeartbeatInterval is how often this replica renews its entry in the
	// directory: 5 s. The entry is stale after three missed heartbeats.
	HeartbeatInterval time.Duration
	// Recheck is how often all tokens are verified again: 30 s. It covers
	// change events that were lost.
	Recheck time.Duration
	// Grace is how long agents have to move when the replica shuts down: 5 s.
	Grace time.Duration
	// Drain bounds the requests in flight during a shutdown: 25 s.
	Drain time.Duration
}

func (t Timing) withDefaults() Timing {
	return Timing{
		Ping:              cmp.Or(t.Ping, 15*time.Second),
		Dead:              cmp.Or(t.Dead, 30*time.Second),
		Handshake:         cmp.Or(t.Handshake, 10*time.Second),
		HeartbeatInterval: cmp.Or(t.HeartbeatInterval, 5*time.Second),
		Recheck:           cmp.Or(t.Recheck, 30*time.Second),
		Grace:             cmp.Or(t.Grace, 5*time.Second),
		Drain:             cmp.Or(t.Drain, 25*time.Second),
	}
}

// withDefaults sets the zero fields to their defaults and reports missing
// required ones.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Verify == nil:
		return o, errors.New("the hub needs a way to verify tokens")
	case o.Directory == nil:
		return o, errors.New("the hub needs a directory of replicas")
	case o.Peer == nil:
		return o, errors.New("the hub needs tokens between replicas")
	case o.PeerURL != "" && o.PeerTLS == nil:
		return o, errors.New("the hub needs a TLS configuration for other replicas")
	case o.ReplicaID == "":
		return o, errors.New("the hub needs an ID of this replica")
	}
	// No public authority certifies PeerServerName.
	o.PeerTLS = cmp.Or(o.PeerTLS, &tls.Config{MinVersion: tls.VersionTLS13})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	o.Limits, o.Timing = o.Limits.withDefaults(), o.Timing.withDefaults()
	return o, nil
}

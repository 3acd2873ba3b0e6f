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

// Directory is what replicas know of each other. The store is one.
type Directory interface {
	PutReplica(ctx context.Context, replica store.Replica) error
	Replicas(ctx context.Context, since time.Time) ([]store.Replica, error)
	DeleteReplica(ctx context.Context, id string) error
	PutConnection(ctx context.Context, connection store.Connection) error
	Connections(ctx context.Context, runtimeID string, since time.Time) ([]store.Connection, error)
	DeleteConnections(ctx context.Context, replicaID string) error
	Changes(ctx context.Context) <-chan store.Change
}

// PeerAuth makes and checks the tokens between replicas. The signer does.
type PeerAuth interface {
	Peer(replicaID string) (string, error)
	VerifyPeer(token string) (replicaID string, err error)
}

// Options is what a hub works with.
type Options struct {
	// Verify checks signature, expiry and generation of an agent's token. An error
	// that is store.ErrUnavailable says nothing about the token.
	Verify    func(ctx context.Context, token string) (signing.RuntimeIdentity, error)
	Directory Directory
	Peer      PeerAuth
	// ReplicaID is this process, and no other before it.
	ReplicaID string
	// PeerURL is where other replicas reach this one; empty when there are none.
	PeerURL string
	// TunnelURL is where agents reach this replica, or all of them.
	TunnelURL string
	// PeerTLS has the roots for other replicas' certificates; nil is the system's.
	PeerTLS *tls.Config

	Limits  Limits
	Timing  Timing
	Log     *slog.Logger
	Metrics *Metrics
}

// Limits bound what agents and requests may take. Zero is the default.
type Limits struct {
	// ConnectionsPerRuntime is 8; when there are more, the oldest is closed.
	ConnectionsPerRuntime int
	// Connections is how many this replica takes: 20000.
	Connections int
	// StreamsPerRuntime is how many requests may run at a time: 256. Each may keep
	// a quarter of a megabyte waiting for a slow reader.
	StreamsPerRuntime int
	// HeaderBytes bounds the header of a request and of an answer: 64 KiB.
	HeaderBytes int64
	// BodyBytes bounds the body of a request: 64 MiB. Answers are not bounded.
	BodyBytes int64
	// Handshakes is how many agents are let in at a time: 64. Others wait.
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

// Timing is how long things may take. Zero is the default.
type Timing struct {
	// Ping is how often something is sent when nothing else is: 15 s.
	Ping time.Duration
	// Dead is how long nothing may come before a connection is given up: 30 s. A
	// write that moves nothing has half of it.
	Dead time.Duration
	// Handshake bounds letting an agent in: 10 s.
	Handshake time.Duration
	// Beat is how often this replica says that it lives: 5 s. It counts as gone
	// after three of them.
	Beat time.Duration
	// Recheck is how often tokens are checked without a reason: 30 s.
	Recheck time.Duration
	// Grace is how long agents have to move when the replica ends: 5 s.
	Grace time.Duration
	// Drain is how long requests have then: 25 s.
	Drain time.Duration
}

func (t Timing) withDefaults() Timing {
	return Timing{
		Ping:      cmp.Or(t.Ping, 15*time.Second),
		Dead:      cmp.Or(t.Dead, 30*time.Second),
		Handshake: cmp.Or(t.Handshake, 10*time.Second),
		Beat:      cmp.Or(t.Beat, 5*time.Second),
		Recheck:   cmp.Or(t.Recheck, 30*time.Second),
		Grace:     cmp.Or(t.Grace, 5*time.Second),
		Drain:     cmp.Or(t.Drain, 25*time.Second),
	}
}

// withDefaults fills what is not set and says what is missing.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Verify == nil:
		return o, errors.New("the hub needs a way to verify tokens")
	case o.Directory == nil:
		return o, errors.New("the hub needs a directory of replicas")
	case o.Peer == nil:
		return o, errors.New("the hub needs tokens between replicas")
	case o.ReplicaID == "":
		return o, errors.New("the hub needs an ID of this replica")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = newMetrics()
	}
	o.Limits, o.Timing = o.Limits.withDefaults(), o.Timing.withDefaults()
	return o, nil
}

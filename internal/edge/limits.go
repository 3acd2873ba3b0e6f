package edge

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/edge/sharedlimit"
	"slipway.dev/slipway/internal/observe"
)

// LimitOptions configure the exchange of limits between replicas.
type LimitOptions struct {
	// Address is where other replicas connect to. Without it each replica counts on
	// its own.
	Address string
	// Peers are the replicas, as host:port. A name stands for all of its addresses.
	Peers []string
}

// shareLimits opens the exchange of limits. The table is empty yet, so no policy is
// compiled before the counters are shared.
func (s *Server) shareLimits(ctx context.Context) error {
	if s.options.Limits.Address == "" {
		return nil
	}
	key, err := derive(s.options.SharedSecret, "keys of limits")
	if err != nil {
		return err
	}
	hash := sharedlimit.NewHashKey(key)
	s.counters.Share(hash)
	s.limits.bans = &sharedBans{Counters: s.counters, hash: hash, server: s}
	s.limits.exchange, err = sharedlimit.New(ctx, sharedlimit.Options{
		Address: s.options.Limits.Address, Peers: s.options.Limits.Peers,
		Secret: []byte(s.options.SharedSecret.Reveal()), Accounting: s.limits.bans, Log: s.options.Log,
	})
	return err
}

// replicaLimits is what a Server has for limits that hold over all replicas. It is empty
// where each replica counts alone.
type replicaLimits struct {
	exchange *sharedlimit.Exchange
	bans     *sharedBans
}

// exchangeLimits exchanges limits until the Server ends, so also while it drains. A
// failure does not end the edge: serving traffic matters more than exact limits.
func (s *Server) exchangeLimits() {
	if s.limits.exchange == nil {
		return
	}
	if err := s.limits.exchange.Run(s.lifetime); err != nil {
		s.options.Log.Error("the exchange of limits has ended; each replica counts on its own", observe.KeyError, err)
	}
}

// limitStats returns the counters of the exchange, zeros without one.
func (s *Server) limitStats() sharedlimit.Stats {
	if s.limits.exchange == nil {
		return sharedlimit.Stats{}
	}
	return s.limits.exchange.Stats()
}

// limitReplicas returns how many replicas take part in limits.
func (s *Server) limitReplicas() sharedlimit.Replicas {
	if s.limits.exchange == nil {
		return sharedlimit.Replicas{Heard: 1, Members: 1}
	}
	return s.limits.exchange.Replicas()
}

// collectLimits registers the metrics of the exchange.
func (m *Metrics) collectLimits(s *Server) {
	gauge := func(name, help string, value func() int) {
		m.registerer.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
	}
	counter := func(name, help string, value func() uint64) {
		m.registerer.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
	}
	gauge("limit_replicas", "Replicas of the edge that exchange limits, as far as this one knows.", func() int { return s.limitReplicas().Members })
	gauge("limit_replicas_heard", "Replicas that exchanged limits within the last second, this one included.", func() int { return s.limitReplicas().Heard })
	counter("limit_messages_sent_total", "Messages about limits that other replicas received.", func() uint64 { return s.limitStats().Sent })
	counter("limit_messages_failed_total", "Messages about limits that could not be sent.", func() uint64 { return s.limitStats().Failed })
	counter("limit_messages_received_total", "Messages about limits from other replicas.", func() uint64 { return s.limitStats().Received })
	counter("limit_keys_received_total", "Keys of limits in messages from other replicas.", func() uint64 { return s.limitStats().Entries })
	counter("limit_keys_dropped_total", "Keys of limits that were not sent because a replica was too slow.", func() uint64 { return s.limitStats().Dropped })
}

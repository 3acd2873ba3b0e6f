package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/internal/observe"
)

// surroundings is what runs around a role: its servers for health and admin.
// They start before it, so that its start can be watched, and stop after it, so
// that its end can be. If one of them breaks, all of it ends.
type surroundings struct {
	role          string
	admin, health string // addresses
	mounts        []observe.Mount
	log           *slog.Logger
	metrics       *observe.Metrics
	state         *observe.Health
}

// run runs a role until it ends, or the context does.
func (s surroundings) run(ctx context.Context, role func(context.Context) error) error {
	local, err := listen(ctx, "admin.address", s.admin)
	if err != nil {
		return err
	}
	health, err := listen(ctx, "health.address", s.health)
	if err != nil {
		return errors.Join(err, local.Close())
	}
	serving, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServers()
	servers, serving := errgroup.WithContext(serving)
	servers.Go(func() error { return observe.ServeAdmin(serving, local, s.log, s.mounts...) })
	servers.Go(func() error { return observe.ServeHealth(serving, health, s.state, s.metrics, s.log) })

	running, stopRole := context.WithCancel(ctx)
	defer stopRole()
	defer context.AfterFunc(serving, stopRole)()
	defer context.AfterFunc(running, s.state.Stopping)()
	err = role(running)
	if running.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // it was told to stop
	}
	stopServers()
	err = errors.Join(err, servers.Wait())
	if err == nil {
		s.log.Info(s.role + " has stopped")
	}
	return err
}

// listen opens the address of an option.
func listen(ctx context.Context, option, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		if failed := (*net.OpError)(nil); errors.As(err, &failed) {
			err = failed.Err // the address is in the message already
		}
		return nil, fmt.Errorf("cannot listen on %s: %w: choose another address with --%s", address, err, option)
	}
	return listener, nil
}

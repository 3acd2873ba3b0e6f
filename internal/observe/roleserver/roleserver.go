// Package roleserver runs a role (edge, agent, platform) with its health and
// admin servers around it.
//
// The servers start before the role, so that its start can be observed, and
// stop after it, so that its end can be. If one of the servers fails, the role
// ends too.
package roleserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/internal/observe"
)

// Server is a role with its health and admin servers.
type Server struct {
	Role          string
	Admin, Health string // addresses
	Mounts        []observe.Mount
	Log           *slog.Logger
	Metrics       *observe.Metrics
	State         *observe.Health
}

// Run runs a role until it returns or ctx ends. A role that returns because ctx
// ended has stopped as it should, and that is no error.
func (s Server) Run(ctx context.Context, role func(context.Context) error) error {
	local, err := Listen(ctx, "admin.address", s.Admin)
	if err != nil {
		return err
	}
	health, err := Listen(ctx, "health.address", s.Health)
	if err != nil {
		return errors.Join(err, local.Close())
	}
	serving, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServers()
	servers, serving := errgroup.WithContext(serving)
	servers.Go(func() error { return observe.ServeAdmin(serving, local, s.Log, s.Mounts...) })
	servers.Go(func() error { return observe.ServeHealth(serving, health, s.State, s.Metrics, s.Log) })

	running, stopRole := context.WithCancel(ctx)
	defer stopRole()
	defer context.AfterFunc(serving, stopRole)()
	defer context.AfterFunc(running, s.State.Stopping)()
	err = role(running)
	if running.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // it was told to stop
	}
	stopServers()
	err = errors.Join(err, servers.Wait())
	if err == nil {
		s.Log.Info(s.Role + " has stopped")
	}
	return err
}

// Listen opens the address of an option. The error names the option to change.
func Listen(ctx context.Context, option, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		if failed := (*net.OpError)(nil); errors.As(err, &failed) {
			err = failed.Err // the address is in the message already
		}
		return nil, fmt.Errorf("cannot listen on %s: %w: choose another address with --%s", address, err, option)
	}
	return listener, nil
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/filetable"
	"slipway.dev/slipway/internal/edge/lastgood"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/route"
)

// providers has the dependencies of the providers of routes.
type providers struct {
	server    *edge.Server
	observers *observers
	parts     Parts
	// beside runs the goroutines of the providers until following ends. Run
	// waits for it.
	beside    *sync.WaitGroup
	following context.Context
	// ready gets the reason while the first routes are missing.
	ready *observe.Condition
}

// startProviders starts the configured providers, and returns when the first
// routes of each are live. The file comes first: it needs no network, and a
// broken file should fail the start at once.
func startProviders(ctx context.Context, options *config.Edge, with providers) error {
	server, log := with.server, with.parts.log
	// kept saves the table after each change, so that the last good table
	// includes the routes of all providers.
	kept := func() { with.observers.keep(server.Table) }
	if options.Providers.File != nil {
		apply := func(table *route.Table) error {
			if err := server.Apply(table); err != nil {
				return err
			}
			kept()
			return nil
		}
		file, err := firstRoutes(options, apply, log)
		if err != nil {
			return err
		}
		if options.Providers.File.Watch {
			with.beside.Go(func() { file.Follow(with.following, apply, log) })
		}
	}
	// Everything below is for a cluster.
	if options.Providers.KubernetesIngress == nil {
		return nil
	}
	// client-go logs through klog; its messages go to our logger from here on.
	kube.LogTo(log)
	provider, err := newIngressProvider(options, server, with.parts)
	if err != nil {
		return err
	}
	// changed is set before run starts, so it needs no lock.
	provider.changed = kept
	with.beside.Go(func() { provider.run(with.following) })
	return provider.await(ctx, with.ready)
}

// firstRoutes applies the routes of the file, or the file's part of the last
// good table if the file cannot be used. Without a last good table the error
// ends the start. The returned file can be followed in both cases.
func firstRoutes(options *config.Edge, apply func(*route.Table) error, log *slog.Logger) (*filetable.File, error) {
	path := options.Providers.File.Filename
	file, table, err := filetable.Open(path)
	if err == nil {
		if err = apply(table); err != nil {
			err = fmt.Errorf("routes file %s: %w", path, err)
		}
	}
	if err == nil || options.LastGood.Dir == "" {
		return file, err
	}
	last, lastErr := lastgood.Load(options.LastGood.Dir)
	if lastErr == nil {
		lastErr = apply(partOf(last, false))
	}
	if lastErr != nil {
		return nil, errors.Join(err, fmt.Errorf("the routes served last: %w", lastErr))
	}
	log.Warn("the routes file cannot be used; the routes served last are live", "error", err)
	return file, nil
}

package controller

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/roleserver"
	"slipway.dev/slipway/internal/observe/sharedtls"
	"slipway.dev/slipway/internal/observe/trafficreport"
)

// withTraffic runs the edge with the server for the runtime's agent beside it,
// if one is configured. The server continues while the edge drains, so that the
// agent sees the last requests. Its failure does not end the edge: serving
// traffic matters more than reporting it.
func withTraffic(ctx context.Context, options *config.Edge, parts Parts, run func(context.Context) error) error {
	if options.Traffic.Address == "" {
		return run(ctx)
	}
	// A taken port fails the start: it is a wrong configuration and not a
	// failure at runtime.
	listener, err := roleserver.Listen(ctx, "traffic.address", options.Traffic.Address)
	if err != nil {
		return err
	}
	// The server outlives ctx; stop ends it after the edge has drained.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var server errgroup.Group
	server.Go(func() error {
		shared := sharedtls.ServerFromFile(options.Traffic.SecretFile, trafficreport.Purpose)
		err := observe.ServeShared(serving, listener, shared, parts.admin.Remote(), parts.log.With(observe.KeyServer, "traffic"))
		if err != nil {
			parts.log.Error("the server for the runtime's agent has ended; traffic is served all the same", observe.KeyError, err)
		}
		return nil
	})
	err = run(ctx)
	stop()
	return errors.Join(err, server.Wait())
}

// publishRefusals returns a function that replaces the refusals in the admin
// API. It copies them: the provider may change its own. Without an admin API, as
// in slipway explain, nothing is published.
func publishRefusals(handler *admin.Handler) func([]refusal.Refusal) {
	if handler == nil {
		return func([]refusal.Refusal) {}
	}
	return func(all []refusal.Refusal) {
		refusals := slices.Clone(all)
		for i := range refusals {
			// The report has kind and group in one text.
			refusals[i].Kind, refusals[i].Group = string(snapshot.RefOf(all[i].Object).Kind), ""
		}
		handler.SetRefusals(refusals)
	}
}

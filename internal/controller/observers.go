package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/accesslog"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/lastgood"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/tracing"
	"slipway.dev/slipway/internal/observe/otlp"
	"slipway.dev/slipway/internal/route"
)

// closeTimeout bounds flushing after the last request, so that an unreachable
// collector does not delay the end of the process.
const closeTimeout = 5 * time.Second

// observers receive every finished request and every table, as far as the
// options enable them: the access log, traces, and the last good table on disk.
// Fields are nil for what is disabled.
type observers struct {
	access *accesslog.Log
	tracer *tracing.Tracer
	keeper *lastgood.Keeper
	log    *slog.Logger
}

// newObservers opens the observers that the options enable. On an error it
// closes those that are open already.
func newObservers(ctx context.Context, options *config.Edge, points []edge.EntryPoint, parts Parts) (*observers, error) {
	w := &observers{log: parts.log}
	err := w.open(ctx, options, points, parts)
	if err != nil {
		w.close(ctx)
		return nil, err
	}
	return w, nil
}

// open opens the enabled observers in order, and stops at the first error.
func (w *observers) open(ctx context.Context, options *config.Edge, points []edge.EntryPoint, parts Parts) (err error) {
	registerer := parts.metrics.For("edge")
	if a := options.AccessLog; a != nil {
		if w.access, err = accesslog.New(accessLogOptions(a, parts.log)); err != nil {
			return fmt.Errorf("accessLog: %w", err)
		}
		w.access.Register(registerer)
	}
	if t := options.Tracing; t != nil {
		if w.tracer, err = tracing.New(ctx, tracingOptions(t, points, parts)); err != nil {
			return fmt.Errorf("tracing: %w", err)
		}
		w.tracer.Register(registerer)
	}
	if dir := options.LastGood.Dir; dir != "" {
		if w.keeper, err = lastgood.NewKeeper(dir, parts.log); err != nil {
			return fmt.Errorf("lastGood.dir: %w", err)
		}
	}
	return nil
}

// observe records a finished request. The proxy calls it on the goroutine of
// the request, so the observers only add it to a queue, and drop it if the
// queue is full.
func (w *observers) observe(r *proxy.Record) {
	if w.access != nil {
		w.access.Record(r)
	}
	if w.tracer != nil {
		w.tracer.Observe(r)
	}
}

// trace returns the tracing hook of the proxy, or nil without tracing, so that
// untraced edges pay nothing.
func (w *observers) trace() func(*proxy.Record, *filter.Exchange) func() {
	if w.tracer == nil {
		return nil
	}
	return w.tracer.Trace
}

// keep schedules a write of the current table, for a start while its source is
// unavailable. The keeper calls table only when it writes, at most every few
// seconds.
func (w *observers) keep(table func() *route.Table) {
	if w.keeper != nil {
		w.keeper.Keep(table)
	}
}

// reopen reopens the access log at each SIGHUP until ctx is done, for
// logrotate. Without an access log SIGHUP keeps its default action.
func (w *observers) reopen(ctx context.Context) {
	if w.access == nil {
		return
	}
	// Two signals in quick succession need one reopening.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			if err := w.access.Reopen(ctx); err != nil {
				w.log.Error("the access log could not be reopened; lines are still written to the old file", "error", err)
			}
		}
	}
}

// close flushes the buffers with a timeout of its own, because ctx has ended by
// then. It logs errors: the process ends in any case.
func (w *observers) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var errs []error
	if w.access != nil {
		errs = append(errs, w.access.Close(ctx))
	}
	if w.tracer != nil {
		errs = append(errs, w.tracer.Close(ctx))
	}
	if w.keeper != nil {
		errs = append(errs, w.keeper.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		w.log.Error("not all that was to be written at the end could be", "error", err)
	}
}

// accessLogOptions converts the options of the access log. They are validated.
func accessLogOptions(a *config.AccessLog, log *slog.Logger) accesslog.Options {
	return accesslog.Options{
		FilePath: a.FilePath, Stdout: os.Stdout, Format: accesslog.Format(a.Format),
		BufferingSize: a.BufferingSize, FlushInterval: time.Duration(a.FlushInterval),
		Filters: accesslog.Filters{
			StatusCodes: a.Filters.StatusCodes, RetryAttempts: a.Filters.RetryAttempts, MinDuration: time.Duration(a.Filters.MinDuration),
		},
		FieldMode: accesslog.Mode(a.Fields.DefaultMode), Fields: accessLogModes(a.Fields.Names),
		HeaderMode: accesslog.Mode(a.Fields.Headers.DefaultMode), Headers: accessLogModes(a.Fields.Headers.Names),
		Log: log,
	}
}

// accessLogModes converts the modes of fields or headers, which the validation
// has checked.
func accessLogModes(names map[string]string) map[string]accesslog.Mode {
	modes := make(map[string]accesslog.Mode, len(names))
	for name, mode := range names {
		modes[name] = accesslog.Mode(mode)
	}
	return modes
}

// tracingOptions converts the options of tracing. Incoming trace contexts are
// continued for peers that an entry point trusts with forwarded headers,
// because others could forge parents.
func tracingOptions(t *config.Tracing, points []edge.EntryPoint, parts Parts) tracing.Options {
	// Each entry point has its own list of trusted peers.
	trusts := map[string]*proxy.Trust{}
	for _, point := range points {
		trusts[point.Name] = proxy.NewTrust(point.ForwardTrusted, false)
	}
	return tracing.Options{
		Collector:   otlp.Collector{Endpoint: t.OTLP.HTTP.Endpoint, Headers: t.OTLP.HTTP.Headers, TLS: otlp.TLS(t.OTLP.HTTP.TLS)},
		ServiceName: t.ServiceName, Version: parts.version, Attributes: t.ResourceAttributes,
		SampleRate: t.Rate(), Continue: tracing.Continue(t.ContinueFrom),
		Trusts: func(entryPoint string, peer netip.Addr) bool { return trusts[entryPoint].Trusts(peer) },
		Log:    parts.log,
	}
}

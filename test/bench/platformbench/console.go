package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/test/bench/ground"
)

// console opens the watch of the console's list, and measures until its first
// rows and until changes are visible.
func (b *bench) console(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	began := time.Now()
	watch, err := b.platform.applications().WatchApplications(ctx, connect.NewRequest(&platformv1.WatchApplicationsRequest{Many: true}))
	if err != nil {
		return err
	}
	defer watch.Close()
	rows := 0
	for watch.Receive() && !watch.Msg().GetSynced() {
		if rows == 0 && len(watch.Msg().GetApplications()) > 0 {
			b.figures.FirstRows = millis(time.Since(began))
		}
		rows += len(watch.Msg().GetApplications())
	}
	b.figures.AllRows = millis(time.Since(began))
	if rows != b.figures.Applications {
		return fmt.Errorf("the watch sent %d of %d Applications: %w", rows, b.figures.Applications, errors.Join(watch.Err()))
	}
	var delays []time.Duration
	for i := range b.settings.changes {
		r, revision := b.runtimes[i%len(b.runtimes)], fmt.Sprintf("revision-%d", i)
		changed := time.Now()
		r.reporter.Changed(r.application(i%b.settings.applications, revision))
		if err := awaitRevision(watch, r.name, revision); err != nil {
			return err
		}
		delays = append(delays, time.Since(changed))
	}
	b.figures.Change = ground.SpreadOf(delays)
	b.progress("console: first rows after %.0f ms, all after %.0f ms; a change is visible after %s", b.figures.FirstRows, b.figures.AllRows, b.figures.Change.Text(0))
	return nil
}

// awaitRevision reads the watch until an Application of a runtime has a
// revision.
func awaitRevision(watch *connect.ServerStreamForClient[platformv1.WatchApplicationsResponse], runtime, revision string) error {
	for watch.Receive() {
		for _, app := range append(watch.Msg().GetApplications(), watch.Msg().GetApplication()) {
			if app.GetRuntime() == runtime && app.GetRevision() == revision {
				return nil
			}
		}
	}
	return fmt.Errorf("the watch ended before %s had %s: %w", runtime, revision, watch.Err())
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package report_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/agent/report"
	"slipway.dev/slipway/internal/must"
)

// told is how many events the platform has stored, and how many resyncs have begun.
func (p *platform) told() (events, resyncs int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.data.applied, p.resyncs
}

// TestStatesOfOneApplicationBecomeOne: while the platform is away, many states of
// one Application become one event, which is sent compressed when it is back.
func TestStatesOfOneApplicationBecomeOne(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	c.set("shop", "Healthy")
	start(t, p, c, t.TempDir())
	p.await(t, c)
	before, _ := p.told()

	p.change(func(p *platform) { p.away = true })
	for range 200 {
		c.set("shop", "Progressing")
	}
	c.set("other", "Healthy")
	c.set("shop", "Degraded")
	p.change(func(p *platform) { p.away = false })
	p.await(t, c)
	after, resyncs := p.told()
	// The first state may have been on its way when the next ones came.
	if after-before > 3 || resyncs != 1 {
		t.Errorf("%d events and %d resyncs for two Applications", after-before, resyncs)
	}
	p.change(func(p *platform) {
		if !p.gzipped {
			t.Error("the batches were not compressed")
		}
	})
}

// TestSameStateIsNotToldAgain: a watch that sends every object again makes no events.
func TestSameStateIsNotToldAgain(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	c.set("shop", "Healthy")
	folder := t.TempDir()
	l := start(t, p, c, folder)
	p.await(t, c)
	apps, _ := c.list(t.Context())
	c.watcher.Changed(apps[0])
	c.set("last", "Healthy") // comes after it
	p.await(t, c)
	l.end(t, c)
	start(t, p, c, folder)
	c.set("next", "Healthy")
	p.await(t, c)
	if events, resyncs := p.told(); events != 5 || resyncs != 1 {
		t.Errorf("%d events and %d resyncs; the resync has 3 and the changes 2", events, resyncs)
	}
}

// TestFullSpool: what does not fit becomes a resync, and the disk stays bounded.
func TestFullSpool(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	folder := t.TempDir()
	c.set("first", "Healthy")
	start(t, p, c, folder, report.LargeBatches, func(o *report.Options) { o.MaxBytes = 10_000 })
	p.await(t, c)
	p.change(func(p *platform) { p.away = true })
	for i := range 500 {
		c.set(fmt.Sprint("app-", i), "Healthy")
	}
	p.change(func(p *platform) { p.away = false })
	p.await(t, c)
	if _, resyncs := p.told(); resyncs < 2 {
		t.Errorf("%d resyncs: the one after the spool was full is missing", resyncs)
	}
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("the spool has %d files: %v", len(names), err)
	}
	for _, name := range names {
		if file, err := os.Stat(name); err != nil || file.Size() > 2<<20 {
			t.Errorf("the spool is not bounded: %v %v", file, err)
		}
	}
}

// TestIdleReporterFindsALostDatabase: also without a change.
func TestIdleReporterFindsALostDatabase(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	c.set("shop", "Healthy")
	start(t, p, c, t.TempDir())
	p.await(t, c)
	p.change(func(p *platform) { p.data = newDatabase() })
	p.await(t, c)
}

// TestRestoredFolder: a folder that is older than what the platform has does not
// give a number a second meaning.
func TestRestoredFolder(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	c.set("shop", "Healthy")
	l := start(t, p, c, t.TempDir())
	p.await(t, c)
	older := l.image(t)
	c.set("shop", "Degraded")
	p.await(t, c)
	l.end(t, c)
	c.set("shop", "Missing")
	start(t, p, c, older)
	p.await(t, c)
}

// TestFolderGoesAway: a disk that fails does not stop the reports, and is used
// again when it is there.
func TestFolderGoesAway(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	folder := filepath.Join(t.TempDir(), "spool")
	start(t, p, c, folder, report.LargeBatches)
	c.set("shop", "Healthy")
	p.await(t, c)
	must.Do(t, os.RemoveAll(folder))
	// Enough for another segment, which cannot be made.
	p.change(func(p *platform) { p.away = true })
	for i := range 3000 {
		c.set(fmt.Sprint("app-", i, "-", strings.Repeat("x", 300)), "Healthy")
	}
	p.change(func(p *platform) { p.away = false })
	p.await(t, c)
	must.Do(t, os.MkdirAll(folder, 0o700))
	p.awaitThat(t, func() string {
		names, err := filepath.Glob(filepath.Join(folder, "spool-*.log"))
		if err != nil || len(names) != 1 {
			return fmt.Sprintf("the spool has %d files: %v", len(names), err)
		}
		return ""
	})
	c.set("shop", "Degraded")
	p.await(t, c)
}

// TestRunsAgain: a replica that leads again reports again.
func TestRunsAgain(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	options := report.Options{Folder: t.TempDir(), Runtime: runtimeName, Client: p.client(), List: c.list, Log: slog.New(slog.DiscardHandler)}
	report.Hasten(&options, 20*time.Millisecond)
	reporter := must.Get(report.New(options))(t)
	for term := range 3 {
		c.set("shop", fmt.Sprint("term ", term)) // while nobody leads
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- reporter.Run(ctx) }()
		c.watchedBy(reporter)
		p.await(t, c)
		c.watchedBy(nil)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("a term ended with %v", err)
		}
	}
}

// TestOptions: an error names the option that is missing.
func TestOptions(t *testing.T) {
	if _, err := report.New(report.Options{}); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("without a folder: %v", err)
	}
	if _, err := report.New(report.Options{Folder: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "client") {
		t.Errorf("without a client: %v", err)
	}
}

// TestThousands: a large cluster is reported in batches, and soon.
func TestThousands(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	for i := range 5000 {
		c.set(fmt.Sprint("app-", i), "Healthy")
	}
	began := time.Now()
	options := func(o *report.Options) {
		*o = report.Options{Folder: o.Folder, Runtime: o.Runtime, Client: o.Client, List: o.List, Log: o.Log}
	}
	start(t, p, c, t.TempDir(), options)
	p.await(t, c)
	p.change(func(p *platform) {
		if p.batches > 20 {
			t.Errorf("%d batches for 5000 Applications", p.batches)
		}
		t.Logf("5000 Applications in %d batches and %v", p.batches, time.Since(began))
	})
}

package report_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/report"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const runtimeName = "prod"

// cluster is the Applications that there are. Changes go to the reporter
// that watches.
type cluster struct {
	mu      sync.Mutex
	apps    map[where]*v1alpha1.Application
	made    int
	watcher *report.Reporter
}

func newCluster() *cluster { return &cluster{apps: map[where]*v1alpha1.Application{}} }

// set changes an Application, or makes it.
func (c *cluster) set(name, health string, change ...func(*v1alpha1.Application)) *v1alpha1.Application {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := where{"argocd", name}
	c.made++
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: at.namespace, Name: at.name, UID: types.UID(fmt.Sprint("uid-", c.made))}}
	if before := c.apps[at]; before != nil {
		app.UID = before.UID
	}
	app.Status.Health.Status = v1alpha1.HealthCode(health)
	app.Status.Health.Message = fmt.Sprint("state ", c.made)
	for _, f := range change {
		f(app)
	}
	c.apps[at] = app
	if c.watcher != nil {
		c.watcher.Changed(app)
	}
	return app
}

func (c *cluster) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := where{"argocd", name}
	app := c.apps[at]
	if app == nil {
		return
	}
	delete(c.apps, at)
	if c.watcher != nil {
		c.watcher.Deleted(report.Ref{Namespace: at.namespace, Name: at.name, UID: string(app.UID)})
	}
}

func (c *cluster) list(context.Context) ([]*v1alpha1.Application, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.apps)), nil
}

func (c *cluster) messages() map[where]*platformv1.Application {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := map[where]*platformv1.Application{}
	for at, app := range c.apps {
		want[at] = report.Message(app, runtimeName, time.Time{})
	}
	return want
}

func (c *cluster) watchedBy(r *report.Reporter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watcher = r
}

// life is one run of a reporter.
type life struct {
	folder string
	cancel context.CancelFunc
	ended  chan error
}

// start begins a life on a folder.
func start(t *testing.T, p *platform, c *cluster, folder string, changes ...func(*report.Options)) *life {
	t.Helper()
	options := report.Options{
		Folder: folder, Runtime: runtimeName, Client: p.client(), List: c.list, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	report.Hasten(&options, 20*time.Millisecond)
	for _, change := range changes {
		change(&options)
	}
	reporter := must.Get(report.New(options))(t)
	c.watchedBy(reporter)
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{folder: folder, cancel: cancel, ended: make(chan error, 1)}
	go func() { l.ended <- reporter.Run(ctx) }()
	t.Cleanup(func() { l.end(t, c) })
	return l
}

// end ends a life in good order.
func (l *life) end(t *testing.T, c *cluster) {
	t.Helper()
	if l.cancel == nil {
		return
	}
	c.watchedBy(nil)
	l.cancel()
	l.cancel = nil
	if err := <-l.ended; err != nil {
		t.Errorf("the reporter ended with %v", err)
	}
}

// image is a copy of the folder while it is written: what a machine that lost its
// power would find, or one that was restored from a copy.
func (l *life) image(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	names := must.Get(filepath.Glob(filepath.Join(l.folder, "*")))(t)
	for _, name := range names {
		content, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // a newer one has taken its place
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(name)), content, 0o600)
		}
		must.Do(t, err)
	}
	return to
}

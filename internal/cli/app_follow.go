package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// agentPatience is how long a request may wait before somebody is told that
// there may be no agent.
const agentPatience = 10 * time.Second

// errTimeout ends a wait that took too long.
var errTimeout = errors.New("it took too long")

// follow watches an Application until done says that there is nothing to wait
// for, or fails. Otherwise done says what is missing.
func (c *appCluster) follow(ctx context.Context, place tracking.App, done func(*application) (missing string, err error)) (*application, error) {
	var last *application
	var failed error
	_, err := kube.WaitFor(ctx, c.applications(place.Namespace), kube.Named(place.Name), func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			failed = fmt.Errorf("the Application %s is gone", place)
			return nil
		}
		last, failed = decodeApplication(found[0])
		if failed != nil {
			return nil
		}
		var missing string
		if missing, failed = done(last); failed != nil || missing == "" {
			return nil
		}
		return errors.New(missing)
	})
	if err == nil {
		err = failed
	}
	return last, err
}

// timeLimit bounds a wait; 0 is without end.
func timeLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, errTimeout)
}

// progress tells people what is waited for, once for each change of it.
type progress struct {
	w    io.Writer
	mu   sync.Mutex
	last string
}

// say prints a line unless it is the one before.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line == p.last || line == "" {
		return
	}
	p.last = line
	_, _ = fmt.Fprintln(p.w, printable(line))
}

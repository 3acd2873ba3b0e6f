package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/internal/kube"
)

// failures are what cannot be read at the moment. A retry that fails as the one
// before it is not logged again.
type failures struct {
	log *slog.Logger

	mu sync.Mutex
	// of has the failures of each resource.
	of map[string]map[attempt]error
	// since is when the first of them began; zero while there are none.
	since time.Time
}

// attempt is one way in which reading a resource can fail.
type attempt struct{ namespace, verb string }

func newFailures(log *slog.Logger) *failures {
	return &failures{log: log, of: map[string]map[attempt]error{}}
}

// note takes the result of an attempt, nil for one that went well.
func (f *failures) note(resource string, of attempt, err error) {
	if errors.Is(err, context.Canceled) {
		return // we have stopped, nothing has failed
	}
	// The URL of a request is long and says nothing that the resource does not.
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("no answer from the API server: %w", request.Err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	failing := f.of[resource]
	if err == nil {
		if _, was := failing[of]; !was {
			return
		}
		delete(failing, of)
		if len(failing) == 0 {
			delete(f.of, resource)
			if len(f.of) == 0 {
				f.since = time.Time{}
			}
			f.log.Info("reading from the cluster again", "resource", resource)
		}
		return
	}
	known := false
	for _, other := range failing {
		known = known || kube.FailureKind(other) == kube.FailureKind(err)
	}
	if len(f.of) == 0 {
		f.since = time.Now()
	}
	if failing == nil {
		failing = map[attempt]error{}
		f.of[resource] = failing
	}
	failing[of] = err
	if !known {
		f.log.Warn("cannot read from the cluster", "resource", resource, "namespace", of.namespace, "error", err)
	}
}

// duration is how long there have been failures, 0 while there are none.
func (f *failures) duration() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		return 0
	}
	return time.Since(f.since)
}

// current gives one failure for each resource that has some.
func (f *failures) current() map[string]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	result := make(map[string]error, len(f.of))
	for resource, failing := range f.of {
		first := slices.MinFunc(slices.Collect(maps.Keys(failing)), func(a, b attempt) int {
			return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.verb, b.verb))
		})
		result[resource] = failing[first]
	}
	return result
}

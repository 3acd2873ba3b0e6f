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

// failures tracks the resources that cannot be read at the moment. A retry that
// fails for the same reason is not logged again.
type failures struct {
	log *slog.Logger

	mu sync.Mutex
	// of has the current failures of each resource.
	of map[string]map[attempt]error
	// since is when the first of them began; zero while there are none.
	since time.Time
	// undefined are the API groups that noteUndefined has logged.
	undefined map[string]bool
}

// attempt identifies a request of a resource, which fails and recovers on its own.
type attempt struct{ namespace, verb string }

func newFailures(log *slog.Logger) *failures {
	return &failures{log: log, of: map[string]map[attempt]error{}, undefined: map[string]bool{}}
}

// noteUndefined logs that the cluster does not define a resource, once for its group:
// most clusters have all kinds of a group or none, and the edge reads many.
func (f *failures) noteUndefined(resource string) {
	_, group, _ := strings.Cut(resource, ".")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.undefined[group] {
		return
	}
	f.undefined[group] = true
	f.log.Info("the cluster does not define this kind; its objects are read once it does", "resource", resource)
}

// note records the outcome of an attempt, nil for success.
func (f *failures) note(resource string, of attempt, err error) {
	if errors.Is(err, context.Canceled) {
		return // stopped, not failed
	}
	// The URL of a request is long and only repeats the resource.
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("no response from the API server: %w", request.Err)
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

// duration returns how long there have been failures, 0 while there are none.
func (f *failures) duration() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		return 0
	}
	return time.Since(f.since)
}

// current returns one failure for each failing resource, always the same for the
// same set.
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

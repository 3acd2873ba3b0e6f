package status

import (
	"log/slog"
	"sync"
	"time"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

const (
	failurePeriod = 10 * time.Minute
	failureLimit  = 64
)

// failureLog logs failures, each kind once in failurePeriod: thousands of objects
// that fail for one reason would otherwise fill the log.
type failureLog struct {
	mu     sync.Mutex
	logged map[failureKey]time.Time
}

// failureKey is an operation and the kind of its failure.
type failureKey struct{ what, kind string }

func (c *failureLog) log(log *slog.Logger, what, object string, err error) {
	if c.isNew(failureKey{what, kube.FailureKind(err)}, time.Now()) {
		log.Warn(what, "object", object, observe.KeyError, err)
	}
}

func (c *failureLog) isNew(about failureKey, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, known := c.logged[about]; known && now.Sub(last) < failurePeriod {
		return false
	}
	if c.logged == nil || len(c.logged) >= failureLimit {
		c.logged = map[failureKey]time.Time{}
	}
	c.logged[about] = now
	return true
}

package status

import (
	"log/slog"
	"sync"
	"time"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

const (
	complaintPause = 10 * time.Minute
	complaintLimit = 64
)

// complaints keeps thousands of objects that fail for one reason from filling
// the log: the same kind of failure is logged once in a while.
type complaints struct {
	mu     sync.Mutex
	logged map[complaint]time.Time
}

// complaint is what failed, and the kind of the failure.
type complaint struct{ what, kind string }

func (c *complaints) log(log *slog.Logger, what, object string, err error) {
	if c.news(complaint{what, kube.FailureKind(err)}, time.Now()) {
		log.Warn(what, "object", object, observe.KeyError, err)
	}
}

func (c *complaints) news(about complaint, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, known := c.logged[about]; known && now.Sub(last) < complaintPause {
		return false
	}
	if c.logged == nil || len(c.logged) >= complaintLimit {
		c.logged = map[complaint]time.Time{}
	}
	c.logged[about] = now
	return true
}

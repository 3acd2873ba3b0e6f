package v1alpha1

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// RetryStrategy configures the retries of a failed sync.
type RetryStrategy struct {
	Limit   int64    `json:"limit,omitzero" description:"Maximum number of retries. A negative number means no limit."`
	Backoff *Backoff `json:"backoff,omitzero" description:"Backoff between retries."`
	Refresh bool     `json:"refresh,omitzero" description:"Retries with the latest revision instead of the one that failed."`
}

// Backoff configures the delay before each retry of a failed sync.
type Backoff struct {
	Duration    string `json:"duration,omitzero" description:"First backoff, such as 5s. A number is in seconds."`
	Factor      *int64 `json:"factor,omitzero" minimum:"1" description:"Factor by which the backoff grows after each retry. Defaults to 2."`
	MaxDuration string `json:"maxDuration,omitzero" description:"Maximum backoff, such as 3m."`
}

// Defaults of the retries, for an Application that sets none.
const (
	DefaultRetryLimit       = 5
	DefaultRetryDuration    = 5 * time.Second
	DefaultRetryFactor      = 2
	DefaultRetryMaxDuration = 3 * time.Minute
)

// AutomatedRetry is what follows an automated sync that failed: what is written,
// or else five more tries.
func (p *SyncPolicy) AutomatedRetry() *RetryStrategy {
	if p != nil && p.Retry != nil {
		return p.Retry
	}
	return &RetryStrategy{Limit: DefaultRetryLimit}
}

// Allows reports whether a sync may be tried again that was tried again so
// often. Without a strategy nothing is tried again.
func (r *RetryStrategy) Allows(retries int64) bool {
	return r != nil && (r.Limit < 0 || retries < r.Limit)
}

// Wait is how long to wait before a sync is tried again that was tried again so
// often. Waits that cannot be read are the default; Decode refuses them.
func (r *RetryStrategy) Wait(retries int64) time.Duration {
	first, most, factor := DefaultRetryDuration, DefaultRetryMaxDuration, int64(DefaultRetryFactor)
	if r != nil && r.Backoff != nil {
		if parsed, err := parseWait(r.Backoff.Duration); err == nil && r.Backoff.Duration != "" {
			first = parsed
		}
		if parsed, err := parseWait(r.Backoff.MaxDuration); err == nil && r.Backoff.MaxDuration != "" {
			most = parsed
		}
		if r.Backoff.Factor != nil && *r.Backoff.Factor >= 1 {
			factor = *r.Backoff.Factor
		}
	}
	// A power overflows long before the longest wait is negative.
	wait := float64(first) * math.Pow(float64(factor), float64(max(0, retries)))
	return time.Duration(min(wait, float64(most)))
}

// maxWait bounds a configured delay: no user waits longer for a sync, and sums
// of longer delays could overflow.
const maxWait = 24 * time.Hour

// parseWait reads a time such as 5s. A number without a unit is seconds.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if seconds, numberErr := strconv.ParseInt(text, 10, 32); numberErr == nil {
		wait, err = time.Duration(seconds)*time.Second, nil
	}
	switch {
	case err != nil:
		return 0, errors.New("it is not a time: write a number and a unit, such as 5s or 3m")
	case wait < 0:
		return 0, errors.New("the time is negative: write one such as 5s or 3m")
	case wait > maxWait:
		return 0, errors.New("the time is too long: write at most 24h")
	}
	return wait, nil
}

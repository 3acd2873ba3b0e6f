package source

import (
	"time"

	"slipway.dev/slipway/internal/backoff"
)

// archiveBackoff is how long an archive is not requested again whose server does not
// respond. An index can name any server, and polls go through the charts of a
// repository one after the other: without it, each poll waits for that server.
func archiveBackoff() backoff.Policy {
	return backoff.Policy{First: 10 * time.Second, Longest: 5 * time.Minute, JitterUp: 0.2}
}

// maxFailedArchives bounds what is kept about archives. Forgetting one costs a request.
const maxFailedArchives = 1000

// archiveKey is an archive of a chart, at the address that the index names.
type archiveKey struct {
	chartKey
	url string
}

// failedArchive is an archive that could not be fetched.
type failedArchive struct {
	tries   int
	retryAt time.Time
	err     error
}

// archiveFailure returns why an archive could not be fetched the last time; nil if it may
// be requested now.
func (c *charts) archiveFailure(key archiveKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed, found := c.failedArchives.Get(key)
	if !found || !time.Now().Before(failed.retryAt) {
		return nil
	}
	return failed.err
}

// noteArchive notes how the request for an archive ended. Only what goes away by itself
// has a backoff: other errors need a change of the index or of the credential.
func (c *charts) noteArchive(key archiveKey, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed, found := c.failedArchives.Get(key)
	switch {
	case err != nil && IsKind(toError(err, key.address.String()), Unreachable):
		failed.tries++
		failed.retryAt, failed.err = time.Now().Add(archiveBackoff().Delay(failed.tries)), err
		c.failedArchives.Put(key, failed, 0)
	case found:
		c.failedArchives.RemoveIf(func(other archiveKey) bool { return other == key })
	}
}

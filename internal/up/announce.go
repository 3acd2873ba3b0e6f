package up

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitserver"
	"slipway.dev/slipway/internal/secret"
)

const (
	// announceQueue bounds the pushes that wait. One that does not fit is found
	// when the agent polls the repository.
	announceQueue = 32
	// The attempts and their interval cover the start of an agent.
	announceAttempts = 20
	announceInterval = 500 * time.Millisecond
)

// announcer notifies the agent of pushes as a Git host would: by a signed
// webhook, in the format of Gitea. One goroutine sends them in order.
type announcer struct {
	target  string
	log     io.Writer
	queue   chan push
	stop    context.CancelFunc
	running sync.WaitGroup

	// mu guards key, which is set while the goroutine runs.
	mu  sync.Mutex
	key secret.Text
}

// push is a change of the repository at a URL.
type push struct {
	repository string
	gitserver.Change
}

// newAnnouncer returns an announcer that runs until close.
func newAnnouncer(target string, log io.Writer) *announcer {
	ctx, stop := context.WithCancel(context.Background())
	a := &announcer{target: target, log: log, queue: make(chan push, announceQueue), stop: stop}
	a.running.Go(func() { a.run(ctx) })
	return a
}

// sign sets the key that signs webhooks. Nothing is sent before.
func (a *announcer) sign(key secret.Text) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.key = key
}

// announce queues changes of a repository. It never blocks: the Git server calls
// it while a push waits.
func (a *announcer) announce(repository string, changes []gitserver.Change) {
	for _, change := range changes {
		select {
		case a.queue <- push{repository, change}:
		default:
			// The push succeeds all the same, and the agent's next poll finds
			// it.
			fmt.Fprintf(a.log, "dropped the notification of a push to %s: too many are pending\n", change.Ref)
		}
	}
}

// close ends the goroutine and drops queued changes. The Git server has to be
// closed before, so that no push is queued any more.
func (a *announcer) close() {
	a.stop()
	a.running.Wait()
}

// run sends queued changes until ctx ends.
func (a *announcer) run(ctx context.Context) {
	for {
		select {
		case change := <-a.queue:
			a.report(ctx, change)
		case <-ctx.Done():
			return
		}
	}
}

// report sends one change and retries for a while, because the agent may be
// starting. After the last attempt the agent's poll finds the push.
func (a *announcer) report(ctx context.Context, change push) {
	var err error
	for range announceAttempts {
		if err = a.post(ctx, change); err == nil {
			return
		}
		if backoff.Sleep(ctx, announceInterval) != nil {
			return
		}
	}
	fmt.Fprintf(a.log, "could not notify the agent of a push to %s; it polls anyway: %v\n", change.Ref, err)
}

// post sends one webhook.
func (a *announcer) post(ctx context.Context, change push) error {
	a.mu.Lock()
	key := a.key
	a.mu.Unlock()
	// The retries cover the time until the key is set.
	if key.IsZero() {
		return errors.New("there is nothing to sign with yet")
	}
	body, err := pushEvent(change)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	// Gitea signs the body with HMAC-SHA256, in hexadecimal.
	signature := hmac.New(sha256.New, []byte(key.Reveal()))
	signature.Write(body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Gitea-Event", "push")
	request.Header.Set("X-Gitea-Signature", hex.EncodeToString(signature.Sum(nil)))
	// Not the default transport: that one goes through the user's proxy.
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(response.Body, responseLimit))
		return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

// pushEvent returns the body of the webhook. It lists no changed paths: the
// agent finds them in Git.
func pushEvent(change push) ([]byte, error) {
	commit := func(id string) string {
		return cmp.Or(id, strings.Repeat("0", 40)) // as Git writes that there is none
	}
	return json.Marshal(map[string]any{
		"ref": change.Ref, "before": commit(change.Before), "after": commit(change.After),
		"repository": map[string]string{"full_name": "slipway/" + strings.TrimSuffix(path.Base(change.repository), ".git"), "clone_url": change.repository},
	})
}

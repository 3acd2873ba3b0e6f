package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/gitops/notify/service"
	"slipway.dev/slipway/internal/observe"
)

const (
	// sendTimeout bounds an attempt.
	sendTimeout = 10 * time.Second
	// giveUpAfter is how long a message is tried: later it is no news.
	giveUpAfter = 24 * time.Hour
	// serviceInFlight is how many messages of a service are sent in parallel, and
	// serviceRate how many in a second, after a burst.
	serviceInFlight = 3
	serviceRate     = 5
	serviceBurst    = 20
	// busyDelay is the pause of a message whose service has no slot.
	busyDelay = 250 * time.Millisecond
	// reportedFailures is after how many failures in a row there is an Event.
	reportedFailures = 3
)

// retries is the backoff of a message that was not accepted.
func retries() backoff.Policy {
	return backoff.Policy{First: 2 * time.Second, Longest: 5 * time.Minute, JitterUp: 0.2}
}

// attempt is the state of a message that failed.
type attempt struct {
	failures int
	next     time.Time
	// blocked: nothing but a change of the settings helps.
	blocked bool
}

// serviceSlots bound what is sent to each service. It is safe for concurrent use.
type serviceSlots struct {
	mu       sync.Mutex
	inFlight map[string]int
	limits   map[string]*rate.Limiter
}

func newServiceSlots() *serviceSlots {
	return &serviceSlots{inFlight: map[string]int{}, limits: map[string]*rate.Limiter{}}
}

// enter takes a slot of a service. It is false if there is none.
func (s *serviceSlots) enter(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limits[name]
	if limit == nil {
		limit = rate.NewLimiter(serviceRate, serviceBurst)
		s.limits[name] = limit
	}
	if s.inFlight[name] >= serviceInFlight || !limit.Allow() {
		return false
	}
	s.inFlight[name]++
	return true
}

// leave gives a slot back.
func (s *serviceSlots) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight[name]--
}

// ready returns the messages that can be tried now, and when to look at the others. A
// message that was tried for too long is given up.
func (c *Controller) ready(ctx context.Context, a *application, due []delivery) ([]delivery, time.Duration) {
	var ready []delivery
	var again time.Duration
	now := time.Now()
	for _, one := range due {
		if a.record.hasIntent(one.key) && now.Sub(a.record.intendedAt(one.key)) > giveUpAfter {
			a.record[one.key], a.dirty = now.Unix(), true
			c.options.Observe(one.to.Service, Abandoned)
			c.reportFailure(ctx, a, one, fmt.Errorf("not accepted within %s; given up", giveUpAfter))
			continue
		}
		pause, blocked := c.pause(a, one, now)
		switch {
		case blocked:
		case pause > 0:
			again = sooner(again, pause)
		default:
			ready = append(ready, one)
		}
	}
	return ready, again
}

// pause returns how long a message has to wait, and whether that is until the settings
// change.
func (c *Controller) pause(a *application, one delivery, now time.Time) (time.Duration, bool) {
	if a.record.hasIntent(one.key) && a.record.sender(one.key) != c.sender {
		if left := takeoverDelay - now.Sub(c.started); left > 0 {
			return left, false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.attempts[a.name][one.key]
	if last == nil {
		return 0, false
	}
	return max(0, last.next.Sub(now)), last.blocked
}

// deliver renders and sends one message, and records it. It returns when to try again; 0
// if it was sent. The error is one of the record.
func (c *Controller) deliver(ctx context.Context, a *application, one delivery) (time.Duration, error) {
	if !c.services.enter(one.to.Service) {
		return busyDelay, nil
	}
	err := c.send(ctx, a, one)
	c.services.leave(one.to.Service)
	if err != nil {
		if ctx.Err() != nil {
			return 0, nil // the next process tries again
		}
		c.options.Observe(one.to.Service, Failed)
		return c.failed(ctx, a, one, err), nil
	}
	c.options.Observe(one.to.Service, Sent)
	c.options.Log.Info("notification sent", "namespace", a.name.Namespace, "application", a.name.Name, "trigger", one.trigger,
		"service", one.to.Service, "recipient", one.to.Recipient)
	a.record[one.key], a.dirty = time.Now().Unix(), true
	c.setUnwritten(a, one.key, a.record[one.key])
	if err := c.write(ctx, a, false); err != nil {
		return 0, err
	}
	c.written(a)
	return 0, nil
}

// send renders a message and hands it to its service.
func (c *Controller) send(ctx context.Context, a *application, one delivery) error {
	to := a.settings.Services[one.to.Service]
	if len(one.templates) == 0 {
		return errNoTemplate
	}
	texts := make([]string, 0, len(one.templates))
	templates := make([]message.Template, 0, len(one.templates))
	for _, name := range one.templates {
		text, known := a.settings.Templates[name]
		if !known {
			return &templateError{fmt.Sprintf("there is no template %s", name)}
		}
		texts, templates = append(texts, text), append(templates, message.Template{Name: name, Text: text})
	}
	request, err := c.request(ctx, a, a.object, texts)
	if err != nil {
		return err
	}
	request.Templates, request.Service, request.Type, request.Recipient = templates, one.to.Service, to.Type, one.to.Recipient
	response, err := c.options.Evaluator.Notify(ctx, a.projectName(), request)
	switch {
	case err != nil:
		return fmt.Errorf("render the message: %w", err)
	case response.Message == nil:
		return &templateError{response.Problem}
	}
	// A stop of the process does not end the request: whether it was accepted would be
	// unknown.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	return to.Send(sending, service.Message{
		Service: one.to.Service, Recipient: one.to.Recipient, Text: response.Message.Text, Section: response.Message.Section,
		Template: one.templates[0], Key: a.messageKey(one), At: a.record.intendedAt(one.key),
	})
}

// templateError is a template that cannot be rendered.
type templateError struct{ reason string }

func (e *templateError) Error() string { return "render the message: " + e.reason }

// errNoTemplate is a condition without templates.
var errNoTemplate = &templateError{"the condition of the trigger names no template in send"}

// messageKey identifies a message for receivers: the same at every attempt and in every
// process, and another one for an Application that was deleted and made again.
func (a *application) messageKey(one delivery) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%d", a.object.GetUID(), one.key, a.record.intendedAt(one.key).Unix())
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// failed records an attempt, and returns when the next one is; 0 for none.
func (c *Controller) failed(ctx context.Context, a *application, one delivery, err error) time.Duration {
	_, isTemplate := errors.AsType[*templateError](err)
	_, isPermanent := errors.AsType[*service.PermanentError](err)
	busy, isBusy := errors.AsType[*service.BusyError](err)
	c.mu.Lock()
	if c.attempts[a.name] == nil {
		c.attempts[a.name] = map[string]*attempt{}
	}
	last := c.attempts[a.name][one.key]
	if last == nil {
		last = &attempt{}
		c.attempts[a.name][one.key] = last
	}
	last.failures++
	last.blocked = isTemplate || isPermanent
	pause := retries().Delay(last.failures)
	if isBusy {
		pause = busy.After
	}
	last.next = time.Now().Add(pause)
	failures, blocked := last.failures, last.blocked
	c.mu.Unlock()
	if blocked || failures == reportedFailures {
		c.reportFailure(ctx, a, one, err)
	}
	if blocked {
		return 0
	}
	c.options.Log.Warn("notification not accepted; retrying", "namespace", a.name.Namespace, "application", a.name.Name, "trigger", one.trigger,
		"service", one.to.Service, "recipient", one.to.Recipient, "after", pause, observe.KeyError, err)
	return pause
}

// setUnwritten keeps what was sent until it is recorded.
func (c *Controller) setUnwritten(a *application, key string, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unwritten[a.name] == nil {
		c.unwritten[a.name] = map[string]int64{}
	}
	c.unwritten[a.name][key] = at
	delete(c.attempts[a.name], key)
}

// written forgets what the record has now.
func (c *Controller) written(a *application) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unwritten, a.name)
}

package report

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Reporter tells the platform of Applications.
type Reporter struct {
	options Options

	// inbox is what Run has not taken yet. lost is an inbox that was full.
	mu    sync.Mutex
	inbox *queue
	lost  bool
	// news holds one signal at most.
	news chan struct{}

	// Run owns these.
	spool *spool
	// told is when the platform last answered, and failures how often it has not
	// since.
	told     time.Time
	failures int
}

// New makes a reporter. It tells nothing before Run.
func New(options Options) (*Reporter, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	return &Reporter{options: options, inbox: newQueue(), news: make(chan struct{}, 1)}, nil
}

// Changed tells of a state of an Application. It does not wait.
func (r *Reporter) Changed(app *v1alpha1.Application) {
	now := timestamppb.Now()
	r.note(&platformv1.ReportEvent{At: now, Event: &platformv1.ReportEvent_Application{Application: Message(app, r.options.Runtime, now.AsTime())}})
}

// Deleted tells that an Application is gone. It does not wait.
func (r *Reporter) Deleted(ref Ref) {
	r.note(deletion(ref.Namespace, ref.Name, ref.UID))
}

func deletion(namespace, name, uid string) *platformv1.ReportEvent {
	return &platformv1.ReportEvent{At: timestamppb.Now(), Event: &platformv1.ReportEvent_Deleted{
		Deleted: &platformv1.Application{Namespace: namespace, Name: name, Uid: uid},
	}}
}

func (r *Reporter) note(event *platformv1.ReportEvent) {
	r.mu.Lock()
	r.inbox.put(event)
	if r.inbox.bytes > r.options.MaxBytes {
		r.inbox, r.lost = newQueue(), true
	}
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// Run reports until the context is done. It may run again then, as a replica does
// that leads again, and never twice at a time. The error is about a folder that
// cannot be used.
func (r *Reporter) Run(ctx context.Context) error {
	opened, err := openSpool(r.options.Folder, r.options.Log, func() { r.options.Metrics.spoolFailed() })
	if err != nil {
		return err
	}
	r.spool, r.told, r.failures = opened, time.Time{}, 0
	defer opened.close()
	if !r.spool.lost {
		r.catchUp(ctx)
	} else {
		r.options.Metrics.resync("start")
	}
	for ctx.Err() == nil {
		r.take()
		if err := r.tell(ctx); err != nil && ctx.Err() == nil {
			r.failed(err)
			r.wait(ctx, r.pause())
			continue
		}
		if r.idle() {
			r.wait(ctx, max(r.options.probe-time.Since(r.told), 0))
		}
	}
	r.take()
	return nil
}

// take spools what came in.
func (r *Reporter) take() {
	r.mu.Lock()
	came, lost := r.inbox, r.lost
	r.inbox, r.lost = newQueue(), false
	r.mu.Unlock()
	if lost && !r.spool.lost {
		r.overflow()
	}
	for _, event := range came.events() {
		// A resync that is needed tells everything anyway.
		if !r.spool.lost && r.spool.news(event) {
			r.spool.addPut(event)
		}
	}
	if r.spool.waiting.bytes > r.options.MaxBytes {
		r.overflow()
	}
	r.spool.sync()
	r.options.Metrics.spooled(r.spool)
}

func (r *Reporter) overflow() {
	r.options.Log.Warn("more waits for the platform than may: it is dropped, and everything is told anew", "bytes", r.options.MaxBytes)
	r.options.Metrics.resync("full")
	r.spool.addLost()
}

// catchUp finds what changed while nobody looked.
func (r *Reporter) catchUp(ctx context.Context) {
	for ctx.Err() == nil {
		r.take()
		apps, err := r.list(ctx)
		if err != nil {
			r.failed(err)
			r.wait(ctx, r.pause())
			continue
		}
		r.failures = 0
		there := map[place]bool{}
		for _, event := range apps {
			there[placeOf(subject(event))] = true
			if !r.spool.lost && r.spool.news(event) {
				r.spool.addPut(event)
			}
		}
		var gone []*platformv1.ReportEvent
		for where, known := range r.spool.known {
			if !there[where] {
				gone = append(gone, deletion(where.Namespace, where.Name, known.UID))
			}
		}
		for _, event := range gone {
			r.spool.addPut(event)
		}
		r.spool.sync()
		return
	}
}

// list is everything there is, as events.
func (r *Reporter) list(ctx context.Context) ([]*platformv1.ReportEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	apps, err := r.options.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the Applications: %w", err)
	}
	now := timestamppb.Now()
	events := make([]*platformv1.ReportEvent, 0, len(apps))
	for _, app := range apps {
		events = append(events, &platformv1.ReportEvent{At: now, Event: &platformv1.ReportEvent_Application{
			Application: Message(app, r.options.Runtime, now.AsTime()),
		}})
	}
	return events, nil
}

// idle reports whether there is nothing to tell.
func (r *Reporter) idle() bool {
	return !r.spool.lost && len(r.spool.flying) == 0 && r.spool.waiting.len() == 0
}

// tell sends the next thing that is due.
func (r *Reporter) tell(ctx context.Context) error {
	switch s := r.spool; {
	case s.lost:
		return r.resync(ctx)
	case len(s.flying) > 0:
		return r.tellFlying(ctx)
	case r.told.IsZero():
		// A folder that was restored from a copy may be older than what the platform
		// has: no number is given before it is known that none was.
		return r.send(ctx, nil, s.next-1)
	case s.waiting.len() > 0:
		s.addTake(s.waiting.fit(r.options.batchEvents, batchBytes))
		s.sync()
		if s.lost {
			return nil // the disk has failed
		}
		return r.tellFlying(ctx)
	case time.Since(r.told) >= r.options.probe:
		s.mend()
		return r.send(ctx, nil, s.next-1)
	}
	return nil
}

func (r *Reporter) tellFlying(ctx context.Context) error {
	flying := r.spool.flying
	if err := r.send(ctx, flying, flying[len(flying)-1].GetNumber()); err != nil {
		return err
	}
	if !r.spool.lost {
		r.spool.addStored()
		r.spool.sync()
	}
	return nil
}

// errBehind is a platform that does not have what it should have.
var errBehind = errors.New("the platform misses something")

// send sends events, and the platform must have everything up to a number then.
// Otherwise a resync is needed, whatever the reason: a gap, a database that was
// lost or restored, or a spool that is older than the platform.
func (r *Reporter) send(ctx context.Context, events []*platformv1.ReportEvent, upTo int64) error {
	asking, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := r.options.Client.Report(asking, connect.NewRequest(&platformv1.ReportRequest{Stream: r.spool.stream, Events: events}))
	r.options.Metrics.batch(err)
	if err != nil {
		return fmt.Errorf("tell the platform of Applications: %w", err)
	}
	r.told = time.Now()
	if answer.Msg.GetResync() || answer.Msg.GetStored() != upTo {
		r.options.Log.Info("the platform has to be told everything anew", "stored", answer.Msg.GetStored(), "expected", upTo)
		r.options.Metrics.resync("gap")
		r.spool.addLost()
		r.spool.sync()
		// Two in a row wait for each other: a platform that never has enough must
		// not be asked without end.
		r.failures++
		if r.failures > 1 {
			return errBehind
		}
		return nil
	}
	r.failures = 0
	return nil
}

// resync tells everything in a new stream. What changes meanwhile is spooled, and
// told afterwards.
func (r *Reporter) resync(ctx context.Context) error {
	events, err := r.list(ctx)
	if err != nil {
		return err
	}
	stream := rand.Text()
	r.spool.addBegin(stream)
	for _, event := range events {
		r.spool.known[placeOf(subject(event))] = printOf(event.GetApplication())
	}
	r.spool.sync()
	now := timestamppb.Now()
	events = append([]*platformv1.ReportEvent{{At: now, Event: &platformv1.ReportEvent_ResyncBegin{ResyncBegin: true}}}, events...)
	events = append(events, &platformv1.ReportEvent{At: now, Event: &platformv1.ReportEvent_ResyncEnd{ResyncEnd: true}})
	for i, event := range events {
		event.Number = int64(i + 1)
	}
	for start := 0; start < len(events); {
		// A failure of the disk ends the stream.
		if r.spool.lost || r.spool.stream != stream {
			return nil
		}
		end := fitEvents(events[start:], r.options.batchEvents) + start
		err := r.send(ctx, events[start:end], int64(end))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errBehind) || (err == nil && r.spool.lost):
			return err
		case err != nil:
			r.failed(err)
			r.wait(ctx, r.pause())
		default:
			start = end
			r.take()
		}
	}
	r.spool.addEnd(int64(len(events)) + 1)
	r.spool.rotate()
	return nil
}

// fitEvents is how many of the first events fit into a batch.
func fitEvents(events []*platformv1.ReportEvent, most int) int {
	count, total := 0, 0
	for _, event := range events {
		total += messageSize(event)
		if count >= most || (count > 0 && total > batchBytes) {
			break
		}
		count++
	}
	return count
}

// failed notes a failure. The first one of a row is told to people.
func (r *Reporter) failed(err error) {
	r.failures++
	if r.failures == 1 {
		r.options.Log.Warn("reports wait; they are tried again", observe.KeyError, err)
	} else {
		r.options.Log.Debug("reports wait", observe.KeyError, err)
	}
}

// pause is how long to wait after failures: twice as long each time, less a random
// part of up to a half.
func (r *Reporter) pause() time.Duration {
	return backoff.Policy{First: r.options.firstPause, Longest: r.options.longestPause, JitterDown: 0.5}.Delay(r.failures)
}

// wait lets time pass, and spools what comes in. Without failures it ends with the
// first news.
func (r *Reporter) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.news:
			r.take()
			if r.failures == 0 {
				return
			}
		}
	}
}

package report

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Reporter sends the state of Applications to the platform.
type Reporter struct {
	options Options

	// mu guards the inbox, which has events that Run has not spooled yet. lost
	// is set when the inbox was full.
	mu    sync.Mutex
	inbox *queue
	lost  bool
	// wakeup holds one signal at most.
	wakeup chan struct{}

	// The goroutine of Run owns these.
	spool *spool
	// lastResponse is when the platform last responded, and failures counts the
	// requests without a response since.
	lastResponse time.Time
	failures     int
	commitTimes  map[commitKey]time.Time
}

// New returns a reporter. It sends nothing before Run.
func New(options Options) (*Reporter, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	return &Reporter{options: options, inbox: newQueue(), wakeup: make(chan struct{}, 1)}, nil
}

// Changed records the state of an Application. It never blocks.
func (r *Reporter) Changed(app *v1alpha1.Application) {
	now := timestamppb.Now()
	r.enqueue(&platformv1.ReportEvent{At: now, Event: &platformv1.ReportEvent_Application{Application: Message(app, r.options.Runtime, now.AsTime())}})
}

// Deleted records that an Application was deleted. It never blocks.
func (r *Reporter) Deleted(ref Ref) {
	r.enqueue(deletion(ref.Namespace, ref.Name, ref.UID))
}

// deletion is the event of a deleted Application.
func deletion(namespace, name, uid string) *platformv1.ReportEvent {
	return &platformv1.ReportEvent{At: timestamppb.Now(), Event: &platformv1.ReportEvent_Deleted{
		Deleted: &platformv1.Application{Namespace: namespace, Name: name, Uid: uid},
	}}
}

// enqueue adds an event to the inbox. A full inbox is dropped, and a resync
// follows.
func (r *Reporter) enqueue(event *platformv1.ReportEvent) {
	r.mu.Lock()
	r.inbox.put(event)
	// Run is stuck or slow. The memory is bounded, and nothing is lost for
	// good.
	if r.inbox.bytes > r.options.MaxBytes {
		r.inbox, r.lost = newQueue(), true
	}
	r.mu.Unlock()
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// Run sends reports until the context is done. A replica that leads again runs
// it again, but never twice at a time. It returns an error only if the folder
// cannot be used.
func (r *Reporter) Run(ctx context.Context) error {
	opened, err := openSpool(r.options.Folder, r.options.Log, r.options.Metrics.spoolErr.Inc)
	if err != nil {
		return err
	}
	r.spool, r.lastResponse, r.failures = opened, time.Time{}, 0
	defer opened.close()
	// After a resync everything is sent anyway, so that no comparison is
	// needed.
	if !r.spool.lost {
		r.compareAll(ctx)
	} else {
		r.options.Metrics.resync("start")
	}
	for ctx.Err() == nil {
		r.spoolInbox(ctx)
		if err := r.sendNext(ctx); err != nil && ctx.Err() == nil {
			r.failed(err)
			r.wait(ctx, r.pause())
			continue
		}
		// An empty report now and then detects a platform that lost its
		// database.
		if r.isIdle() {
			r.wait(ctx, max(r.options.probe-time.Since(r.lastResponse), 0))
		}
	}
	r.spoolInbox(ctx)
	return nil
}

// spoolInbox moves the inbox to the spool.
func (r *Reporter) spoolInbox(ctx context.Context) {
	r.mu.Lock()
	came, lost := r.inbox, r.lost
	r.inbox, r.lost = newQueue(), false
	r.mu.Unlock()
	// The inbox overflowed since the last run of this function.
	if lost && !r.spool.lost {
		r.overflow()
	}
	// A pending resync reports everything anyway.
	if !r.spool.lost {
		changed := slices.DeleteFunc(came.events(), func(event *platformv1.ReportEvent) bool { return !r.spool.isNew(event) })
		r.addCommitTimes(ctx, changed)
		for _, event := range changed {
			r.spool.addPut(event)
		}
	}
	if r.spool.waiting.bytes > r.options.MaxBytes {
		r.overflow()
	}
	r.spool.sync()
	r.options.Metrics.spooled(r.spool)
}

// overflow empties a spool that is too large.
func (r *Reporter) overflow() {
	r.options.Log.Warn("report spool is full; dropping events and starting a resync", "bytes", r.options.MaxBytes)
	r.options.Metrics.resync("full")
	r.spool.addLost()
}

// compareAll finds changes that happened while no process ran.
func (r *Reporter) compareAll(ctx context.Context) {
	for ctx.Err() == nil {
		r.spoolInbox(ctx)
		apps, err := r.list(ctx)
		if err != nil {
			r.failed(err)
			r.wait(ctx, r.pause())
			continue
		}
		r.failures = 0
		// Deletions while no process ran left no event: they are found by
		// comparison.
		there := map[appID]bool{}
		for _, event := range apps {
			there[appIDOf(subject(event))] = true
			if !r.spool.lost && r.spool.isNew(event) {
				r.spool.addPut(event)
			}
		}
		var gone []*platformv1.ReportEvent
		for where, known := range r.spool.reported {
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

// list returns all Applications as events.
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

// isIdle reports whether there is nothing to send.
func (r *Reporter) isIdle() bool {
	return !r.spool.lost && len(r.spool.inFlight) == 0 && r.spool.waiting.len() == 0
}

// sendNext sends the next batch or starts a resync.
func (r *Reporter) sendNext(ctx context.Context) error {
	switch s := r.spool; {
	case s.lost:
		return r.resync(ctx)
	case len(s.inFlight) > 0:
		return r.sendInFlight(ctx)
	case r.lastResponse.IsZero():
		// A folder that was restored from a copy may be older than what the platform
		// has: no number is given before it is known that none was.
		return r.send(ctx, nil, s.next-1)
	case s.waiting.len() > 0:
		s.addTake(s.waiting.fit(r.options.batchEvents, batchBytes))
		s.sync()
		if s.lost {
			return nil // the disk has failed
		}
		return r.sendInFlight(ctx)
	case time.Since(r.lastResponse) >= r.options.probe:
		s.reopen()
		return r.send(ctx, nil, s.next-1)
	}
	return nil
}

// sendInFlight sends the events in flight again until the platform confirms
// them.
func (r *Reporter) sendInFlight(ctx context.Context) error {
	flying := r.spool.inFlight
	if err := r.send(ctx, flying, flying[len(flying)-1].GetNumber()); err != nil {
		return err
	}
	if !r.spool.lost {
		r.spool.addStored()
		r.spool.sync()
	}
	return nil
}

// errBehind is a platform that does not have what it confirmed.
var errBehind = errors.New("the platform misses something")

// send sends events. The platform must then have everything up to a number.
// Otherwise a resync is needed, for any reason: a gap, a database that was
// lost or restored, or a spool that is older than the platform.
func (r *Reporter) send(ctx context.Context, events []*platformv1.ReportEvent, upTo int64) error {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := r.options.Client.Report(bounded, connect.NewRequest(&platformv1.ReportRequest{Stream: r.spool.stream, Events: events}))
	r.options.Metrics.batch(err)
	if err != nil {
		return fmt.Errorf("report Applications to the platform: %w", err)
	}
	r.lastResponse = time.Now()
	if response.Msg.GetResync() || response.Msg.GetStored() != upTo {
		r.options.Log.Info("platform is behind; starting a resync", "stored", response.Msg.GetStored(), "expected", upTo)
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

// resync sends all Applications in a new stream. Changes in the meantime are
// spooled and sent afterwards.
func (r *Reporter) resync(ctx context.Context) error {
	events, err := r.list(ctx)
	if err != nil {
		return err
	}
	stream := rand.Text()
	r.spool.addBegin(stream)
	for _, event := range events {
		r.spool.reported[appIDOf(subject(event))] = fingerprintOf(event.GetApplication())
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
			r.spoolInbox(ctx)
		}
	}
	r.spool.addEnd(int64(len(events)) + 1)
	r.spool.rotate()
	return nil
}

// fitEvents returns how many of the first events fit into a batch.
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

// failed counts a failure. The first one in a row is logged as a warning.
func (r *Reporter) failed(err error) {
	r.failures++
	if r.failures == 1 {
		r.options.Log.Warn("cannot send reports; retrying", observe.KeyError, err)
	} else {
		r.options.Log.Debug("cannot send reports", observe.KeyError, err)
	}
}

// pause returns the backoff: twice as long after each failure, less a random
// part of up to a half.
func (r *Reporter) pause() time.Duration {
	return backoff.Policy{First: r.options.firstPause, Longest: r.options.longestPause, JitterDown: 0.5}.Delay(r.failures)
}

// wait waits for a duration and spools events in the meantime. Without failures
// the first event ends it.
func (r *Reporter) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.wakeup:
			r.spoolInbox(ctx)
			if r.failures == 0 {
				return
			}
		}
	}
}

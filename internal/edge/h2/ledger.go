package h2

import (
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/bridge"
)

// emptyCost is how many control frames an empty DATA frame counts as.
const emptyCost = 10

// openFactor is how many times MaxStreams may be open at once before it is a
// flood. A client can be ahead of its limit by what is on the wire.
const openFactor = 4

// ledger weighs what one connection does. It sees frames and nothing else, and
// knows of no connection. It is for one goroutine at a time.
type ledger struct {
	limits  *GuardLimits
	maxOpen int

	// budget is how many control frames may come yet. Time adds to it only
	// once it is used up: asking for the time costs more than all the rest.
	budget int
	filled time.Time

	resets bridge.Resets
	open   map[uint32]time.Time // streams that have no whole answer, since when
	last   uint32               // the highest stream

	// A block of headers, from HEADERS to the frame that ends it.
	inBlock    bool
	blockBytes int
	blockParts int
}

func newLedger(cfg *Config) ledger {
	return ledger{
		limits:  &cfg.Guard,
		maxOpen: cfg.openFactor * cfg.MaxStreams,
		budget:  cfg.Guard.Control,
		filled:  time.Now(),
		resets:  bridge.Resets{Limits: cfg.Guard.Resets},
		open:    make(map[uint32]time.Time),
	}
}

// fromClient weighs a frame of the client's. It returns the reason to end the
// connection, empty when there is none.
func (l *ledger) fromClient(f *frame) (reason string) {
	switch f.kind {
	case frameData:
		if f.data > 0 {
			l.earn(1)
		} else if !f.has(flagEndStream) {
			return l.spend(emptyCost, ReasonEmptyData)
		}
	case frameHeaders:
		l.inBlock = !f.has(flagEndHeaders)
		l.blockBytes, l.blockParts = int(f.length), 0
		return l.opened(f.stream)
	case frameContinuation:
		l.inBlock = !f.has(flagEndHeaders)
		l.blockBytes += int(f.length)
		l.blockParts++
		if l.blockParts > l.limits.Continuations {
			return ReasonContinuations
		}
		if l.blockBytes > l.limits.BlockBytes {
			return ReasonBlock
		}
	case frameReset:
		return l.cut(f.stream, ReasonResets)
	case framePing:
		return l.spend(1, ReasonPings)
	case frameSettings:
		return l.spend(1, ReasonSettings)
	case framePriority, framePriority9218:
		return l.spend(1, ReasonPriorities)
	case frameWindowUpdate:
		return l.spend(1, ReasonWindows)
	default:
		return l.spend(1, ReasonUnknown)
	}
	return ""
}

// fromServer weighs a frame of ours.
func (l *ledger) fromServer(f *frame) (reason string) {
	switch f.kind {
	case frameData:
		l.earn(l.limits.ControlPerData)
		if f.has(flagEndStream) {
			delete(l.open, f.stream)
		}
	case frameHeaders:
		if f.has(flagEndStream) {
			delete(l.open, f.stream)
		}
	case frameReset:
		// With these a stream is reset without the client being at fault: an answer
		// before the end of an upload, or a request that was given up.
		switch f.code {
		case http2.ErrCodeNo, http2.ErrCodeInternal, http2.ErrCodeCancel:
			delete(l.open, f.stream)
		default:
			return l.cut(f.stream, ReasonProvoked)
		}
	}
	return ""
}

// opened counts a stream, unless these are the trailers of one.
func (l *ledger) opened(stream uint32) (reason string) {
	if stream <= l.last {
		return ""
	}
	l.last = stream
	l.resets.Opened()
	l.earn(l.limits.ControlPerStream)
	if l.open[stream] = time.Now(); len(l.open) > l.maxOpen {
		return ReasonStreams
	}
	return ""
}

// cut counts a stream that ends before its answer does. One that has got its
// answer, or was reset before, does not count: frames that were on their way
// to a stream that is gone make us reset it again.
func (l *ledger) cut(stream uint32, why string) (reason string) {
	since, open := l.open[stream]
	if !open {
		return l.spend(1, why)
	}
	delete(l.open, stream)
	if l.resets.Cut(time.Since(since)) {
		return why
	}
	return ""
}

func (l *ledger) earn(n int) { l.budget = min(l.budget+n, l.limits.ControlSaved) }

func (l *ledger) spend(n int, why string) (reason string) {
	if l.budget -= n; l.budget >= 0 {
		return ""
	}
	now := time.Now()
	if fresh := int(now.Sub(l.filled).Seconds() * float64(l.limits.ControlRate)); fresh > 0 {
		l.budget = min(l.budget+fresh, l.limits.Control)
		l.filled = now
	}
	if l.budget < 0 {
		return why
	}
	return ""
}

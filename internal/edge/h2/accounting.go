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

// frameAccounting weighs the frames of a connection against the useful work in
// them, and detects floods. It sees frames and nothing else of the connection.
// The session's mu guards it.
type frameAccounting struct {
	limits  *GuardLimits
	maxOpen int
	// exceeded is the first limit that was exceeded, as a reason to close the
	// connection.
	exceeded string

	// budget is how many control frames may still come. Time adds to it only
	// once it is used up: reading the clock costs more than all the rest.
	budget   int
	refilled time.Time

	resets bridge.Resets
	open   map[uint32]time.Time // streams without a complete response, since when
	last   uint32               // the highest stream

	// The block of headers that is being read, from HEADERS to the frame that
	// ends it.
	inBlock    bool
	blockBytes int
	blockParts int
}

func newAccounting(cfg *Config) frameAccounting {
	return frameAccounting{
		limits:   &cfg.Guard,
		maxOpen:  cfg.openFactor * cfg.MaxStreams,
		budget:   cfg.Guard.Control,
		refilled: time.Now(),
		resets:   bridge.Resets{Limits: cfg.Guard.Resets},
		open:     make(map[uint32]time.Time),
	}
}

// exceed keeps the first reason to close the connection; an empty one is none.
func (a *frameAccounting) exceed(reason string) {
	if a.exceeded == "" {
		a.exceeded = reason
	}
}

// countReceived weighs a frame of the client. It returns the reason to close
// the connection, empty for none.
func (a *frameAccounting) countReceived(f *frame) (reason string) {
	switch f.kind {
	case frameData:
		if f.data > 0 {
			a.earn(1)
		} else if !f.has(flagEndStream) {
			return a.spend(emptyCost, ReasonEmptyData)
		}
	case frameHeaders:
		a.inBlock = !f.has(flagEndHeaders)
		a.blockBytes, a.blockParts = int(f.length), 0
		return a.countOpen(f.stream)
	case frameContinuation:
		a.inBlock = !f.has(flagEndHeaders)
		a.blockBytes += int(f.length)
		a.blockParts++
		if a.blockParts > a.limits.Continuations {
			return ReasonContinuations
		}
		if a.blockBytes > a.limits.BlockBytes {
			return ReasonBlock
		}
	case frameReset:
		return a.countReset(f.stream, ReasonResets)
	case framePing:
		return a.spend(1, ReasonPings)
	case frameSettings:
		return a.spend(1, ReasonSettings)
	case framePriority, framePriority9218:
		return a.spend(1, ReasonPriorities)
	case frameWindowUpdate:
		return a.spend(1, ReasonWindows)
	default:
		return a.spend(1, ReasonUnknown)
	}
	return ""
}

// countSent weighs a frame of the server. It returns a reason like
// countReceived.
func (a *frameAccounting) countSent(f *frame) (reason string) {
	switch f.kind {
	case frameData:
		a.earn(a.limits.ControlPerData)
		if f.has(flagEndStream) {
			delete(a.open, f.stream)
		}
	case frameHeaders:
		if f.has(flagEndStream) {
			delete(a.open, f.stream)
		}
	case frameReset:
		// These codes reset a stream without a fault of the client: a response
		// before the end of an upload, a failed handler, or a request that was
		// cancelled.
		switch f.code {
		case http2.ErrCodeNo, http2.ErrCodeInternal, http2.ErrCodeCancel:
			delete(a.open, f.stream)
		default:
			return a.countReset(f.stream, ReasonProvoked)
		}
	}
	return ""
}

// countOpen counts a new stream. Trailers are HEADERS of a stream that was
// counted.
func (a *frameAccounting) countOpen(stream uint32) (reason string) {
	if stream <= a.last {
		return ""
	}
	a.last = stream
	a.resets.Opened()
	a.earn(a.limits.ControlPerStream)
	if a.open[stream] = time.Now(); len(a.open) > a.maxOpen {
		return ReasonStreams
	}
	return ""
}

// countReset counts a stream that ends before its response does. One that has
// its response, or was reset before, is only a control frame: frames that were
// on their way to a stream that has ended make the server reset it again.
func (a *frameAccounting) countReset(stream uint32, why string) (reason string) {
	since, open := a.open[stream]
	if !open {
		return a.spend(1, why)
	}
	delete(a.open, stream)
	if a.resets.Cut(time.Since(since)) {
		return why
	}
	return ""
}

// earn adds control frames that useful work allows.
func (a *frameAccounting) earn(n int) { a.budget = min(a.budget+n, a.limits.ControlSaved) }

// spend uses up control frames, and refills the budget by the time that has
// passed when there are none left.
func (a *frameAccounting) spend(n int, why string) (reason string) {
	if a.budget -= n; a.budget >= 0 {
		return ""
	}
	now := time.Now()
	if fresh := int(now.Sub(a.refilled).Seconds() * float64(a.limits.ControlRate)); fresh > 0 {
		a.budget = min(a.budget+fresh, a.limits.Control)
		a.refilled = now
	}
	if a.budget < 0 {
		return why
	}
	return ""
}

package filter

import (
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// keep copies b to memory that lasts until the exchange is over, without an
// allocation of its own.
func (x *Exchange) keep(b []byte) string {
	start := len(x.memory.kept)
	x.memory.kept = append(x.memory.kept, b...)
	return normalize.View(x.memory.kept[start:])
}

// respond returns a local response that is made for this request, without headers.
func (x *Exchange) respond(status int, reason string) *LocalResponse {
	x.memory.edits = x.memory.edits[:0]
	x.memory.local = LocalResponse{Status: status, Reason: reason}
	return &x.memory.local
}

// respondRetryAfter returns a local response with Retry-After: whole seconds, and
// one at least.
func (x *Exchange) respondRetryAfter(refusal *retryAfterResponse, wait time.Duration) *LocalResponse {
	seconds := max(1, int64((wait+time.Second-1)/time.Second))
	x.memory.work = strconv.AppendInt(x.memory.work[:0], seconds, 10)
	local := x.respond(refusal.status, refusal.reason)
	// Digits are always a valid value.
	if edit, err := refusal.retryAfter.With(x.keep(x.memory.work)); err == nil {
		x.memory.edits = append(x.memory.edits, edit)
	}
	local.Edits = x.memory.edits
	return local
}

// retryAfterResponse is the pattern of a refusal that is over after a time.
type retryAfterResponse struct {
	status     int
	reason     string
	retryAfter h1.Edit
}

func newRetryAfterResponse(status int, reason string) (retryAfterResponse, error) {
	edit, err := h1.SetField("Retry-After", "1")
	return retryAfterResponse{status: status, reason: reason, retryAfter: edit}, err
}

// soon returns the response with Retry-After of one second.
func (l *retryAfterResponse) soon() *LocalResponse {
	return &LocalResponse{Status: l.status, Reason: l.reason, Edits: []h1.Edit{l.retryAfter}}
}

package filter

import (
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// keep copies b to memory that lasts until the exchange is over.
func (x *Exchange) keep(b []byte) string {
	start := len(x.kept)
	x.kept = append(x.kept, b...)
	return normalize.View(x.kept[start:])
}

// answerWith gives an answer that is made for this request, without headers.
func (x *Exchange) answerWith(status int, reason string) *Answer {
	x.replyEdits = x.replyEdits[:0]
	x.reply = Answer{Status: status, Reason: reason}
	return &x.reply
}

// answerLater gives an answer that tells the client how long to wait: whole
// seconds, and one at least.
func (x *Exchange) answerLater(refusal *later, wait time.Duration) *Answer {
	seconds := max(1, int64((wait+time.Second-1)/time.Second))
	x.work = strconv.AppendInt(x.work[:0], seconds, 10)
	answer := x.answerWith(refusal.status, refusal.reason)
	// Digits are always a valid value.
	if edit, err := refusal.retryAfter.With(x.keep(x.work)); err == nil {
		x.replyEdits = append(x.replyEdits, edit)
	}
	answer.Edits = x.replyEdits
	return answer
}

// later is a refusal that does not last.
type later struct {
	status     int
	reason     string
	retryAfter h1.Edit
}

func newLater(status int, reason string) (later, error) {
	edit, err := h1.SetField("Retry-After", "1")
	return later{status: status, reason: reason, retryAfter: edit}, err
}

// soon is the answer to who may try again in a second.
func (l *later) soon() *Answer {
	return &Answer{Status: l.status, Reason: l.reason, Edits: []h1.Edit{l.retryAfter}}
}

package route

import (
	"fmt"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// Problem is a part of a table that cannot be served as it is written.
type Problem struct {
	Subject Identity
	// Refusal has the subject as its object, in words. Its field is a place in the
	// JSON form: policies[1].rateLimit.period.
	refusal.Refusal
}

// NewProblem returns a problem of a subject.
func NewProblem(subject Identity, field string, reason refusal.Reason, format string, args ...any) Problem {
	object := refusal.Object{Kind: subject.kind(), Name: subject.String()}
	return Problem{Subject: subject, Refusal: refusal.New(field, reason, format, args...).Of(object)}
}

// InvalidError is the error of a table with problems, which is not used.
type InvalidError struct {
	Problems []Problem
}

// Error lists the problems; of very many it lists the first ones.
func (e *InvalidError) Error() string {
	const shown = 20
	var text strings.Builder
	fmt.Fprintf(&text, "the routing table has problems (%d)", len(e.Problems))
	for i, problem := range e.Problems {
		if i == shown {
			fmt.Fprintf(&text, "\n  and %d more", len(e.Problems)-shown)
			break
		}
		text.WriteString("\n  " + problem.String())
	}
	return text.String()
}

// report collects the problems of one subject while its checks walk through
// its fields.
type report struct {
	subject  Identity
	problems []Problem
	// trail is the current place of the walk. It becomes text only for a problem,
	// because tables are large and problems are rare.
	trail []trailStep
}

// trailStep is one field on the way to the current place.
type trailStep struct {
	name  string
	index int // -1 for a field that is not in a list
}

// enter goes into a field, and leave goes back out.
func (r *report) enter(name string) { r.enterItem(name, -1) }

// enterItem goes into an element of a field that is a list.
func (r *report) enterItem(name string, index int) {
	if r.trail == nil {
		r.trail = make([]trailStep, 0, 4) // no policy is deeper, unless it is in a chain
	}
	r.trail = append(r.trail, trailStep{name, index})
}

func (r *report) leave() { r.trail = r.trail[:len(r.trail)-1] }

// addItem reports a problem with an element of a field that is a list.
func (r *report) addItem(field string, index int, reason refusal.Reason, format string, args ...any) {
	r.enterItem(field, index)
	r.add("", reason, format, args...)
	r.leave()
}

// add reports a problem with a field of where the walk is, or with that place
// itself when the field is empty.
func (r *report) add(field string, reason refusal.Reason, format string, args ...any) {
	if field != "" {
		r.enter(field)
		defer r.leave()
	}
	r.problems = append(r.problems, NewProblem(r.subject, trailText(r.trail), reason, "%s", bounded(fmt.Sprintf(format, args...))))
}

// bounded truncates a message: it can quote a value of a hostile object.
func bounded(message string) string { return refusal.Shorten(message, 400) }

// trailText returns a trail as policies[1].rateLimit.period.
func trailText(trail []trailStep) string {
	var text strings.Builder
	for i, step := range trail {
		if i > 0 && step.name != "" {
			text.WriteByte('.')
		}
		text.WriteString(step.name)
		if step.index >= 0 {
			text.WriteString("[" + strconv.Itoa(step.index) + "]")
		}
	}
	return text.String()
}

package resolve

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The bounds of what a refusal says. An Event holds little more, and what an
// object says comes back in messages.
const (
	maxMessage = 800
	maxField   = 300
)

// refuse notes that something of an object is not done. It returns the fault as
// it was noted.
func (r *resolver) refuse(object snapshot.Ref, fault *snapshot.Fault) *snapshot.Fault {
	bounded := &snapshot.Fault{Field: shorten(fault.Field, maxField), Reason: fault.Reason, Message: shorten(fault.Message, maxMessage)}
	refusal := snapshot.Refusal{Object: object, Fault: *bounded}
	if r.noted[refusal] {
		return bounded
	}
	if len(r.resolved.Refusals) >= MaxRefusals {
		r.omitted++
		return bounded
	}
	r.noted[refusal] = true
	r.resolved.Refusals = append(r.resolved.Refusals, refusal)
	return bounded
}

// refuseHere notes that something of the Ingress itself is not done.
func (r *resolver) refuseHere(field string, reason snapshot.Reason, format string, args ...any) *snapshot.Fault {
	return r.refuse(r.resolved.Ingress, &snapshot.Fault{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// closeAll closes every path. The first fault is the one that is told.
func (r *resolver) closeAll(fault *snapshot.Fault) {
	if r.resolved.Closed == nil {
		r.resolved.Closed = fault
	}
}

// reportOmitted adds how much was left out.
func (r *resolver) reportOmitted() {
	if r.omitted > 0 {
		r.resolved.Refusals = append(r.resolved.Refusals, snapshot.Refusal{Object: r.resolved.Ingress, Fault: snapshot.Fault{
			Reason: snapshot.TooLarge, Message: fmt.Sprintf("%d more are refused: repair those that are told first", r.omitted),
		}})
	}
}

// shorten cuts a text at a length and makes it UTF-8.
func shorten(text string, most int) string {
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// quoted shows a value of an object in a message.
func quoted(value string) string { return fmt.Sprintf("%q", shorten(value, 80)) }

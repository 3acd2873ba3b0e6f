package resolve

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The bounds of a refusal's texts. An Event holds little more, and messages quote
// values of objects, which can be long.
const (
	maxMessage = 800
	maxField   = 300
)

// refuse records a refusal, once, and returns its fault with bounded texts. Beyond
// MaxRefusals they are only counted.
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

// refuseHere records a refusal of a field of the Ingress itself.
func (r *resolver) refuseHere(field string, reason snapshot.Reason, format string, args ...any) *snapshot.Fault {
	return r.refuse(r.resolved.Ingress, &snapshot.Fault{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// closeAll closes every path. The first fault is reported in responses.
func (r *resolver) closeAll(fault *snapshot.Fault) {
	if r.resolved.Closed == nil {
		r.resolved.Closed = fault
	}
}

// reportOmitted adds a refusal with the number of those beyond MaxRefusals.
func (r *resolver) reportOmitted() {
	if r.omitted > 0 {
		r.resolved.Refusals = append(r.resolved.Refusals, snapshot.Refusal{Object: r.resolved.Ingress, Fault: snapshot.Fault{
			Reason: snapshot.TooLarge, Message: fmt.Sprintf("%d more refusals are not listed: repair those that are listed first", r.omitted),
		}})
	}
}

// shorten bounds the length of a text and makes it valid UTF-8, which Events
// require.
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

// quoted returns a value of an object for a message.
func quoted(value string) string { return fmt.Sprintf("%q", shorten(value, 80)) }

package resolve

import (
	"fmt"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The bounds of a refusal's texts. An Event holds little more, and messages quote
// values of objects, which can be long.
const (
	maxMessage = 800
	maxField   = 300
)

// refuse records a refusal, once, and returns it with its object and bounded texts. Beyond
// MaxRefusals they are only counted.
func (r *resolver) refuse(object snapshot.Ref, fault *refusal.Refusal) *refusal.Refusal {
	bounded := refusal.Refusal{Object: object.Object(), Field: refusal.Shorten(fault.Field, maxField), Reason: fault.Reason, Message: refusal.Shorten(fault.Message, maxMessage)}
	switch {
	case r.noted[bounded]:
	case len(r.resolved.Refusals) >= MaxRefusals:
		r.omitted++
	default:
		r.noted[bounded] = true
		r.resolved.Refusals = append(r.resolved.Refusals, bounded)
	}
	return &bounded
}

// refuseHere records a refusal of a field of the Ingress itself.
func (r *resolver) refuseHere(field string, reason refusal.Reason, format string, args ...any) *refusal.Refusal {
	return r.refuse(r.resolved.Ingress, refusal.New(field, reason, format, args...))
}

// closeAll closes every path. The first fault is reported in responses.
func (r *resolver) closeAll(fault *refusal.Refusal) {
	if r.resolved.Closed == nil {
		r.resolved.Closed = fault
	}
}

// reportOmitted adds a refusal with the number of those beyond MaxRefusals.
func (r *resolver) reportOmitted() {
	if r.omitted > 0 {
		r.resolved.Refusals = append(r.resolved.Refusals, refusal.New("", refusal.TooLarge,
			"%d more refusals are not listed: repair those that are listed first", r.omitted).Of(r.resolved.Ingress.Object()))
	}
}

// quoted returns a value of an object for a message.
func quoted(value string) string { return fmt.Sprintf("%q", refusal.Shorten(value, 80)) }

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// Lookup names an object of the cluster, as the function lookup of Helm does.
type Lookup = job.Lookup

// maxLookups bounds how many objects of the cluster one render reads.
const maxLookups = 1000

// lookup responds to a request for an object of the cluster. What it responds is a
// part of what the result depends on.
func (t *renderTask) lookup(s *session, payload []byte) *Error {
	var wanted Lookup
	if err := json.Unmarshal(payload, &wanted); err != nil {
		return s.workerDied(err)
	}
	// The worker is untrusted after it has read a template.
	if t.request.Lookup == nil {
		return s.workerDied(errors.New("it looks up an object without the right to"))
	}
	if len(t.lookups) >= maxLookups {
		return s.respond(func(writer *frame.Writer) error {
			return writer.SendJSON(frame.Refused, refusal.New("lookup", refusal.TooMany, "more than %d objects of the cluster are looked up", maxLookups))
		})
	}
	found, err := t.request.Lookup(wanted)
	if err != nil {
		// An object that cannot be read must not look like one that is not there:
		// charts make new passwords then.
		t.lookupErr = err
		return s.respond(func(writer *frame.Writer) error {
			return writer.SendJSON(frame.Refused, refusal.New("lookup", refusal.Unreadable, "it cannot be read"))
		})
	}
	t.lookups[wanted] = lookupDigest(found)
	return s.respond(func(writer *frame.Writer) error {
		if found == nil {
			return writer.Send(frame.Missing, nil)
		}
		return writer.Send(frame.Facts, found)
	})
}

// lookupDigest is equal for equal objects.
func lookupDigest(object []byte) string {
	sum := sha256.Sum256(object)
	return hex.EncodeToString(sum[:])
}

// lookup requests an object of the cluster from the renderer. It is empty if there
// is none, as Helm's is.
func (r *rendering) lookup(wanted job.Lookup) (map[string]any, error) {
	if known, found := r.lookups[wanted]; found {
		return known, nil
	}
	got, err := r.request(frame.Lookup, wanted)
	if err != nil {
		return nil, err
	}
	object := map[string]any{}
	switch got.kind {
	case frame.Missing:
	case frame.Facts:
		if err := utiljson.Unmarshal(got.payload, &object); err != nil {
			return nil, r.broken(err)
		}
	case frame.Refused:
		refused := &refusal.Refusal{}
		if err := json.Unmarshal(got.payload, refused); err != nil {
			return nil, r.broken(err)
		}
		return nil, refused
	default:
		return nil, r.unexpected(got.kind)
	}
	r.lookups[wanted] = object
	return object, nil
}

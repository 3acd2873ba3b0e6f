package annotation

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// maxFaults bounds the faults of one object; later ones are dropped. An object
// may have thousands of annotations.
const maxFaults = 50

// reading is the state of parsing the annotations of one object. It is used
// once and by one goroutine. The readers of keys write into it; the finish
// methods then merge settings that span several keys.
type reading struct {
	ingress Ingress
	service Service
	// filters are by the name of the filter.
	filters map[string]v1alpha1.Filter
	// The two lists of Middlewares have a key each and are concatenated at the
	// end.
	ownMiddlewares     []Name
	traefikMiddlewares []Name
	domains            map[int]*Domain
	cookie             traefikCookie
	hash               *v1alpha1.RequestKey

	// given has the key that set each value, by the address of the value. Two
	// keys for one address are two spellings of one setting.
	given  map[any]place
	faults []refusal.Refusal
	closed bool
}

// read parses the annotations in the order of their names, so that the result does
// not depend on the order of a map.
func (o *object) read(annotations map[string]string) *reading {
	r := &reading{filters: map[string]v1alpha1.Filter{}, domains: map[int]*Domain{}, given: map[any]place{}}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		// Annotations of other programs, such as kubectl's, are skipped.
		if !isOwn(name) && !isTraefik(name) || isDelivery(name) {
			continue
		}
		at := o.find(name)
		if at.key == nil {
			r.stray(o, name)
			continue
		}
		at.key.read(r, at, annotations[name])
	}
	return r
}

// isDelivery reports whether an annotation is for the delivery plane, which reads it
// from objects of any kind.
func isDelivery(name string) bool { return name == "slipway.dev/progress-deadline" }

// stray handles an unknown annotation. It closes the object unless Traefik
// ignores the key too: the author may have meant to restrict requests, and
// serving without the restriction would be worse than 503.
func (r *reading) stray(o *object, name string) {
	other := o.other()
	if misplaced := other.find(name).key; misplaced != nil {
		r.add(refusal.New(fieldOf(name), refusal.Invalid, "it works only on %s: move it there from the %s", other.describe(), o.kind))
		r.closed = r.closed || misplaced.closes && isOwn(name)
		return
	}
	message := "there is no such annotation"
	if near := o.nearest(name); near != "" {
		message += ": did you mean " + near + "?"
	} else if near := other.nearest(name); near != "" {
		message += ": did you mean " + near + ", which goes on " + other.describe() + "?"
	} else {
		message += ": remove it"
	}
	r.add(refusal.New(fieldOf(name), refusal.Invalid, "%s", message))
	// Traefik reads router keys on an Ingress and service keys on a Service; on
	// the other object it ignores them, and so they close nothing.
	lower := strings.ToLower(name)
	r.closed = r.closed || isOwn(name) ||
		strings.HasPrefix(lower, traefikPrefix+"router.") && o.kind == snapshot.Ingress ||
		strings.HasPrefix(lower, traefikPrefix+"service.") && o.kind == snapshot.Service
}

// describe returns the kind with its article.
func (o *object) describe() string {
	if o.kind == snapshot.Ingress {
		return "an Ingress"
	}
	return "a Service"
}

// fault records a fault of a value.
func (r *reading) fault(at place, reason refusal.Reason, format string, args ...any) {
	r.add(refusal.New(at.field(), reason, format, args...))
	r.closed = r.closed || at.key.closes
}

// problems records the problems of a declaration.
func (r *reading) problems(at place, problems []refusal.Refusal) {
	for _, problem := range problems {
		problem.Reason = refusal.Invalid // as for every value of an annotation
		r.add(problem.At(at.field()))
		r.closed = r.closed || at.key.closes
	}
}

// add appends a fault unless the bound is reached. It does not change closed:
// callers set that even for a fault that is dropped.
func (r *reading) add(fault *refusal.Refusal) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, *fault)
	}
}

// give sets a value in the reading. If another key has set a different value,
// neither takes effect: choosing one would depend on the order of names, which
// authors do not control.
func give[T any](r *reading, at place, slot *T, value T) {
	before, twice := r.given[slot]
	if !twice {
		r.given[slot] = at
		*slot = value
		return
	}
	if reflect.DeepEqual(*slot, value) {
		return
	}
	*slot = *new(T)
	r.fault(at, refusal.Conflict, "%s has a different value: keep one of the two", bounded(before.name))
}

// setting returns the reader of a key that sets one value. slot returns the
// address in the reading, which is also the identity for give.
func setting[T any](slot func(*reading) *T, parse func(text string) (T, error)) func(*reading, place, string) {
	return func(r *reading, at place, text string) {
		value, err := parse(strings.TrimSpace(text))
		if err != nil {
			r.fault(at, refusal.Invalid, "%v", err)
			return
		}
		give(r, at, slot(r), value)
	}
}

// unsupported returns the reader of a key that Traefik has and the edge does
// not implement. The value is not read: any value is a fault, with advice.
func unsupported(instead string) func(*reading, place, string) {
	return func(r *reading, at place, _ string) {
		r.fault(at, refusal.Unsupported, "it is not supported: %s", instead)
	}
}

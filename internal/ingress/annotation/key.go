package annotation

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The prefixes of the annotations that have a meaning here.
const (
	ownPrefix     = "slipway.dev/"
	traefikPrefix = "traefik.ingress.kubernetes.io/"
)

// key declares one annotation.
type key struct {
	// name is with the prefix. An element n of a Traefik name is a number.
	name string
	// closes is set when nothing must be served without the annotation.
	closes bool
	// meaning, form, otherwise and example are for people: what it does, how it
	// is written, what is without it.
	meaning   string
	form      string
	otherwise string
	example   string
	// read puts the value into a reading.
	read func(r *reading, at place, value string)
}

// place is where a value is written.
type place struct {
	key *key
	// name is the key as it is written; Traefik's may be in any case.
	name string
	// number is the one in the name, if there is one.
	number int
}

// field is the place for a Fault.
func (p place) field() string { return fieldOf(p.name) }

func fieldOf(name string) string { return "metadata.annotations[" + bounded(name) + "]" }

// object is the kind of object that annotations are on.
type object struct {
	kind snapshot.Kind
	keys []*key
	// byName finds a key by its name; those of Traefik are in lower case.
	byName map[string]*key
}

// objects has the two kinds of objects.
type objects struct{ ingress, service *object }

// declared gives the tables of keys. They are made once and never changed.
var declared = sync.OnceValue(func() objects {
	return objects{
		ingress: newObject(snapshot.Ingress, slices.Concat(ingressKeys(), filterKeys(), traefikRouterKeys())),
		service: newObject(snapshot.Service, slices.Concat(serviceKeys(), traefikServiceKeys())),
	}
})

func newObject(kind snapshot.Kind, keys []*key) *object {
	o := &object{kind: kind, keys: keys, byName: make(map[string]*key, len(keys))}
	for _, k := range keys {
		o.byName[k.name] = k
	}
	return o
}

// other is the object that is not this one.
func (o *object) other() *object {
	if both := declared(); o.kind == both.ingress.kind {
		return both.service
	}
	return declared().ingress
}

// find gives the key of an annotation, nil when the object has none of that
// name.
func (o *object) find(name string) place {
	lookup, number := name, 0
	if isTraefik(name) {
		lookup, number = withoutNumber(strings.ToLower(name))
	}
	return place{key: o.byName[lookup], name: name, number: number}
}

// withoutNumber puts n in place of the number in the name of a domain.
func withoutNumber(name string) (string, int) {
	const domains = traefikPrefix + "router.tls.domains."
	rest, found := strings.CutPrefix(name, domains)
	if !found {
		return name, 0
	}
	digits, rest, _ := strings.Cut(rest, ".")
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || strconv.FormatUint(number, 10) != digits {
		return name, 0
	}
	return domains + "n." + rest, int(number)
}

// isTraefik reports whether an annotation is one of Traefik's. Their names are
// compared without regard to case.
func isTraefik(name string) bool {
	return len(name) >= len(traefikPrefix) && strings.EqualFold(name[:len(traefikPrefix)], traefikPrefix)
}

func isOwn(name string) bool { return strings.HasPrefix(name, ownPrefix) }

// nearest gives the known key that is meant by one that is not, or nothing.
func (o *object) nearest(name string) string {
	prefix := ownPrefix
	if isTraefik(name) {
		prefix = traefikPrefix
	}
	var known []string
	for _, k := range o.keys {
		if rest, found := strings.CutPrefix(k.name, prefix); found {
			known = append(known, rest)
		}
	}
	if near := declare.Nearest(name[len(prefix):], known); near != "" {
		return prefix + near
	}
	return ""
}

// bounded keeps what somebody wrote short in a message.
func bounded(text string) string {
	const most = 120
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

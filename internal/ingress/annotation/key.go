package annotation

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The prefixes of the annotations that are parsed.
const (
	ownPrefix     = "slipway.dev/"
	traefikPrefix = "traefik.ingress.kubernetes.io/"
)

// key declares one annotation.
type key struct {
	// name is with the prefix. An element n of a Traefik name is a number.
	name string
	// closes is set if a fault closes the object.
	closes bool
	// meaning, form, otherwise and example are for the reference: what it does,
	// its format and its default.
	meaning   string
	form      string
	otherwise string
	example   string
	// read parses the value into a reading.
	read func(r *reading, at place, value string)
}

// place is the annotation of a value.
type place struct {
	key *key
	// name is the key as it is written; Traefik's may be in any case.
	name string
	// number is the number in the name, if any.
	number int
}

// field returns the field for a Fault.
func (p place) field() string { return fieldOf(p.name) }

func fieldOf(name string) string { return "metadata.annotations[" + bounded(name) + "]" }

// object is a kind of object with annotations.
type object struct {
	kind snapshot.Kind
	keys []*key
	// byName finds a key by its name; those of Traefik are in lower case.
	byName map[string]*key
}

// objects has the two kinds of objects.
type objects struct{ ingress, service *object }

// declared returns the tables of keys. They are built once and immutable.
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

// other returns the other kind of object, for advice about misplaced keys.
func (o *object) other() *object {
	if both := declared(); o.kind == both.ingress.kind {
		return both.service
	}
	return declared().ingress
}

// find returns the key of an annotation, nil if the object has none of that name.
func (o *object) find(name string) place {
	lookup, number := name, 0
	if isTraefik(name) {
		lookup, number = withoutNumber(strings.ToLower(name))
	}
	return place{key: o.byName[lookup], name: name, number: number}
}

// withoutNumber replaces the number in the name of a domain by n.
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

// nearest returns the known key that is most similar to an unknown one, or nothing.
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

// bounded truncates a value for a message.
func bounded(text string) string {
	const most = 120
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

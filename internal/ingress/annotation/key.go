package annotation

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The prefixes of the annotations that are parsed.
const (
	ownPrefix     = "slipway.dev/"
	traefikPrefix = "traefik.ingress.kubernetes.io/"
)

// key declares one annotation.
type key struct {
	// name is the key with its prefix. In names of Traefik the element n stands
	// for a number.
	name string
	// closes is set if the object must not be served without the setting, for
	// example because it restricts access. A fault then closes the object.
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
	// name is the key as written, which messages show; Traefik's keys may be in
	// any case.
	name string
	// number is the number in the name, if any.
	number int
}

// field returns the field for a Refusal.
func (p place) field() string { return fieldOf(p.name) }

// fieldOf returns the field path of an annotation. Names are user input and so
// truncated.
func fieldOf(name string) string { return "metadata.annotations[" + bounded(name) + "]" }

// object is a kind of object with annotations.
type object struct {
	kind snapshot.Kind
	keys []*key
	// byName finds a key by its name; those of Traefik are in lower case.
	byName map[string]*key
}

// objects holds the tables of both kinds. They refer to each other for advice
// about misplaced keys.
type objects struct{ ingress, service *object }

// declared returns the tables of keys. They are built once and immutable.
// Building them uses reflection, so it waits for the first use.
var declared = sync.OnceValue(func() objects {
	return objects{
		ingress: newObject(snapshot.Ingress, slices.Concat(ingressKeys(), filterKeys(), traefikRouterKeys())),
		service: newObject(snapshot.Service, slices.Concat(serviceKeys(), traefikServiceKeys())),
	}
})

// newObject indexes the keys of one kind of object.
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

// withoutNumber replaces the number in router.tls.domains.N by n, and returns
// it. Numbers with leading zeros are no match: 1 and 01 would otherwise be the
// same domain under two keys.
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

// isOwn reports whether an annotation is one of ours. Unlike Traefik's, our
// keys are case-sensitive.
func isOwn(name string) bool { return strings.HasPrefix(name, ownPrefix) }

// nearest returns the known key that is most similar to an unknown one, or the
// empty string. It compares without the prefix, which would make every pair of
// keys look similar.
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
func bounded(text string) string { return refusal.Shorten(text, 120) }

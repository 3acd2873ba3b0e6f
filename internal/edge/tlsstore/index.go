package tlsstore

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
)

// Input is everything that an index is built from.
type Input struct {
	// Certificates may hold one object several times, with different hosts.
	Certificates []Certificate
	// Default is shown to clients that name no host, or one without a
	// certificate. Its names are not checked. Nil means the store's own
	// self-signed one.
	Default *Certificate
	// Options are the options of hosts; the others have DefaultOptions.
	Options        []HostOptions
	DefaultOptions Options
	// Owners assigns hosts and wildcards to namespaces. For such a host the
	// certificates and options of other namespaces are refused. A host that is
	// not listed is open to all.
	Owners map[string]string
	// Now is the time at which certificates are reported as expired; zero means
	// the present. Handshakes use the clock of the store.
	Now time.Time
}

// entry has the certificates and options of a name or of a wildcard.
type entry struct {
	all     []candidate // those of all objects, best first
	certs   []candidate // the same without copies
	options *optionSet  // nil when it has none of its own
	from    ID          // the object that gave the options
	owner   string
	owned   bool
}

// object has what one Kubernetes object contributes to the index, so that it
// can be removed.
type object struct {
	pairs []*pair // one for each time it was given; the first is its own
	hosts []pattern
}

// sharedPair is a certificate and how many objects hold it.
type sharedPair struct {
	*pair
	uses int
}

// Index is the certificates and options of one moment. It never changes.
type Index struct {
	exact shards[string, *entry]
	wild  shards[string, *entry] // by the name below the star

	pairs   shards[digest, sharedPair]
	objects shards[ID, *object]

	// sets are the distinct options; 0 are the base options, which are always
	// safe to make a handshake with.
	sets           []*optionSet
	setByID        map[OptionsID]*optionSet
	defaultOptions *optionSet // of hosts without options
	defaultPair    *pair      // the default certificate; nil means the store's own
	defaultID      ID

	// optionProblems are those of options, and those of certificates by object.
	optionProblems      []Problem
	certificateProblems map[ID][]Problem
	// nextValidityChange is when the next certificate becomes valid or expires,
	// in Unix seconds. After that, problems have to be reported again, by
	// Build.
	nextValidityChange int64
	parsed             int
}

func newIndex() *Index {
	return &Index{
		exact:              newShards[string, *entry](maphash.String),
		wild:               newShards[string, *entry](maphash.String),
		pairs:              newShards[digest, sharedPair](maphash.Comparable[digest]),
		objects:            newShards[ID, *object](maphash.Comparable[ID]),
		setByID:            make(map[OptionsID]*optionSet),
		nextValidityChange: math.MaxInt64,
	}
}

// Build makes an index. Certificates that previous already has are not parsed
// again, and an object that has become unreadable keeps its last good
// certificate. previous may be nil and is not kept.
//
// The index is complete and can be served, even with problems: each of them
// affects only its own object. A rule whose options are refused here must not
// be served either.
func Build(in Input, previous *Index) (*Index, []Problem) {
	if previous == nil {
		previous = newIndex()
	}
	b := newBuilder(newIndex(), previous, in.Now)
	b.addOwners(in.Owners)
	b.addOptions(&in)
	for i := range in.Certificates {
		b.addCertificate(&in.Certificates[i])
	}
	if in.Default != nil {
		b.out.defaultPair, b.out.defaultID = b.pairOf(in.Default), in.Default.ID
	}
	return b.finish()
}

// Certificates lists what the index can serve, by identity.
func (ix *Index) Certificates() []CertificateInfo {
	var list []CertificateInfo
	ix.objects.each(func(id ID, o *object) { list = append(list, o.pairs[0].info(id)) })
	slices.SortFunc(list, func(a, b CertificateInfo) int { return a.ID.Compare(b.ID) })
	return list
}

// find looks up a canonical name and the wildcard above it, without an
// allocation.
func (ix *Index) find(name []byte) (exact, wild *entry) {
	exact = lookupName(&ix.exact, name)
	if dot := bytes.IndexByte(name, '.'); dot >= 0 {
		wild = lookupName(&ix.wild, name[dot+1:])
	}
	return exact, wild
}

func lookupName(names *shards[string, *entry], name []byte) *entry {
	return names.part(maphash.Bytes(names.seed, name))[string(name)]
}

// optionsOf chooses the options of a name: its own, those of the wildcard above
// it, the default ones.
func (ix *Index) optionsOf(exact, wild *entry) *optionSet {
	if exact != nil && exact.options != nil {
		return exact.options
	}
	if wild != nil && wild.options != nil {
		return wild.options
	}
	return ix.defaultOptions
}

func (b *builder) addOwners(owners map[string]string) {
	for host, owner := range owners {
		// A host that is no DNS name cannot be requested, so it needs no owner.
		if p, ok := parsePattern(host); ok {
			e := b.entry(p)
			e.owner, e.owned = owner, true
		}
	}
}

// mayUse reports whether certificates and options of a namespace may be used
// for a host.
func (e *entry) mayUse(owner string) bool {
	return !e.owned || owner == "" || owner == e.owner
}

// addCertificate indexes one certificate under the hosts it may be used for.
func (b *builder) addCertificate(c *Certificate) {
	p := b.pairOf(c)
	if p == nil {
		return
	}
	hosts := p.names
	if len(c.Hosts) > 0 {
		hosts = b.coveredHosts(c, p)
	} else if len(hosts) == 0 {
		b.report(c.ID, refusal.New("", ReasonNoNames, "the certificate has no DNS names, so it is used for no host; issue it with the hosts as subject alternative names"), false)
	}
	for _, host := range hosts {
		e := b.entry(host)
		if !e.mayUse(c.Owner) {
			b.report(c.ID, refusal.New(host.String(), ReasonHostOwned, "host %q belongs to namespace %q; the certificate is not used for it", host, e.owner), false)
			continue
		}
		e.all = append(e.all, candidate{pair: p, id: c.ID, owner: c.Owner})
		o := b.objects.get(c.ID)
		o.hosts = append(o.hosts, host)
	}
}

// coveredHosts are the hosts of a certificate that it is made for.
func (b *builder) coveredHosts(c *Certificate, p *pair) []pattern {
	hosts := make([]pattern, 0, len(c.Hosts))
	for _, text := range c.Hosts {
		host, ok := parsePattern(text)
		switch {
		case !ok:
			b.report(c.ID, refusal.New(text, ReasonBadHost, "host %q is no DNS name and no wildcard such as *.example.com; correct it", text), false)
		case !p.covers(host):
			b.report(c.ID, refusal.New(host.String(), ReasonNotCovered, "the certificate is not made for host %q, only for %s; the default certificate is shown instead", host, listNames(p.names)), false)
		default:
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// listNames shows the first names of a certificate.
func listNames(names []pattern) string {
	const shown = 5
	if len(names) == 0 {
		return "no DNS name"
	}
	texts := make([]string, 0, shown)
	for _, name := range names[:min(shown, len(names))] {
		texts = append(texts, name.String())
	}
	if more := len(names) - len(texts); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts, ", "), more)
	}
	return strings.Join(texts, ", ")
}

// pairOf returns the parsed certificate: one that was parsed before, a new one,
// or the object's last good one. It is nil when there is none.
func (b *builder) pairOf(c *Certificate) *pair {
	sum := b.digester.sum(c.CertPEM, c.KeyPEM.Reveal())
	p := b.pairs.get(sum).pair
	if p == nil {
		p = b.previous.pairs.get(sum).pair
	}
	if p == nil {
		b.out.parsed++
		var refused *refusal.Refusal
		if p, refused = parsePair(*c, sum); refused != nil {
			last := b.previous.objects.get(c.ID)
			if last == nil {
				b.report(c.ID, refused, false)
				return nil
			}
			p = last.pairs[0]
			refused.Message += ". Its last good certificate is still served"
			b.report(c.ID, refused, true)
		}
	}
	b.pairs.set(p.digest, sharedPair{p, b.pairs.get(p.digest).uses + 1})
	if o := b.objects.get(c.ID); o != nil {
		o.pairs = append(o.pairs, p)
		return p
	}
	b.objects.set(c.ID, &object{pairs: []*pair{p}})
	b.reportValidity(c.ID, p)
	return p
}

func (b *builder) reportValidity(id ID, p *pair) {
	now := b.now.Unix()
	switch {
	case now > p.notAfter:
		b.report(id, refusal.New("", ReasonExpired, "the certificate expired on %s; renew it", p.info(id).NotAfter.Format(time.RFC3339)), true)
	case now < p.notBefore:
		b.out.nextValidityChange = min(b.out.nextValidityChange, p.notBefore)
		b.report(id, refusal.New("", ReasonNotYetValid, "the certificate is not valid before %s; wait, or check the clock", p.info(id).NotBefore.Format(time.RFC3339)), true)
	default:
		b.out.nextValidityChange = min(b.out.nextValidityChange, p.notAfter+1)
	}
}

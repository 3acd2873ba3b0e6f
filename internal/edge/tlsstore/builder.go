package tlsstore

import (
	"maps"
	"slices"
	"time"

	"slipway.dev/slipway/api/refusal"
)

// builder makes one index: a new one, or a changed copy of another.
type builder struct {
	previous *Index // parsed certificates are reused from it
	now      time.Time
	digester *digester
	out      *Index

	exact, wild *shardsEdit[string, *entry]
	pairs       *shardsEdit[digest, sharedPair]
	objects     *shardsEdit[ID, *object]
	// fresh are the entries that are not shared with another index.
	fresh map[pattern]*entry
}

// newBuilder starts with the content of out. A zero time means the present.
func newBuilder(out, previous *Index, now time.Time) *builder {
	if now.IsZero() {
		now = time.Now()
	}
	return &builder{
		previous: previous, now: now, digester: newDigester(), out: out,
		exact: out.exact.edit(), wild: out.wild.edit(), pairs: out.pairs.edit(), objects: out.objects.edit(),
		fresh: map[pattern]*entry{},
	}
}

// finish returns the index, with all its problems.
func (b *builder) finish() (*Index, []Problem) {
	for host, e := range b.fresh {
		if len(e.all) == 0 && e.options == nil && !e.owned {
			b.names(host).delete(host.name)
			continue
		}
		slices.SortFunc(e.all, compareCandidates)
		e.certs = e.all
		if len(e.all) > 1 {
			e.certs = slices.CompactFunc(slices.Clone(e.all), sameCandidate)
		}
	}
	b.out.exact, b.out.wild = b.exact.shards, b.wild.shards
	b.out.pairs, b.out.objects = b.pairs.shards, b.objects.shards
	problems := slices.Clone(b.out.optionProblems)
	for _, those := range b.out.certificateProblems {
		problems = append(problems, those...)
	}
	// Every replica reports them in the same order.
	slices.SortFunc(problems, func(a, b Problem) int { return a.Compare(b.Refusal) })
	return b.out, problems
}

// report adds a problem of a certificate. The field is the host, empty for the
// whole certificate; served is set if its hosts are served nevertheless.
func (b *builder) report(id ID, refused *refusal.Refusal, served bool) {
	if b.out.certificateProblems == nil {
		b.out.certificateProblems = map[ID][]Problem{}
	}
	problem := Problem{Refusal: refused.Of(id.object(KindCertificate)), Served: served}
	b.out.certificateProblems[id] = append(b.out.certificateProblems[id], problem)
}

// reportOptions is report for TLS options. None of their problems leaves a host
// served.
func (b *builder) reportOptions(id ID, refused *refusal.Refusal) {
	b.out.optionProblems = append(b.out.optionProblems, Problem{Refusal: refused.Of(id.object(KindOptions))})
}

func (b *builder) names(p pattern) *shardsEdit[string, *entry] {
	if p.wild {
		return b.wild
	}
	return b.exact
}

// entry returns the entry of a host, copied if another index shares it.
func (b *builder) entry(host pattern) *entry {
	if e := b.fresh[host]; e != nil {
		return e
	}
	e := &entry{}
	if shared := b.names(host).get(host.name); shared != nil {
		*e = *shared
		e.all = slices.Clone(shared.all)
	}
	b.names(host).set(host.name, e)
	b.fresh[host] = e
	return e
}

// remove removes the certificates of an object.
func (b *builder) remove(id ID) {
	o := b.objects.get(id)
	delete(b.out.certificateProblems, id)
	if o == nil {
		return
	}
	for _, host := range o.hosts {
		e := b.entry(host)
		e.all = slices.DeleteFunc(e.all, func(c candidate) bool { return c.id == id })
	}
	for _, p := range o.pairs {
		shared := b.pairs.get(p.digest)
		shared.uses--
		if shared.uses > 0 {
			b.pairs.set(p.digest, shared)
		} else {
			b.pairs.delete(p.digest)
		}
	}
	b.objects.delete(id)
}

// CertificateChange is a change of certificates, each with its hosts.
type CertificateChange struct {
	// Set are those of objects that are new, or not as they were.
	Set []Certificate
	// Removed are objects that are gone.
	Removed []ID
	// Now is the moment as in [Input].
	Now time.Time
}

// Change makes an index with other certificates from this one. The result is
// that of [Build] with all certificates, and the cost follows the change. It
// reports false where that is not possible, and the caller has to build: when
// the default certificate is among them, and when another one has become valid
// or has expired since.
func (ix *Index) Change(change CertificateChange) (*Index, []Problem, bool) {
	next := *ix
	next.parsed = 0
	next.certificateProblems = maps.Clone(ix.certificateProblems)
	b := newBuilder(&next, ix, change.Now)
	if b.now.Unix() >= ix.nextValidityChange {
		return nil, nil, false
	}
	ids := slices.Clone(change.Removed)
	for i := range change.Set {
		ids = append(ids, change.Set[i].ID)
	}
	for _, id := range ids {
		if ix.defaultPair != nil && id == ix.defaultID {
			return nil, nil, false
		}
		b.remove(id)
	}
	for i := range change.Set {
		b.addCertificate(&change.Set[i])
	}
	index, problems := b.finish()
	return index, problems, true
}

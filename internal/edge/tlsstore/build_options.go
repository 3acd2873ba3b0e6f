package tlsstore

import (
	"slices"

	"slipway.dev/slipway/api/refusal"
)

// addOptions validates all options and assigns them to their hosts.
func (b *builder) addOptions(in *Input) {
	base, _ := b.setOf(Options{})
	b.out.defaultOptions = base
	if set, err := b.setOf(in.DefaultOptions); err != nil {
		b.out.defaultOptions = b.refusedSet()
		b.reportOptions(ID{Name: "default"}, refusal.New("", ReasonBadOptions, "%s. Hosts without options of their own are not served", err))
	} else {
		b.out.defaultOptions = set
	}
	// The order of the input must not decide which object a conflict is
	// reported for.
	sorted := slices.Clone(in.Options)
	slices.SortStableFunc(sorted, func(a, b HostOptions) int { return a.ID.Compare(b.ID) })
	for i := range sorted {
		b.addHostOptions(&sorted[i])
	}
}

func (b *builder) addHostOptions(o *HostOptions) {
	set, err := b.setOf(o.Options)
	if err != nil {
		set = b.refusedSet()
		b.reportOptions(o.ID, refusal.New("", ReasonBadOptions, "%s. Its hosts are not served", err))
	}
	for _, text := range o.Hosts {
		host, ok := parsePattern(text)
		if !ok {
			b.reportOptions(o.ID, refusal.New(text, ReasonBadHost, "host %q is no DNS name and no wildcard such as *.example.com; correct it", text))
			continue
		}
		e := b.entry(host)
		if !e.mayUse(o.Owner) {
			b.reportOptions(o.ID, refusal.New(host.String(), ReasonHostOwned, "host %q belongs to namespace %q; the options are not used for it", host, e.owner))
			continue
		}
		b.setHostOptions(e, host, o.ID, set)
	}
}

// setHostOptions assigns options to a host. Two that differ are a conflict, and
// the host is not served: choosing one of them would drop the conditions of the
// other.
func (b *builder) setHostOptions(e *entry, host pattern, from ID, set *optionSet) {
	switch {
	case e.options == nil:
		e.options, e.from = set, from
	case set.refused:
		e.options = set
	case !e.options.refused && e.options != set:
		e.options = b.refusedSet()
		b.reportOptions(from, refusal.New(host.String(), ReasonConflict, "host %q has other TLS options from %s; give both the same. The host is not served until then", host, e.from))
	}
}

// setOf returns one set for equal options, and reuses that of the previous
// index.
func (b *builder) setOf(o Options) (*optionSet, error) {
	o = o.withDefaults()
	id := o.identify(b.digester)
	if set := b.out.setByID[id]; set != nil {
		return set, nil
	}
	var set *optionSet
	if old := b.previous.setByID[id]; old != nil {
		kept := *old
		set = &kept
	} else {
		var err error
		if set, err = newOptionSet(o, id); err != nil {
			return nil, err
		}
	}
	set.number = len(b.out.sets)
	b.out.sets = append(b.out.sets, set)
	b.out.setByID[id] = set
	return set, nil
}

// refusedSet stands for options that are invalid. It has the number of the base
// options: a handshake for such a host is made with those, so that the client
// gets a 503 and not a broken handshake.
func (b *builder) refusedSet() *optionSet {
	refused := *b.out.sets[0]
	refused.refused = true
	return &refused
}

package route

import "slipway.dev/slipway/api/refusal"

// references are the identities that the elements of a table can refer to.
type references struct {
	entryPoints  map[string]bool
	backends     map[BackendID]bool
	certificates map[CertificateID]bool
	authorities  map[AuthorityID]bool
	// trail is used again for each report; there are many of them.
	trail []trailStep
}

// newReferences indexes a table once for all of its elements.
func newReferences(t *Table) *references {
	refs := &references{
		entryPoints:  make(map[string]bool, len(t.EntryPoints)),
		backends:     make(map[BackendID]bool, len(t.Backends)),
		certificates: make(map[CertificateID]bool, len(t.Certificates)),
		authorities:  make(map[AuthorityID]bool, len(t.Authorities)),
	}
	for _, name := range t.EntryPoints {
		refs.entryPoints[name] = true
	}
	for _, backend := range t.Backends {
		refs.backends[backend.ID] = true
	}
	for _, certificate := range t.Certificates {
		refs.certificates[certificate.ID] = true
	}
	for _, authority := range t.Authorities {
		refs.authorities[authority.ID] = true
	}
	return refs
}

// checkRule reports entry points and backends that are not in the table.
func (refs *references) checkRule(rule *Rule) []Problem {
	r := report{subject: rule.ID, trail: refs.trail[:0]}
	defer func() { refs.trail = r.trail }()
	rule.check(&r)
	refs.checkEntryPoints(&r, rule.EntryPoints)
	refs.checkBackendRefs(&r, rule.Backends)
	refs.checkPolicies(&r, rule.Policies, MaxChainDepth)
	return r.problems
}

// checkTCPRoute is checkRule for TCP routes.
func (refs *references) checkTCPRoute(tcp *TCPRoute) []Problem {
	r := report{subject: tcp.ID}
	tcp.check(&r)
	refs.checkEntryPoints(&r, tcp.EntryPoints)
	refs.checkBackendRefs(&r, tcp.Backends)
	return r.problems
}

// checkBackend reports authorities and client certificates that are missing. The
// backend must not be used without them.
func (refs *references) checkBackend(backend *Backend) []Problem {
	r := report{subject: backend.ID}
	backend.check(&r)
	if tls := backend.Transport.TLS; tls != nil {
		r.enter("transport")
		r.enter("tls")
		if tls.Authority != (AuthorityID{}) && !refs.authorities[tls.Authority] {
			r.add("authority", refusal.Unknown, "the table has no authority %s", tls.Authority)
		}
		if tls.Certificate != (CertificateID{}) && !refs.certificates[tls.Certificate] {
			r.add("certificate", refusal.Unknown, "the table has no certificate %s", tls.Certificate)
		}
		r.leave()
		r.leave()
	}
	return r.problems
}

// checkTLSOptions reports missing authorities of clients.
func (refs *references) checkTLSOptions(options *TLSOptions) []Problem {
	r := report{subject: options.ID}
	options.check(&r)
	for i, id := range options.ClientAuthorities {
		if !refs.authorities[id] {
			r.addItem("clientAuthorities", i, refusal.Unknown, "the table has no authority %s", id)
		}
	}
	return r.problems
}

// checkEntryPoints accepts any name while the table has none: the edge fills them
// in from its options.
func (refs *references) checkEntryPoints(r *report, names []string) {
	for i, name := range names {
		if !refs.entryPoints[name] {
			r.addItem("entryPoints", i, refusal.Unknown, "there is no entry point %q; name one of the edge's options", name)
		}
	}
}

func (refs *references) checkBackendRefs(r *report, list []BackendRef) {
	for i := range list {
		if list[i].Status != 0 {
			continue
		}
		r.enterItem("backends", i)
		refs.checkBackendID(r, list[i].Backend)
		r.leave()
	}
}

func (refs *references) checkBackendID(r *report, id BackendID) {
	if !refs.backends[id] {
		r.add("backend", refusal.Unknown, "the table has no backend %s", id)
	}
}

// checkPolicies checks the backends of policies, those in chains included.
func (refs *references) checkPolicies(r *report, policies []Policy, depth int) {
	for i := range policies {
		name, action := policies[i].Named()
		r.enterItem("policies", i)
		r.enter(name)
		switch action := action.(type) {
		case *ErrorPages:
			refs.checkBackendID(r, action.Backend)
		case *Mirror:
			refs.checkBackendID(r, action.Backend)
		case *ForwardAuth:
			refs.checkBackendID(r, action.Backend)
		case *Chain:
			if depth > 0 {
				refs.checkPolicies(r, action.Policies, depth-1)
			}
		}
		r.leave()
		r.leave()
	}
}

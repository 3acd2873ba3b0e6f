package route

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Encode writes the table as JSON, with its secrets: it is for the file that only
// the edge can read. To show a table, use json.Marshal, which redacts them. Tables
// with the same elements have the same encoding, in any order of their lists.
func Encode(w io.Writer, t *Table) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(t.forWriting()); err != nil {
		return fmt.Errorf("write the routing table: %w", err)
	}
	return nil
}

// forWriting copies the table, sorted, with its secrets revealed. Values without
// secrets are shared with the original.
func (t *Table) forWriting() *Table {
	written := t.withoutHoles()
	slices.Sort(written.EntryPoints)
	slices.SortFunc(written.Listeners, func(a, b *Listener) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(written.Rules, func(a, b *Rule) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(written.TCPRoutes, func(a, b *TCPRoute) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(written.Backends, func(a, b *Backend) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(written.Certificates, func(a, b *Certificate) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(written.Authorities, func(a, b *Authority) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(written.TLSOptions, func(a, b *TLSOptions) int { return a.ID.Compare(b.ID) })
	for i, rule := range written.Rules {
		if len(rule.Policies) > 0 {
			shown := *rule
			shown.Policies = policiesForWriting(rule.Policies)
			written.Rules[i] = &shown
		}
	}
	for i, tcp := range written.TCPRoutes {
		if len(tcp.Policies) > 0 {
			shown := *tcp
			shown.Policies = policiesForWriting(tcp.Policies)
			written.TCPRoutes[i] = &shown
		}
	}
	for i, certificate := range written.Certificates {
		shown := *certificate
		shown.Key = certificate.Key.forWriting()
		written.Certificates[i] = &shown
	}
	return written
}

// policiesForWriting copies a list of policies only if it has secrets.
func policiesForWriting(policies []Policy) []Policy {
	written := slices.Clone(policies)
	for i := range written {
		p := &written[i]
		if p.BasicAuth != nil {
			shown := *p.BasicAuth
			shown.Users = shown.Users.forWriting()
			p.BasicAuth = &shown
		}
		if p.Chain != nil {
			p.Chain = &Chain{Policies: policiesForWriting(p.Chain.Policies)}
		}
	}
	return written
}

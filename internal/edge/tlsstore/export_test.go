package tlsstore

import "crypto/tls"

// Pairs is how many certificates the index holds.
func (ix *Index) Pairs() int {
	count := 0
	ix.pairs.each(func(digest, sharedPair) { count++ })
	return count
}

// Parsed is the number of certificates that had to be parsed to make the index.
func (ix *Index) Parsed() int { return ix.parsed }

// CanonicalPattern is [CanonicalName] for names and for wildcards of one label
// such as *.example.com.
func CanonicalPattern(s string) (string, bool) {
	p, ok := parsePattern(s)
	if !ok {
		return "", false
	}
	return p.String(), true
}

// HostOptionsInfo is what a proxy may need of a host's options.
type HostOptionsInfo struct {
	ID         OptionsID
	ClientAuth tls.ClientAuthType
	// Refused is set if the options are invalid: the host responds with 503.
	Refused bool
}

// OptionsFor returns the options of a host. host is a Host header or an
// :authority, with or without a port. It is false when that cannot be read;
// such a request must not be served.
func (s *Store) OptionsFor(host string) (HostOptionsInfo, bool) {
	set, ok := s.selectOptions(host)
	if !ok {
		return HostOptionsInfo{}, false
	}
	return HostOptionsInfo{ID: set.id, ClientAuth: set.options.ClientAuth, Refused: set.refused}, true
}

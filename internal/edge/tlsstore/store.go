package tlsstore

import (
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a store needs besides certificates. The zero value is usable.
type Config struct {
	// Now is the clock for validity and for the rotation of ticket keys; nil
	// means time.Now.
	Now func() time.Time
	// Challenge returns the certificate for an ACME TLS-ALPN-01 challenge of a
	// canonical name, nil when there is none. It is called only when a client
	// offers the protocol acme-tls/1 and no other. It must be quick: it runs
	// inside the handshake. Nil means that challenges are refused.
	Challenge func(name string) *tls.Certificate
}

// Store serves handshakes from an index that can be swapped at any time. Its
// methods may be called from any goroutine.
type Store struct {
	now        func() time.Time
	challenge  func(name string) *tls.Certificate
	selfSigned *pair       // shown when there is no default certificate
	reject     *tls.Config // ends a handshake with unrecognized_name

	live     atomic.Pointer[liveIndex]
	rotateAt atomic.Int64 // when the next ticket key is due, Unix nanoseconds

	mu      sync.Mutex // guards what follows, for Swap and the ticket keys
	ring    ticketRing
	configs map[OptionsID]*tls.Config
}

// liveIndex is an index with the config of each of its option sets.
type liveIndex struct {
	*Index
	configs []*tls.Config // by optionSet.number
}

// New makes a store that serves an empty index: every client gets the
// self-signed certificate that is made here.
func New(config Config) (*Store, error) {
	s := &Store{
		now:       config.Now,
		challenge: config.Challenge,
		// Without a certificate crypto/tls sends unrecognized_name; an error
		// from GetConfigForClient would send internal_error.
		reject:  &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true},
		configs: make(map[OptionsID]*tls.Config),
	}
	if s.now == nil {
		s.now = time.Now
	}
	own, err := selfSigned(s.now())
	if err != nil {
		return nil, fmt.Errorf("make the self-signed default certificate: %w", err)
	}
	s.selfSigned = own
	s.ring.rotate(s.now())
	s.rotateAt.Store(s.now().Add(ticketPeriod).UnixNano())
	empty, _ := Build(Input{Now: s.now()}, nil)
	s.Swap(empty)
	return s, nil
}

// Index returns the index that is being served, for the next [Build].
func (s *Store) Index() *Index { return s.live.Load().Index }

// Swap serves another index from the next handshake on. Connections that are
// open stay as they are; [Store.Verdict] judges them by the new index.
func (s *Store) Swap(ix *Index) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[OptionsID]*tls.Config, len(ix.sets))
	live := &liveIndex{Index: ix, configs: make([]*tls.Config, len(ix.sets))}
	for i, set := range ix.sets {
		config := s.configs[set.id]
		if config == nil {
			config = s.newConfig(set)
			s.ring.install(config, set.id)
		}
		live.configs[i], kept[set.id] = config, config
	}
	s.configs = kept
	s.live.Store(live)
}

// newConfig makes the config of an option set. It does not belong to one index:
// it finds its certificates in the one that is live.
func (s *Store) newConfig(set *optionSet) *tls.Config {
	return &tls.Config{
		Time:           s.now,
		MinVersion:     set.options.MinVersion,
		MaxVersion:     set.options.MaxVersion,
		CipherSuites:   set.options.CipherSuites,
		ClientAuth:     set.options.ClientAuth,
		ClientCAs:      set.pool,
		NextProtos:     set.options.ALPN,
		GetCertificate: s.getCertificate,
	}
}

// ServerConfig is the config for a TLS server. It decides nothing itself: every
// handshake goes through GetConfigForClient.
func (s *Store) ServerConfig() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{protoHTTP2, protoHTTP11},
		GetConfigForClient: s.GetConfigForClient,
	}
}

// GetConfigForClient is the one entry of all handshakes, over TCP and QUIC. It
// always returns a config, and records the options in the context's
// [Handshake].
func (s *Store) GetConfigForClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	s.rotateTickets(s.now())
	live := s.live.Load()
	var buf nameBuf
	n, _ := canonical(&buf, hello.ServerName)
	name := buf[:n]
	if wantsChallenge(hello) {
		return s.challengeConfig(hello, string(name)), nil
	}
	exact, wild := live.find(name)
	set := live.optionsOf(exact, wild)
	if h := HandshakeFrom(hello.Context()); h != nil {
		h.record(handshakeFacts{options: set.id, name: string(name)})
	}
	// The check is here and not only in getCertificate, which is not called
	// when a session is resumed.
	if set.options.SNIStrict {
		if first, _ := peekCandidates(exact, wild); first == nil {
			return s.reject, nil
		}
	}
	return live.configs[set.number], nil
}

// getCertificate chooses by the live index. It can be a newer one than the
// options were chosen from; each of the two choices is valid by itself.
func (s *Store) getCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	live := s.live.Load()
	var buf nameBuf
	n, _ := canonical(&buf, hello.ServerName)
	exact, wild := live.find(buf[:n])
	p := choose(hello, exact, wild, s.now().Unix())
	if p == nil {
		p = live.defaultPair
	}
	if p == nil {
		p = s.selfSigned
	}
	return &p.certificate, nil
}

func wantsChallenge(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == protoACME
}

// challengeConfig returns the config for one ACME challenge. The handshake is
// marked so that no request is ever served on the connection.
func (s *Store) challengeConfig(hello *tls.ClientHelloInfo, name string) *tls.Config {
	HandshakeFrom(hello.Context()).record(handshakeFacts{name: name, challenge: true})
	if s.challenge == nil || name == "" {
		return s.reject
	}
	certificate := s.challenge(name)
	if certificate == nil {
		return s.reject
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		NextProtos:             []string{protoACME},
		Certificates:           []tls.Certificate{*certificate},
		SessionTicketsDisabled: true,
	}
}

// PlaintextAllowed reports whether a host may be served without TLS. It may not
// when its options ask for client certificates, are refused, or when the host
// cannot be read.
func (s *Store) PlaintextAllowed(host string) bool {
	set, ok := s.selectOptions(host)
	return ok && !set.refused && set.options.ClientAuth == tls.NoClientCert
}

// selectOptions chooses options for a request as GetConfigForClient chooses
// them for SNI.
func (s *Store) selectOptions(host string) (*optionSet, bool) {
	live := s.live.Load()
	name, kind := splitAuthority(host)
	switch kind {
	case authorityBad:
		return nil, false
	case authorityNoName:
		return live.defaultOptions, true
	}
	var buf nameBuf
	n, flaw := canonical(&buf, name)
	switch {
	case flaw == nameInvalid:
		return nil, false
	case flaw == nameNumeric:
		return live.defaultOptions, true
	case kind == authorityPattern:
		return live.optionsOf(nil, lookupName(&live.wild, buf[:n])), true
	}
	return live.optionsOf(live.find(buf[:n])), true
}

package edge

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"unique"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/route"
)

// openListener is an open listener of the table.
type openListener struct {
	*point
	source *route.Listener
}

// openListeners are the open listeners of the table.
type openListeners struct {
	byID map[route.ListenerID]*openListener
	// own are the addresses of entry points and listeners for connections, in no order. They
	// are kept, because a change of one of thousands must not cost a visit of all.
	own []netip.AddrPort
}

func (o *openListeners) add(open *openListener) {
	o.byID[open.source.ID] = open
	o.own = append(o.own, open.source.Address)
}

func (o *openListeners) remove(open *openListener) {
	delete(o.byID, open.source.ID)
	if i := slices.Index(o.own, open.source.Address); i >= 0 {
		last := len(o.own) - 1
		o.own[i], o.own = o.own[last], o.own[:last]
	}
}

// changeListeners opens, changes and closes the listeners of a change. Others are not
// touched, and a new certificate does not touch the connections of its listener
// either. The rules of the change are live before: the first request of a new
// listener finds them. The caller holds mu.
func (s *Server) changeListeners(change *route.Change) {
	s.unopened = nil
	for _, id := range change.Listeners.Removed {
		s.closeListener(id)
		s.closeRelay(id)
	}
	// Addresses that become free are closed before others are opened there.
	wanted := slices.Concat(change.Listeners.Added, change.Listeners.Changed)
	for _, source := range wanted {
		if open := s.listeners.byID[source.ID]; open != nil && !open.serves(source) {
			s.closeListener(source.ID)
		}
		if open := s.relays[source.ID]; open != nil && open.address != source.Address {
			s.closeRelay(source.ID)
		}
	}
	for _, source := range wanted {
		if open := s.listeners.byID[source.ID]; open != nil {
			open.source = source
			open.setCertificates()
			open.hosts.Set(source.Hosts)
			continue
		}
		if err := s.openListener(source); err != nil {
			s.unopened = append(s.unopened, route.NewProblem(source.ID, "address", refusal.Invalid, "%s", err))
		}
	}
	if !change.Certificates.Empty() || !change.Authorities.Empty() {
		s.renewCertificates(change)
	}
	if !change.Listeners.Empty() {
		// A copy, because requests read it. Nothing else here follows the number of listeners.
		s.upstreams.SetOwn(slices.Clone(s.listeners.own))
	}
}

// serves reports whether the socket of an open listener can be that of its next
// version.
func (l *openListener) serves(next *route.Listener) bool {
	return l.source.Address == next.Address && l.source.TLS == next.TLS && l.source.Raw == next.Raw
}

// openListener opens a listener. It takes connections at once, or with Run.
func (s *Server) openListener(source *route.Listener) error {
	if s.draining {
		return nil
	}
	if s.options.Listener.Name == "" {
		return errors.New("the edge has no listeners besides its entry points; enable providers.kubernetesGateway")
	}
	if source.ID.UDP {
		return s.openRelay(source)
	}
	options := s.options.Listener
	options.Address, options.TLS = source.Address.String(), source.TLS
	var certificates *tlsstore.Store
	if source.TLS {
		var err error
		if certificates, err = tlsstore.New(tlsstore.Config{}); err != nil {
			return fmt.Errorf("make the default certificate: %w", err)
		}
	}
	p, err := s.newPoint(options, certificates)
	if err != nil {
		return err
	}
	p.id = unique.Make(source.ID)
	if p.raw = source.Raw; p.raw {
		kind := tcpPlain
		if source.TLS {
			kind = tcpTLS
		}
		p.tcp.Store(kind)
	}
	open := &openListener{point: p, source: source}
	open.setCertificates()
	open.hosts.Set(source.Hosts)
	s.listeners.add(open)
	s.options.Log.Info("listener opened", "listener", source.ID.String(), "address", options.Address)
	if s.running {
		s.serving.Go(p.accept)
	}
	return nil
}

// closeListener closes a listener. Its socket is free afterwards; its connections
// end after their current exchange, beside.
func (s *Server) closeListener(id route.ListenerID) {
	open := s.listeners.byID[id]
	if open == nil {
		return
	}
	s.listeners.remove(open)
	_ = open.listener.Close()
	s.options.Log.Info("listener closed", "listener", id.String(), "address", open.Address)
	if s.running {
		s.serving.Go(open.drain)
	}
}

// setCertificates makes the next handshakes use the certificates of the listener.
// The first is also for names without a certificate of their own.
func (l *openListener) setCertificates() {
	if l.certificates == nil {
		return
	}
	in := tlsstore.Input{DefaultOptions: l.options()}
	for _, use := range l.source.Certificates {
		certificate := l.server.book.Certificate(use.Certificate)
		if certificate == nil {
			continue
		}
		served := tlsstore.Certificate{ID: tlsstore.ID(certificate.ID), CertPEM: certificate.Chain, KeyPEM: certificate.Key.Text}
		if in.Default == nil || use.Host == "" {
			in.Default = &served
		}
		if use.Host != "" {
			served.Hosts = []string{use.Host}
			in.Certificates = append(in.Certificates, served)
		}
	}
	index, _ := tlsstore.Build(in, l.certificates.Index())
	l.certificates.Swap(index)
}

// options returns the conditions of all handshakes of the listener.
func (l *openListener) options() tlsstore.Options {
	bundles := map[route.AuthorityID]string{}
	for _, id := range l.source.ClientAuthorities {
		if authority := l.server.book.Authority(id); authority != nil {
			bundles[id] = authority.Bundle
		}
	}
	return tlsOptions(&route.TLSOptions{ClientAuth: l.source.ClientAuth, ClientAuthorities: l.source.ClientAuthorities}, bundles)
}

// renewCertificates updates the listeners with certificates or authorities of a change.
func (s *Server) renewCertificates(change *route.Change) {
	authorities := map[route.AuthorityID]bool{}
	for _, authority := range slices.Concat(change.Authorities.Added, change.Authorities.Changed) {
		authorities[authority.ID] = true
	}
	changed := map[route.CertificateID]bool{}
	for _, certificate := range slices.Concat(change.Certificates.Added, change.Certificates.Changed) {
		changed[certificate.ID] = true
	}
	for _, open := range s.listeners.byID {
		if slices.ContainsFunc(open.source.Certificates, func(use route.ListenerCertificate) bool { return changed[use.Certificate] }) ||
			slices.ContainsFunc(open.source.ClientAuthorities, func(id route.AuthorityID) bool { return authorities[id] }) {
			open.setCertificates()
		}
	}
}

// runListeners lets the listeners take connections, from now on as soon as they are
// opened.
func (s *Server) runListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
	for _, open := range s.listeners.byID {
		s.serving.Go(open.accept)
	}
	for _, open := range s.relays {
		s.serving.Go(open.relay.Serve)
	}
	for i := range s.datagrams {
		s.serving.Go(s.datagrams[i].relay.Serve)
	}
}

// drainListeners returns the open listeners; no further one is opened.
func (s *Server) drainListeners() []*point {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	var points []*point
	for _, id := range slices.SortedFunc(maps.Keys(s.listeners.byID), route.ListenerID.Compare) {
		points = append(points, s.listeners.byID[id].point)
	}
	return points
}

package edge

import (
	"net/netip"
	"unique"

	"slipway.dev/slipway/internal/edge/datagram"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/route"
)

// openRelay is an open listener of the table for UDP.
type openRelay struct {
	address netip.AddrPort
	relay   *datagram.Relay
}

// openRelay opens a listener for UDP. It takes datagrams at once, or with Run. A change
// of its routes does not touch it: each new flow looks its route up. An open one stays
// as it is. The caller holds mu.
func (s *Server) openRelay(source *route.Listener) error {
	if s.relays[source.ID] != nil {
		return nil
	}
	listener := unique.Make(source.ID)
	lookup := func() program.TCPResult {
		return s.proxy.Program().LookupTCP(&program.TCPRequest{Listener: listener})
	}
	relay, err := datagram.Listen(datagram.Config{
		Address: source.Address, Full: s.options.Metrics.relayHook(s.options.Listener.Name),
		Connect: func(client netip.AddrPort) (datagram.Backend, error) {
			flow, err := s.proxy.ConnectUDP(client, s.options.Listener.Name, lookup)
			if err != nil {
				return nil, err
			}
			return flow, nil
		},
	})
	if err != nil {
		return err
	}
	s.relays[source.ID] = &openRelay{source.Address, relay}
	s.options.Log.Info("listener opened", "listener", source.ID.String(), "address", source.Address.String())
	if s.running {
		s.serving.Go(relay.Serve)
	}
	return nil
}

// closeRelay closes a listener for UDP with its flows.
func (s *Server) closeRelay(id route.ListenerID) {
	open := s.relays[id]
	if open == nil {
		return
	}
	delete(s.relays, id)
	open.relay.Close()
	s.options.Log.Info("listener closed", "listener", id.String(), "address", open.address.String())
}

// closeRelays closes all listeners for UDP. A flow has no end that could be waited for.
func (s *Server) closeRelays() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.relays {
		s.closeRelay(id)
	}
}

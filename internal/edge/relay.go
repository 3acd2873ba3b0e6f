package edge

import (
	"net"
	"net/netip"
	"time"
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
	relay, err := s.relay(source.Address, s.options.Listener.Name, 0, &program.TCPRequest{Listener: unique.Make(source.ID)})
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

// datagramPoint is an open entry point for UDP.
type datagramPoint struct {
	EntryPoint
	relay *datagram.Relay
}

// openDatagrams opens an entry point for UDP. Datagrams wait in the buffer of its socket
// until Run.
func (s *Server) openDatagrams(options EntryPoint) error {
	address, err := net.ResolveUDPAddr("udp", options.Address)
	if err != nil {
		return openError(options.Name, err)
	}
	relay, err := s.relay(address.AddrPort(), options.Name, options.FlowTimeout, &program.TCPRequest{EntryPoint: options.Name})
	if err != nil {
		return openError(options.Name, err)
	}
	s.datagrams = append(s.datagrams, datagramPoint{options, relay})
	return nil
}

// relay opens a socket whose datagrams go by the route that is found for a request.
func (s *Server) relay(address netip.AddrPort, name string, idle time.Duration, request *program.TCPRequest) (*datagram.Relay, error) {
	lookup := func() program.TCPResult { return s.proxy.Program().LookupTCP(request) }
	return datagram.Listen(datagram.Config{
		Address: address, IdleTimeout: idle, Full: s.options.Metrics.relayHook(name),
		Connect: func(client netip.AddrPort) (datagram.Backend, error) {
			flow, err := s.proxy.ConnectUDP(client, name, lookup)
			if err != nil {
				return nil, err
			}
			return flow, nil
		},
	})
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

// closeRelays closes all listeners and entry points for UDP. A flow has no end that could be waited for.
func (s *Server) closeRelays() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.relays {
		s.closeRelay(id)
	}
	for i := range s.datagrams {
		s.datagrams[i].relay.Close()
	}
}

package outbound

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"sync"
)

// Proxies has the proxies that a transport has chosen. They are connected to
// wherever they are, because operators configure them.
type Proxies struct {
	mu    sync.Mutex
	known map[string]bool // by host and port
}

// Choose returns a function for [http.Transport.Proxy] that remembers what another
// one chooses.
func (p *Proxies) Choose(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		chosen, err := choose(r)
		if err == nil && chosen != nil {
			port := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[chosen.Scheme]
			p.add(net.JoinHostPort(chosen.Hostname(), cmp.Or(chosen.Port(), port)))
		}
		return chosen, err
	}
}

func (p *Proxies) add(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[string]bool{}
	}
	p.known[address] = true
}

// Has reports whether an address, before it is resolved, is that of a proxy.
func (p *Proxies) Has(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[address]
}

// Apply makes a transport connect with the dialer, to proxies and where the policy
// allows it.
func (p *Policy) Apply(transport *http.Transport, dialer net.Dialer) {
	proxies := &Proxies{}
	if transport.Proxy != nil {
		transport.Proxy = proxies.Choose(transport.Proxy)
	}
	checked := p.Dialer(dialer)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if proxies.Has(address) {
			return dialer.DialContext(ctx, network, address)
		}
		return checked.DialContext(ctx, network, address)
	}
}

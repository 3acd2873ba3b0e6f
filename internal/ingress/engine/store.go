package engine

import (
	"reflect"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/route"
)

// replaceStore replaces the certificates of a TLSStore. Hosts that routes have are recomputed
// later in the pass.
func (e *Engine) replaceStore(before, after *resolve.CertificateStore) {
	if reflect.DeepEqual(before, after) {
		return
	}
	for host := range e.tls.setStore(before, after) {
		if e.hosts[host] != nil {
			e.state.hosts[host] = struct{}{}
		} else {
			e.tls.setHost(host, nil, nil)
		}
	}
}

// setStore replaces the certificates that are for hosts without others, and the default one.
// It returns the hosts that may change.
func (t *tlsRegistry) setStore(before, after *resolve.CertificateStore) map[string]struct{} {
	changed := map[string]struct{}{}
	if before != nil {
		for _, use := range before.Certificates {
			for _, host := range use.Hosts {
				delete(t.stored, host)
				changed[host] = struct{}{}
			}
		}
		if before.Default != nil {
			t.certificate(before.Default).fallback = false
		}
	}
	if after == nil {
		return changed
	}
	for _, use := range after.Certificates {
		for _, host := range use.Hosts {
			t.stored[host] = append(t.stored[host], use.Certificate)
			changed[host] = struct{}{}
		}
	}
	if after.Default != nil {
		shared := t.certificate(after.Default)
		shared.fallback, shared.source = true, after.Default
	}
	return changed
}

// certificatesOf returns those that are served for a host: its own, or those of the store.
func (t *tlsRegistry) certificatesOf(host string, own []*route.Certificate) []*route.Certificate {
	if len(own) > 0 {
		return own
	}
	return t.stored[host]
}

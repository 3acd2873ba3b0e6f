package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// probe sends the requests of the load to a proxy and checks the full response:
// a proxy that returns wrong responses quickly must not win.
type probe struct {
	scenario scenario
	site     *site
	client   *http.Client
	close    func() error // of what the client uses
}

// newProbe returns a probe that speaks only the protocol of the scenario and
// dials the proxy for every host. It keeps no connection open between checks.
func newProbe(sc scenario, s *site) *probe {
	if sc.proto == http3Proto {
		transport := newHTTP3(s)
		return &probe{scenario: sc, site: s, client: &http.Client{Transport: transport, Timeout: 5 * time.Second}, close: transport.Close}
	}
	// With one protocol enabled, a proxy that does not negotiate it fails the
	// probe instead of falling back.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(sc.proto != "HTTP/2.0")
	protocols.SetHTTP2(sc.proto == "HTTP/2.0")
	transport := &http.Transport{
		Protocols:         protocols,
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.address)
		},
	}
	if s.tls != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: s.tls.trust}
	}
	return &probe{scenario: sc, site: s, client: &http.Client{Transport: transport, Timeout: 5 * time.Second}, close: func() error { return nil }}
}

// check fails until the proxy serves the first and the last of its routes and
// forwards the client's address and scheme to the backend. The last route shows
// that a large table has been loaded completely.
func (p *probe) check(ctx context.Context) error {
	defer p.close()
	for _, key := range []routeKey{p.site.routes[0], p.site.routes[len(p.site.routes)-1]} {
		body, err := p.get(ctx, key.host, p.scenario.path(key))
		if err != nil {
			return err
		}
		if len(body) != p.scenario.body {
			return fmt.Errorf("%s%s has %d bytes, not %d", key.host, p.scenario.path(key), len(body), p.scenario.body)
		}
	}
	if p.scenario.routes > 0 {
		return nil // the backend serves this path at its root only
	}
	body, err := p.get(ctx, p.site.routes[0].host, "/"+seenName)
	if err != nil {
		return err
	}
	if want := "127.0.0.1 " + p.site.scheme(); string(body) != want {
		return fmt.Errorf("the backend got the client address %q, not %q", body, want)
	}
	return nil
}

// get requests a path and fails on any status but 200 and on another protocol
// version. The body is bounded to one byte more than the largest that is valid,
// which suffices to detect a longer one.
func (p *probe) get(ctx context.Context, host, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.site.scheme()+"://"+host+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, hugeBody+1))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || response.Proto != p.scenario.proto {
		return nil, fmt.Errorf("%s%s responds with %s %d, not %s 200", host, path, response.Proto, response.StatusCode, p.scenario.proto)
	}
	return body, nil
}

package remote

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"slipway.dev/slipway/internal/gitops/source/address"
)

// Addresses are classified by who can reach them.
func TestReachOf(t *testing.T) {
	for text, want := range map[string]reach{
		"93.184.216.34": fromEverywhere, "2606:2800:220:1::1": fromEverywhere, "64:ff9b::5db8:d822": fromEverywhere,
		"10.0.0.1": fromNetwork, "172.16.3.4": fromNetwork, "192.168.1.1": fromNetwork, "100.64.0.1": fromNetwork, "fd00::1": fromNetwork, "::ffff:10.0.0.1": fromNetwork,
		"127.0.0.1": fromMachine, "::1": fromMachine, "169.254.169.254": fromMachine, "fe80::1": fromMachine, "0.0.0.0": fromMachine, "::": fromMachine,
		"::ffff:169.254.169.254": fromMachine, "64:ff9b::a9fe:a9fe": fromMachine, "224.0.0.1": fromMachine,
	} {
		if got := reachOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
	}
}

// A server leads to addresses that are as public as its own, or more.
func TestGuard(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for home, allowed := range map[string]bool{
		"https://192.0.2.1": false, "https://10.0.0.1": false, "https://127.0.0.1": true, "http://" + listener.Addr().String(): true, "https://no-such-host.invalid": false,
	} {
		parsed, err := address.Parse(home + "/charts")
		if err != nil {
			t.Fatal(err)
		}
		g := &guard{home: parsed}
		connection, err := g.dial(t.Context(), "tcp", listener.Addr().String())
		if err == nil {
			_ = connection.Close()
		}
		var refused *Failure
		if (err == nil) != allowed || err != nil && (!errors.As(err, &refused) || refused.Reason != Denied) {
			t.Errorf("%s leads to loopback: %v", home, err)
		}
		// A proxy is dialled wherever it is.
		_, _ = g.proxies.Choose(func(*http.Request) (*url.URL, error) {
			return &url.URL{Scheme: "http", Host: listener.Addr().String()}, nil
		})(nil)
		if connection, err = g.dial(t.Context(), "tcp", listener.Addr().String()); err != nil {
			t.Errorf("%s has a proxy: %v", home, err)
		} else {
			_ = connection.Close()
		}
	}
}

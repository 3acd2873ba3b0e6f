package controller

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/observe/sharedtls"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/secret"
)

// allNetworks trusts every peer, for forwardedHeaders.insecure. Both families
// are needed: a prefix matches addresses of its own family only.
var allNetworks = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// sharedSecret reads the secret that all replicas share, or returns an empty
// one without a file. With it TLS sessions resume on every replica, and sticky
// cookies cannot be guessed.
func sharedSecret(path string) (secret.Text, error) {
	if path == "" {
		return secret.Text{}, nil
	}
	text, err := sharedtls.ReadSecret(path)
	if err == nil && len(text) < edge.MinSharedSecret {
		err = fmt.Errorf("%s has fewer than %d bytes; make it with: head -c 32 /dev/urandom | base64", path, edge.MinSharedSecret)
	}
	if err != nil {
		return secret.Text{}, fmt.Errorf("shared.secretFile: %w", err)
	}
	return secret.New(string(text)), nil
}

// entryPoints converts the entry points of validated options, sorted by name,
// so that logs and metrics have a stable order.
func entryPoints(options *config.Edge) ([]edge.EntryPoint, error) {
	var points []edge.EntryPoint
	for _, name := range slices.Sorted(maps.Keys(options.EntryPoints)) {
		point, err := entryPoint(options, name)
		if err != nil {
			return nil, fmt.Errorf("entryPoints.%s: %w", name, err)
		}
		points = append(points, point)
	}
	return points, nil
}

// entryPoint converts one entry point. Limits that are not configured keep the
// safe defaults of edge.DefaultEntryPoint.
func entryPoint(options *config.Edge, name string) (edge.EntryPoint, error) {
	given := options.EntryPoints[name]
	address, udp := given.Listen()
	if g := options.Providers.KubernetesGateway; g != nil && g.Gateway != "" {
		// The Pods of a Gateway serve nothing else. Its listeners have ports of their own.
		_, port, _ := net.SplitHostPort(address)
		address = net.JoinHostPort("127.0.0.1", port)
	}
	point := edge.DefaultEntryPoint(name, address)
	point.UDP, point.FlowTimeout = udp, time.Duration(given.UDP.Timeout)
	point.ReusePort = given.ReusePort
	point.TLS = given.HTTP.TLS
	if given.HTTP3 != nil {
		point.HTTP3 = true
		point.AdvertisedPort = uint16(given.HTTP3.AdvertisedPort)
	}
	// The networks were validated with the options; an error here is a defect.
	var err error
	if point.ProxyTrusted, err = config.ParseNetworks(given.ProxyProtocol.TrustedIPs); err != nil {
		return point, err
	}
	point.ProxyOptional = given.ProxyProtocol.Optional
	if point.ForwardTrusted, err = config.ParseNetworks(given.ForwardedHeaders.TrustedIPs); err != nil {
		return point, err
	}
	// insecure wins over a list of trusted networks.
	if given.ForwardedHeaders.Insecure {
		point.ForwardTrusted = allNetworks
	}
	point.MaxStreams = given.HTTP2.MaxConcurrentStreams
	point.Limits.HeadBytes = given.HTTP.MaxHeaderBytes
	point.Limits.Fields = given.HTTP.MaxHeaders
	point.Limits.Hazards = hazards(given.HTTP.EncodedCharacters)
	point.Limits.Underscores = given.HTTP.AllowUnderscores
	point.Limits.Upgrades = strings.ToLower(strings.Join(given.HTTP.UpgradeProtocols, ","))
	point.MaxConns = given.Transport.MaxConnections
	point.MaxConnsPerSource = given.Transport.MaxConnectionsPerSource
	point.MaxBan = time.Duration(given.Transport.MaxHold)
	times := given.Transport.RespondingTimeouts
	point.Timeouts.Head = time.Duration(times.HeaderTimeout)
	point.Timeouts.Body = time.Duration(times.ReadTimeout)
	point.Timeouts.Write = time.Duration(times.WriteTimeout)
	point.Timeouts.Idle = time.Duration(times.IdleTimeout)
	point.AcceptGrace = time.Duration(given.Transport.LifeCycle.RequestAcceptGraceTimeout)
	point.DrainTimeout = time.Duration(given.Transport.LifeCycle.GraceTimeOut)
	// The redirect needs the address of another entry point, hence all options.
	point.Redirect, err = redirect(options, given.HTTP.Redirections.EntryPoint)
	return point, err
}

// gatewayPoint returns the limits of the listeners of Gateways. They drain as long as
// the entry points, whose stop is that of the process too.
func gatewayPoint(points []edge.EntryPoint) edge.EntryPoint {
	listener := edge.DefaultEntryPoint(gatewayEntryPoint, "")
	for i := range points {
		if i == 0 {
			listener.AcceptGrace, listener.DrainTimeout = 0, 0
		}
		listener.AcceptGrace = max(listener.AcceptGrace, points[i].AcceptGrace)
		listener.DrainTimeout = max(listener.DrainTimeout, points[i].DrainTimeout)
	}
	return listener
}

// hazards converts the path encodings that an entry point lets through; all are
// refused by default, because backends disagree about their meaning.
func hazards(given config.EncodedCharacters) (allowed normalize.Hazard) {
	for _, c := range []struct {
		allow  bool
		hazard normalize.Hazard
	}{
		{given.AllowEncodedSlash, normalize.EncodedSlash},
		{given.AllowEncodedBackSlash, normalize.Backslash},
		{given.AllowEncodedNullCharacter, normalize.EncodedNull},
		{given.AllowEncodedSemicolon, normalize.Semicolon},
		{given.AllowEncodedHash, normalize.EncodedHash},
		{given.AllowBadEscapes, normalize.BadEscape},
	} {
		if c.allow {
			allowed |= c.hazard
		}
	}
	return allowed
}

// redirect converts the redirection of an entry point, nil without one. The
// target is another entry point, whose port is used, or a port itself.
func redirect(options *config.Edge, given config.RedirectEntryPoint) (*edge.Redirect, error) {
	if given.To == "" {
		return nil, nil
	}
	address := given.To
	if !strings.HasPrefix(address, ":") {
		target := options.EntryPoints[given.To]
		address, _ = target.Listen()
	}
	// The host part is dropped: clients keep the host that they requested.
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, err
	}
	return &edge.Redirect{
		Scheme: route.Scheme(given.Scheme), Port: uint16(port), Permanent: given.Permanent, Priority: int32(given.Priority),
	}, nil
}

package controller

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/secret"
)

// everybody is who is trusted without a list.
var allNetworks = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// maxSecretFile bounds what is read of a file with a secret.
const maxSecretFile = 4 << 10

// sharedSecret reads the secret that all replicas have, none without a file.
func sharedSecret(path string) (secret.Text, error) {
	if path == "" {
		return secret.Text{}, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return secret.Text{}, fmt.Errorf("shared.secretFile: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecretFile))
	text = bytes.TrimSpace(text)
	if err == nil && len(text) < edge.MinSharedSecret {
		err = fmt.Errorf("%s has fewer than %d bytes; make it with: head -c 32 /dev/urandom | base64", path, edge.MinSharedSecret)
	}
	if err != nil {
		return secret.Text{}, fmt.Errorf("shared.secretFile: %w", err)
	}
	return secret.New(string(text)), nil
}

// entryPoints are those of the options, in the order of their names. The
// options are valid.
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

func entryPoint(options *config.Edge, name string) (edge.EntryPoint, error) {
	given := options.EntryPoints[name]
	point := edge.DefaultEntryPoint(name, given.Address)
	point.ReusePort = given.ReusePort
	point.TLS = given.HTTP.TLS
	if given.HTTP3 != nil {
		point.HTTP3 = true
		point.AdvertisedPort = uint16(given.HTTP3.AdvertisedPort)
	}
	var err error
	if point.ProxyTrusted, err = config.ParseNetworks(given.ProxyProtocol.TrustedIPs); err != nil {
		return point, err
	}
	point.ProxyOptional = given.ProxyProtocol.Optional
	if point.ForwardTrusted, err = config.ParseNetworks(given.ForwardedHeaders.TrustedIPs); err != nil {
		return point, err
	}
	if given.ForwardedHeaders.Insecure {
		point.ForwardTrusted = allNetworks
	}
	point.MaxStreams = given.HTTP2.MaxConcurrentStreams
	point.Limits.HeadBytes = given.HTTP.MaxHeaderBytes
	point.Limits.Fields = given.HTTP.MaxHeaders
	point.Limits.Hazards = hazards(given.HTTP.EncodedCharacters)
	point.Limits.Underscores = given.HTTP.AllowUnderscores
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
	point.Redirect, err = redirect(options, given.HTTP.Redirections.EntryPoint)
	return point, err
}

// hazards are the spellings of paths that an entry point lets through.
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

// redirect is where an entry point sends its clients, nil when it does not.
func redirect(options *config.Edge, given config.RedirectEntryPoint) (*edge.Redirect, error) {
	if given.To == "" {
		return nil, nil
	}
	address := given.To
	if !strings.HasPrefix(address, ":") {
		address = options.EntryPoints[given.To].Address
	}
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

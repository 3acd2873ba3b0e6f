package preflight

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/wire"
)

// checkEgress is P27: the platform, its tunnel endpoint, the image registries
// and the Git server are reachable from where the program runs. In a Pod that
// is the cluster's network; elsewhere it is only a hint.
func checkEgress(ctx context.Context, in *CheckContext, out *Report) {
	checked := false
	if in.Platform != nil {
		checked = true
		in.reachPlatform(ctx, out)
	}
	// A registry may be mirrored, so an unreachable one is only a warning.
	for _, registry := range in.Registries {
		checked = true
		in.reachRegistry(ctx, registry, out)
	}
	if repository, err := wire.ParseSharedRepository(in.Git.Repository); err == nil {
		checked = true
		in.reachGit(ctx, repository, out)
	}
	if !checked {
		out.skip("no platform, registry or repository is given")
	}
}

// firewall returns the fix for a blocked connection.
func (in *CheckContext) firewall(what string) string {
	fix := "let the nodes of the cluster reach " + what + ", or give the runtime a proxy (global.httpsProxy)"
	if in.provider().ID == GKE {
		fix += ":\n" + firewallCommands()
	}
	return fix
}

// reachPlatform checks the platform and, in tunnel mode, its tunnel endpoint.
func (in *CheckContext) reachPlatform(ctx context.Context, out *Report) {
	// The URL was given by the user and may be malformed.
	base, err := url.Parse(in.Platform.URL)
	if err != nil {
		out.fail("platform", "its URL cannot be read", "write https://HOST")
		return
	}
	client := in.verifyingClient(cmp.Or(in.Platform.Roots, in.Roots))
	defer client.CloseIdleConnections()
	out.inspect("GET %s", base)
	if _, err := get(ctx, client, base.String(), nil); err != nil {
		out.fail(base.Host, "the platform is unreachable: "+describeError(err), in.firewall(base.Host))
		return
	}
	// Other modes need only ordinary requests to the platform.
	if in.requestedMode() != mode.Tunnel {
		return
	}
	// Proxies that pass ordinary requests may still block WebSockets.
	tunnel := base.JoinPath(wire.TunnelPath)
	out.inspect("a WebSocket at %s", tunnel)
	response, err := get(ctx, client, tunnel.String(), upgradeHeader())
	switch {
	case err != nil:
		out.fail(base.Host, "a tunnel cannot be opened: "+describeError(err), in.firewall(base.Host))
	case response.StatusCode == http.StatusSwitchingProtocols, response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		// Without a token the hub rejects the request, which shows that it
		// was reached.
	default:
		out.warn(base.Host, fmt.Sprintf("the tunnel endpoint responds with %s: a proxy may block WebSockets", response.Status),
			"allow WebSockets (Upgrade) in the proxies between, or use --mode ingress")
	}
}

// reachRegistry checks the base endpoint of the OCI distribution API.
func (in *CheckContext) reachRegistry(ctx context.Context, registry string, out *Report) {
	// Any response shows that the registry is reachable, also 401.
	target := &url.URL{Scheme: "https", Host: registry, Path: "/v2/"}
	out.inspect("GET %s", target)
	client := in.verifyingClient(in.Roots)
	defer client.CloseIdleConnections()
	if _, err := get(ctx, client, target.String(), nil); err != nil {
		out.warn(registry, "the image registry is unreachable: "+describeError(err), in.firewall(registry)+"; or mirror the images: slipway images mirror --to REGISTRY")
	}
}

// reachGit checks the port of the Git server.
func (in *CheckContext) reachGit(ctx context.Context, repository wire.SharedRepository, out *Report) {
	address, err := gitprovider.ParseAddress(repository.RepoURL)
	if err != nil {
		return // reported by P25
	}
	port := "443"
	switch {
	case address.SSH:
		port = "22"
	case address.Plain:
		port = "80"
	}
	port = cmp.Or(address.Port, port)
	out.inspect("a TCP connection to %s:%s", address.Host, port)
	conn, err := in.connect(ctx, address.Host, port)
	if err != nil {
		out.fail(address.Host, "the Git server accepts no connection: "+describeError(err), in.firewall(address.Host))
		return
	}
	_ = conn.Close() // only the connection matters
}

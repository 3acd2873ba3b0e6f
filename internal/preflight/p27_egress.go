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

// checkEgress is P27: the platform, the entry of its tunnels, the registries of the
// images and the Git server answer. It is asked from where the program runs: in a
// Pod that is what the cluster reaches, elsewhere it is a hint.
func checkEgress(ctx context.Context, in *Inquiry, out *Report) {
	asked := false
	if in.Platform != nil {
		asked = true
		in.reachPlatform(ctx, out)
	}
	for _, registry := range in.Registries {
		asked = true
		in.reachRegistry(ctx, registry, out)
	}
	if repository, err := wire.ParseSharedRepository(in.Git.Repository); err == nil {
		asked = true
		in.reachGit(ctx, repository, out)
	}
	if !asked {
		out.skip("no platform, registry or repository is given")
	}
}

// firewall is what to do about a way that is closed.
func (in *Inquiry) firewall(what string) string {
	fix := "let the nodes of the cluster reach " + what + ", or give the runtime a proxy (global.httpsProxy)"
	if in.provider().ID == GKE {
		fix += ":\n" + firewallCommands()
	}
	return fix
}

func (in *Inquiry) reachPlatform(ctx context.Context, out *Report) {
	base, err := url.Parse(in.Platform.URL)
	if err != nil {
		out.fail("platform", "its URL cannot be read", "write https://HOST")
		return
	}
	client := in.caller(cmp.Or(in.Platform.Roots, in.Roots))
	defer client.CloseIdleConnections()
	out.look("GET %s", base)
	if _, err := visit(ctx, client, base.String(), nil); err != nil {
		out.fail(base.Host, "the platform is not reached: "+why(err), in.firewall(base.Host))
		return
	}
	if in.asked() != mode.Tunnel {
		return
	}
	tunnel := base.JoinPath(wire.TunnelPath)
	out.look("a WebSocket at %s", tunnel)
	answer, err := visit(ctx, client, tunnel.String(), upgradeHeader())
	switch {
	case err != nil:
		out.fail(base.Host, "a tunnel cannot be opened: "+why(err), in.firewall(base.Host))
	case answer.StatusCode == http.StatusSwitchingProtocols, answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		// It was asked without a token: the refusal is the hub's.
	default:
		out.warn(base.Host, fmt.Sprintf("the entry of the tunnels answers %s: something on the way may not let WebSockets through", answer.Status),
			"allow WebSockets (Upgrade) in the proxies between, or use --mode ingress")
	}
}

func (in *Inquiry) reachRegistry(ctx context.Context, registry string, out *Report) {
	target := &url.URL{Scheme: "https", Host: registry, Path: "/v2/"}
	out.look("GET %s", target)
	client := in.caller(in.Roots)
	defer client.CloseIdleConnections()
	if _, err := visit(ctx, client, target.String(), nil); err != nil {
		out.warn(registry, "the registry of images is not reached: "+why(err), in.firewall(registry)+"; or mirror the images: slipway images mirror")
	}
}

func (in *Inquiry) reachGit(ctx context.Context, repository wire.SharedRepository, out *Report) {
	address, err := gitprovider.ParseAddress(repository.RepoURL)
	if err != nil {
		return // P25 tells
	}
	port := "443"
	switch {
	case address.SSH:
		port = "22"
	case address.Plain:
		port = "80"
	}
	port = cmp.Or(address.Port, port)
	out.look("a TCP connection to %s:%s", address.Host, port)
	conn, err := in.connect(ctx, address.Host, port)
	if err != nil {
		out.fail(address.Host, "the Git server takes no connection: "+why(err), in.firewall(address.Host))
		return
	}
	_ = conn.Close() // it was good
}

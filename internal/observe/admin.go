package observe

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"strings"
)

// Mount is a handler of another package on the admin server. It must be read-only:
// every user of the machine can send requests.
type Mount struct {
	// Prefix is the path prefix of the handler, such as /api/v1/.
	Prefix  string
	Handler http.Handler
}

// ServeAdmin serves profiles under /debug/pprof and the mounts until the context
// ends, and then shuts down gracefully. It closes the listener, and refuses one
// that is not on loopback. Mounts get only GET and HEAD, and no cross-site requests
// of browsers.
//
// Unlike net/http/pprof it does not serve the command line of the process, which
// may hold a token.
func ServeAdmin(ctx context.Context, listener net.Listener, log *slog.Logger, mounts ...Mount) error {
	address, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil || !address.Addr().Unmap().IsLoopback() {
		_ = listener.Close() // the refusal is the error that matters
		return fmt.Errorf("the admin server would listen on %s, which others can reach: use a loopback address", listener.Addr())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for _, mount := range mounts {
		mux.Handle("GET "+mount.Prefix, mount.Handler)
	}
	return serve(ctx, listener, &http.Server{Handler: onlyLocal(mux), WriteTimeout: adminWriteTimeout}, log.With(KeyServer, "admin"))
}

// onlyLocal refuses requests that a browser sends on behalf of another site. A page
// cannot connect to loopback under its own name, but a name that its owner points
// at 127.0.0.1 (DNS rebinding) can, as can a plain link or image. The headers Host,
// Origin and Sec-Fetch-Site reveal both. See CVE-2022-41924 (Tailscale) and
// CVE-2026-27589 (Caddy). All requests here only read; nothing else is routed.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocalHost(r.Host) || !sameOrigin(r) {
			writePlain(w, http.StatusForbidden, "refused: this server responds only to requests to localhost that come from no other site")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocalHost reports whether a Host header names this machine. The port may
// differ from ours: kubectl port-forward has its own.
func isLocalHost(hostport string) bool {
	host := (&url.URL{Host: hostport}).Hostname()
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// sameOrigin reports whether a request comes from no page or from our own.
func sameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	origins := r.Header.Values("Origin")
	return len(origins) == 0 || (len(origins) == 1 && origins[0] == "http://"+r.Host)
}

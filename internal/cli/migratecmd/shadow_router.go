package migratecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/shadow"
)

const (
	explainTimeout = 10 * time.Second
	// maxExplanation bounds an explanation: the rules of one host, with their reasons.
	maxExplanation = 16 << 20
)

// adminRouter returns the route of a request from the admin server of the edge, which
// evaluates its live table and sends nothing.
type adminRouter struct {
	address, entryPoint string
	client              *http.Client
}

// newAdminRouter returns the router of an admin server. It uses no proxy: the server is on
// this machine, or forwarded to it.
func newAdminRouter(address, entryPoint string) *adminRouter {
	return &adminRouter{address: address, entryPoint: entryPoint, client: &http.Client{
		Timeout: explainTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: explainTimeout},
	}}
}

// Route implements shadow.Router.
func (r *adminRouter) Route(ctx context.Context, request *shadow.Request) (shadow.Route, error) {
	scheme := request.Scheme
	if scheme == "" {
		scheme = "http"
	}
	values := url.Values{"url": {scheme + "://" + request.Host + request.Target}, "method": {request.Method}}
	if r.entryPoint != "" {
		values.Set("entryPoint", r.entryPoint)
	}
	for name, lines := range request.Header {
		for _, line := range lines {
			values.Add("header", name+": "+line)
		}
	}
	target := url.URL{Scheme: "http", Host: r.address, Path: admin.Prefix + "explain", RawQuery: values.Encode()}
	sent, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return shadow.Route{}, err
	}
	response, err := r.client.Do(sent)
	if err != nil {
		return shadow.Route{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return shadow.Route{}, fmt.Errorf("explain: status %d", response.StatusCode)
	}
	var explanation admin.Explanation
	if err := json.NewDecoder(io.LimitReader(response.Body, maxExplanation)).Decode(&explanation); err != nil {
		return shadow.Route{}, fmt.Errorf("explain: %w", err)
	}
	return routeOf(&explanation), nil
}

// routeOf returns the parts of an explanation that are compared.
func routeOf(explanation *admin.Explanation) shadow.Route {
	route := shadow.Route{Status: explanation.Status}
	if explanation.Rule != nil {
		route.Rule = explanation.Rule.String()
	}
	for _, backend := range explanation.Backends {
		route.Backends = append(route.Backends, shadow.Backend{Namespace: backend.ID.Namespace, Name: backend.ID.Name, Port: backend.ID.Port})
	}
	return route
}

package migratecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/shadow"
)

const (
	explainTimeout = 10 * time.Second
	// maxPage bounds a page of the admin API.
	maxPage = 64 << 20
	// rulesPerPage is the size of a page of rules; one that is not full is the last.
	rulesPerPage = 1000
	// rulesLifetime is how long the rules are cached.
	rulesLifetime = time.Minute
	// maxHosts bounds the hosts that are tried for one line.
	maxHosts = 8
)

// adminRouter returns the route of a request from the admin server of the edge, which
// evaluates its live table and sends nothing.
type adminRouter struct {
	address, entryPoint string
	client              *http.Client

	mu sync.Mutex
	// rules are those with a host and backends, as they were at loaded.
	rules  []admin.RuleInfo
	loaded time.Time
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
	var explanation admin.Explanation
	if err := r.get(ctx, "explain", values, &explanation); err != nil {
		return shadow.Route{}, err
	}
	return routeOf(&explanation), nil
}

// get fetches a page of the admin API.
func (r *adminRouter) get(ctx context.Context, page string, values url.Values, value any) error {
	target := url.URL{Scheme: "http", Host: r.address, Path: admin.Prefix + page, RawQuery: values.Encode()}
	sent, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	response, err := r.client.Do(sent)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", page, response.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxPage)).Decode(value); err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return nil
}

// Host implements shadow.HostFinder: the only host whose rules have the backend, or, of
// several, the only one that routes the request to it. The host is that of the new edge, so
// a Service that moved to another host is not found here.
func (r *adminRouter) Host(ctx context.Context, request *shadow.Request) string {
	var hosts []string
	for _, rule := range r.currentRules(ctx) {
		uses := slices.ContainsFunc(rule.Backends, func(part admin.BackendPart) bool { return backendOf(part).Is(request.Recorded.Backend) })
		if uses && !slices.Contains(hosts, rule.Host) {
			hosts = append(hosts, rule.Host)
		}
	}
	if len(hosts) == 1 {
		return hosts[0]
	}
	if len(hosts) > maxHosts {
		return ""
	}
	var found []string
	for _, host := range hosts {
		candidate := *request
		candidate.Host = host
		route, err := r.Route(ctx, &candidate)
		if err == nil && slices.ContainsFunc(route.Backends, func(backend shadow.Backend) bool { return backend.Is(request.Recorded.Backend) }) {
			found = append(found, host)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return ""
}

// currentRules returns the rules with a host that is a name. They are loaded again after a
// while, because a comparison can last for hours. After an error the last ones are used.
func (r *adminRouter) currentRules(ctx context.Context) []admin.RuleInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loaded.IsZero() && time.Since(r.loaded) < rulesLifetime {
		return r.rules
	}
	r.loaded = time.Now()
	var rules []admin.RuleInfo
	for offset := 0; ; offset += rulesPerPage {
		var page struct{ Items []admin.RuleInfo }
		if err := r.get(ctx, "rules", url.Values{"limit": {strconv.Itoa(rulesPerPage)}, "offset": {strconv.Itoa(offset)}}, &page); err != nil {
			return r.rules
		}
		for _, rule := range page.Items {
			if rule.Host != "" && !strings.HasPrefix(rule.Host, "*") && len(rule.Backends) > 0 {
				rules = append(rules, rule)
			}
		}
		if len(page.Items) < rulesPerPage {
			r.rules = rules
			return rules
		}
	}
}

// backendOf returns a backend of a rule.
func backendOf(part admin.BackendPart) shadow.Backend {
	return shadow.Backend{Namespace: part.ID.Namespace, Name: part.ID.Name, Port: part.ID.Port}
}

// routeOf returns the parts of an explanation that are compared.
func routeOf(explanation *admin.Explanation) shadow.Route {
	route := shadow.Route{Status: explanation.Status}
	if explanation.Rule != nil {
		route.Rule = explanation.Rule.String()
	}
	for _, backend := range explanation.Backends {
		route.Backends = append(route.Backends, backendOf(backend.BackendPart))
	}
	return route
}

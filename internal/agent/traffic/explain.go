package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const (
	// maxQueryBytes bounds the URL, the method and the headers of a request.
	maxQueryBytes  = 16 << 10
	maxHeaders     = 50
	explainTimeout = 10 * time.Second
)

// Explain returns how an edge routes a request, and why. The first edge that
// responds is used, or the named one.
func (s *Service) Explain(ctx context.Context, request *connect.Request[runtimev1.ExplainRequest]) (*connect.Response[runtimev1.ExplainResponse], error) {
	// The request is checked before any edge is contacted.
	values, err := explainQuery(request.Msg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	// It has a finder of its own: that of the rounds is for one at a time.
	own := &edgeFinder{
		cluster: s.options.Cluster, namespace: s.options.Namespace, fixed: s.options.Edges, port: s.options.Port, secret: s.options.Secret,
	}
	defer own.close()
	now := time.Now()
	places, err := own.edges(ctx, now)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	client, err := own.authenticatedClient(ctx, now)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("query the edges: %w", err))
	}
	problem := errors.New("this runtime has no edge")
	if name := request.Msg.GetEdge(); name != "" {
		problem = fmt.Errorf("there is no edge %q now", name)
	}
	for _, at := range places {
		if name := request.Msg.GetEdge(); name != "" && at.name != name {
			continue
		}
		explanation, err := explainAt(ctx, client, at, values)
		if err == nil {
			return connect.NewResponse(s.explained(ctx, at, explanation)), nil
		}
		if refused, ok := errors.AsType[*edgeError](err); ok && refused.status == http.StatusBadRequest {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		problem = fmt.Errorf("the edge %s: %w", at.name, err)
	}
	return nil, connect.NewError(connect.CodeUnavailable, problem)
}

// explainQuery checks a request and encodes it for the edge. The bounds keep
// the encoded query below the URL limits of the edge.
func explainQuery(request *runtimev1.ExplainRequest) (url.Values, error) {
	size := len(request.GetUrl()) + len(request.GetMethod())
	for _, header := range request.GetHeaders() {
		size += len(header)
	}
	switch {
	case request.GetUrl() == "":
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the request has no URL: give one such as https://shop.example.com/cart"))
	case size > maxQueryBytes || len(request.GetHeaders()) > maxHeaders:
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the request is too large: at most %d headers, and %d bytes in all", maxHeaders, maxQueryBytes))
	}
	values := url.Values{"url": {request.GetUrl()}, "text": {"true"}}
	if request.GetMethod() != "" {
		values.Set("method", request.GetMethod())
	}
	if len(request.GetHeaders()) > 0 {
		values["header"] = request.GetHeaders()
	}
	return values, nil
}

// explainAt requests the explanation of one edge. The edge decides by its own
// table, so that the result is that of a real request.
func explainAt(ctx context.Context, client *http.Client, at edgeAddress, values url.Values) (*trafficreport.Explanation, error) {
	target := &url.URL{Scheme: "https", Host: at.address, Path: trafficreport.ExplainPath, RawQuery: values.Encode()}
	explanation := new(trafficreport.Explanation)
	err := fetchPage(ctx, client, target, func(text []byte) error { return json.Unmarshal(text, explanation) })
	return explanation, err
}

// explained converts an explanation, with the Application behind the route. A
// request that the edge refuses before routing has a Refusal and no rule.
func (s *Service) explained(ctx context.Context, at edgeAddress, e *trafficreport.Explanation) *runtimev1.ExplainResponse {
	message := &runtimev1.ExplainResponse{
		Edge: at.name, EntryPoint: cmp.Or(e.Request.EntryPoint, e.Request.Listener), Tls: e.Request.TLS, Method: e.Request.Method,
		Host: e.Request.Host, Path: e.Request.Path, Query: e.Request.Query, Rewritten: e.Request.Rewritten,
		Status: int32(e.Status), Reason: e.Reason, Message: e.Message, Text: e.Text,
	}
	if e.Refusal != nil {
		message.Refused, message.Status, message.Message = true, int32(e.Refusal.Status), e.Refusal.Message
	}
	for _, step := range e.Steps {
		shown := &runtimev1.ExplainStep{Name: step.Name, Verdict: step.Decision, Why: step.Why}
		if step.ID != nil {
			shown.Route = routeRef(*step.ID)
		}
		if step.Decision == "wins" {
			message.Why = step.Why
		}
		message.Steps = append(message.Steps, shown)
	}
	for _, policy := range e.Policies {
		message.Policies = append(message.Policies, policy.Name)
	}
	message.Backends = explainedBackends(e)
	if e.Rule != nil {
		message.Route = routeRef(*e.Rule)
		s.addApplication(ctx, message, e)
	}
	return message
}

// explainedBackends converts the backends of an explanation.
func explainedBackends(e *trafficreport.Explanation) []*runtimev1.ExplainBackend {
	var messages []*runtimev1.ExplainBackend
	for _, backend := range e.Backends {
		shown := &runtimev1.ExplainBackend{Backend: &runtimev1.TrafficBackend{
			Namespace: backend.ID.Namespace, Service: backend.ID.Name, Port: int32(backend.ID.Port), Weight: backend.Weight,
			Endpoints: int32(len(backend.Endpoints)), Broken: backend.Broken,
		}}
		for _, endpoint := range backend.Endpoints {
			if endpoint.Health == "ready" && endpoint.State != "draining" {
				shown.Backend.ReadyEndpoints++
			}
			shown.Endpoints = append(shown.Endpoints, &runtimev1.ExplainEndpoint{
				Address: endpoint.Address, State: endpoint.State, Health: endpoint.Health, InFlight: endpoint.InFlight,
			})
		}
		messages = append(messages, shown)
	}
	return messages
}

// addApplication adds the Application of the route, and the refusals of its
// object. While there are streams both are cached; otherwise they are read.
func (s *Service) addApplication(ctx context.Context, message *runtimev1.ExplainResponse, e *trafficreport.Explanation) {
	made := s.latest()
	var apps *appIndex
	if made != nil {
		apps = made.apps
	} else {
		apps = s.readApplications(ctx)
	}
	route := &trafficreport.Route{ID: *e.Rule}
	for _, backend := range e.Backends {
		route.Backends = append(route.Backends, trafficreport.Target{ID: backend.ID})
	}
	// One Application is looked up directly: a single request may wait for Git,
	// while a stream may not.
	j := &joiner{apps: apps, places: map[*appFacts]int32{}, out: &runtimev1.TrafficTable{}, commit: func(app *appFacts) *source.Commit {
		if s.options.Commit == nil || app.revision == "" {
			return nil
		}
		commit, err := s.options.Commit(ctx, app.place, app.revision)
		if err != nil {
			return nil // the response is useful without a commit
		}
		return commit
	}}
	if app, byService := j.owner(route); app != nil {
		message.Application, message.ApplicationByService = j.message(app), byService
	}
	if made == nil {
		return
	}
	for _, edge := range made.edges {
		if edge.name != message.GetEdge() || edge.table == nil {
			continue
		}
		for i := range edge.table.Refusals {
			refused := &edge.table.Refusals[i]
			if refused.Kind == e.Rule.Kind && refused.Namespace == e.Rule.Namespace && refused.Name == e.Rule.Name {
				message.Refusals = append(message.Refusals, j.refusal(refused))
			}
		}
	}
}

// readApplications lists the Applications once. A namespace that cannot be
// listed is skipped, because the Application is additional information.
func (s *Service) readApplications(ctx context.Context) *appIndex {
	book := &appWatcher{log: s.options.Log}
	for _, namespace := range s.options.Namespaces {
		found, err := s.options.Applications(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the response has the route without it
		}
		objects := make([]*unstructured.Unstructured, len(found.Items))
		for i := range found.Items {
			objects[i] = &found.Items[i]
		}
		book.update(namespace, objects)
	}
	return book.current()
}

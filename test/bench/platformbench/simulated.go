package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/access/tunnel"
	agentreport "slipway.dev/slipway/internal/agent/report"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// tunnels is the number of tunnels of an agent.
const tunnels = 2

// renewAfter is the age at which a token is renewed, half of its lifetime.
const renewAfter = 5 * time.Minute

// callBackoff is that of an agent whose platform does not respond.
var callBackoff = backoff.Policy{First: time.Second, Longest: 20 * time.Second, JitterDown: 0.5}

// simulated is a runtime without a cluster.
type simulated struct {
	name         string
	applications int
	reporter     *agentreport.Reporter
	transport    *http.Transport
	// connected is the number of open tunnels.
	connected atomic.Int32

	mu         sync.Mutex
	credential *platformv1.Credential
	issued     time.Time
}

// register registers a runtime.
func register(ctx context.Context, admin platformv1connect.RuntimeServiceClient, name, dir string, applications int) (*simulated, error) {
	response, err := admin.RegisterRuntime(ctx, connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: name, Namespace: "slipway", Cluster: name, ClusterUid: "uid-" + name, Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	}))
	if err != nil {
		return nil, err
	}
	s := &simulated{
		name: name, applications: applications, transport: &http.Transport{},
		credential: response.Msg.GetCredential(), issued: time.Now(),
	}
	s.reporter, err = agentreport.New(agentreport.Options{
		Folder: filepath.Join(dir, name), Runtime: name, Client: s.agent(), List: s.list, Log: slog.New(slog.DiscardHandler),
	})
	return s, err
}

// run keeps the tunnels, the reports and the heartbeats of the runtime until the
// context is done.
func (s *simulated) run(ctx context.Context) error {
	var running sync.WaitGroup
	var tunnelErr, reportErr error
	running.Go(func() {
		tunnelErr = tunnel.Run(ctx, tunnel.Options{
			URLs: func() []string { return []string{platformURL} }, Token: s.token, Handler: s, Runtime: s.name, Connections: tunnels,
			State: func(connected int) { s.connected.Store(int32(connected)) },
		})
	})
	running.Go(func() { reportErr = s.reporter.Run(ctx) })
	running.Go(func() { s.heartbeats(ctx) })
	running.Wait()
	s.transport.CloseIdleConnections()
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(tunnelErr, reportErr)
}

// ServeHTTP responds to requests of the platform as the router of a runtime does.
func (s *simulated) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(wire.RouterHeader, s.name)
	_, _ = io.WriteString(w, s.name)
}

// heartbeats sends heartbeats at the interval that the platform requests, and
// renews the token in time.
func (s *simulated) heartbeats(ctx context.Context) {
	request := &platformv1.HeartbeatRequest{Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL}
	pause, failures := time.Duration(0), 0
	for backoff.Sleep(ctx, pause) == nil {
		s.renew(ctx)
		response, err := s.agent().Heartbeat(ctx, connect.NewRequest(request))
		if err != nil {
			failures++
			pause = callBackoff.Delay(failures)
			continue
		}
		failures, pause = 0, response.Msg.GetNext().AsDuration()
		request.Unchanged = !response.Msg.GetSendAll()
	}
}

// renew replaces an old token. After a failure the next heartbeat tries again.
func (s *simulated) renew(ctx context.Context) {
	s.mu.Lock()
	refresh, age := s.credential.GetRefreshToken(), time.Since(s.issued)
	s.mu.Unlock()
	if age < renewAfter {
		return
	}
	response, err := s.agent().RenewCredential(ctx, connect.NewRequest(&platformv1.RenewCredentialRequest{RefreshToken: refresh, Version: "1.0.0"}))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credential, s.issued = response.Msg.GetCredential(), time.Now()
}

func (s *simulated) token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credential.GetAccessToken(), nil
}

// agent returns a client with the current token.
func (s *simulated) agent() platformv1connect.AgentServiceClient {
	return platformv1connect.NewAgentServiceClient(&http.Client{Transport: authorized{s}}, platformURL)
}

// authorized adds the current token of a runtime to requests.
type authorized struct{ *simulated }

func (a authorized) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := a.token(request.Context())
	if err != nil {
		return nil, err
	}
	return programs.Bearer(token, a.transport).RoundTrip(request)
}

// list returns the Applications of the runtime.
func (s *simulated) list(context.Context) ([]*v1alpha1.Application, error) {
	all := make([]*v1alpha1.Application, s.applications)
	for i := range all {
		all[i] = s.application(i, "4f0c6a1d2b3e4f5a6b7c8d9e0f1a2b3c4d5e6f70")
	}
	return all, nil
}

// application returns an Application of usual size.
func (s *simulated) application(i int, revision string) *v1alpha1.Application {
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{
		Namespace: "argocd", Name: fmt.Sprintf("app-%03d", i), UID: types.UID(fmt.Sprintf("%s-%d", s.name, i)),
		Labels: map[string]string{"team": fmt.Sprintf("team-%d", i%10), "tier": "backend"},
	}}
	app.Spec.Project = "default"
	app.Spec.Source = &v1alpha1.ApplicationSource{RepoURL: "https://git.example.com/platform/apps.git", Path: fmt.Sprintf("apps/app-%03d", i), TargetRevision: "main"}
	app.Spec.Destination = v1alpha1.ApplicationDestination{Server: "https://kubernetes.default.svc", Namespace: fmt.Sprintf("app-%03d", i)}
	app.Status.Sync.Status, app.Status.Sync.Revision = "Synced", revision
	app.Status.Health.Status = "Healthy"
	return app
}

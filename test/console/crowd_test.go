package console

import (
	"context"
	"fmt"
	"net/http/cookiejar"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	// reportSize is how many events one report has.
	reportSize = 500
	// pulse is how often the runtime of the crowd sends a heartbeat.
	pulse = 2 * time.Second
)

// gather has a runtime report many applications, through the API that agents use.
func (w *world) gather(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct {
		Runtime string
		Count   int
	}](body)
	if err != nil {
		return nil, err
	}
	agent, err := w.reporter(t, asked.Runtime)
	if err != nil {
		return nil, err
	}
	return struct{}{}, reportMany(t.Context(), agent, asked.Count)
}

// reporter registers a runtime that is no process: it sends heartbeats until the end of
// the test, and what its caller reports.
func (w *world) reporter(t *testing.T, runtime string) (platformv1connect.AgentServiceClient, error) {
	t.Helper()
	admin, err := w.admin(t.Context())
	if err != nil {
		return nil, err
	}
	return w.join(t, admin, runtime)
}

// join registers a runtime as an admin, and sends its heartbeats until the end of the test.
func (w *world) join(t *testing.T, admin platformv1connect.RuntimeServiceClient, runtime string) (platformv1connect.AgentServiceClient, error) {
	t.Helper()
	registered, err := admin.RegisterRuntime(t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: runtime, Namespace: "slipway", Cluster: runtime, ClusterUid: runtime, KubernetesVersion: "v1.36.0", Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	}))
	if err != nil {
		return nil, err
	}
	client := w.client()
	client.Transport = programs.Bearer(registered.Msg.GetCredential().GetAccessToken(), client.Transport)
	agent := platformv1connect.NewAgentServiceClient(client, w.url)
	if err := beat(t.Context(), agent); err != nil {
		return nil, err
	}
	go func() {
		tick := time.NewTicker(pulse)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = beat(w.t.Context(), agent) // the platform may be away
			case <-w.t.Context().Done():
				return
			}
		}
	}()
	return agent, nil
}

// admin returns a client in a session of the admin.
func (w *world) admin(ctx context.Context) (platformv1connect.RuntimeServiceClient, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	token := ""
	client := w.client()
	client.Jar, client.Transport = jar, programs.Header{Name: wire.CSRFHeader, Value: &token, Next: client.Transport}
	session, err := platformv1connect.NewAuthServiceClient(client, w.url).SignIn(ctx, connect.NewRequest(&platformv1.SignInRequest{Email: adminEmail, Password: adminPassword}))
	if err != nil {
		return nil, err
	}
	token = session.Msg.GetCsrfToken()
	return platformv1connect.NewRuntimeServiceClient(client, w.url), nil
}

func beat(ctx context.Context, agent platformv1connect.AgentServiceClient) error {
	_, err := agent.Heartbeat(ctx, connect.NewRequest(&platformv1.HeartbeatRequest{
		Version: "1.0.0", KubernetesVersion: "v1.36.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
		Sync: platformv1.SyncStatus_SYNC_STATUS_SYNCED, Health: platformv1.HealthStatus_HEALTH_STATUS_HEALTHY,
	}))
	return err
}

// reportMany reports applications of all kinds of states.
func reportMany(ctx context.Context, agent platformv1connect.AgentServiceClient, count int) error {
	number := int64(0)
	var events []*platformv1.ReportEvent
	add := func(event *platformv1.ReportEvent) {
		number++
		event.Number, event.At = number, timestamppb.Now()
		events = append(events, event)
	}
	send := func() error {
		answer, err := agent.Report(ctx, connect.NewRequest(&platformv1.ReportRequest{Stream: "crowd", Events: events}))
		if err == nil && (answer.Msg.GetResync() || answer.Msg.GetStored() != number) {
			err = fmt.Errorf("the report up to %d is answered with %v", number, answer.Msg)
		}
		events = nil
		return err
	}
	add(&platformv1.ReportEvent{Event: &platformv1.ReportEvent_ResyncBegin{ResyncBegin: true}})
	for i := range count {
		add(&platformv1.ReportEvent{Event: &platformv1.ReportEvent_Application{Application: one(i)}})
		if len(events) == reportSize {
			if err := send(); err != nil {
				return err
			}
		}
	}
	add(&platformv1.ReportEvent{Event: &platformv1.ReportEvent_ResyncEnd{ResyncEnd: true}})
	return send()
}

func one(i int) *platformv1.Application {
	health := []string{"Healthy", "Healthy", "Healthy", "Progressing", "Degraded"}[i%5]
	sync := []string{"Synced", "Synced", "Synced", "OutOfSync"}[i%4]
	return &platformv1.Application{
		Namespace: "slipway", Name: fmt.Sprintf("service-%04d", i), Uid: fmt.Sprintf("uid-%d", i), Project: "default",
		Cluster: "in-cluster", DestinationNamespace: fmt.Sprintf("team-%d", i%40), RepoUrls: []string{"https://git.example.com/team/apps.git"},
		Path: fmt.Sprintf("services/%04d", i), TargetRevision: "main", Revision: fmt.Sprintf("%040x", i+1), Sync: sync, Health: health,
		Labels:       map[string]string{"team": fmt.Sprintf("team-%d", i%40), "tier": []string{"front", "back"}[i%2]},
		CommitAuthor: "Ada", CommitMessage: "Change the replicas", Resources: int32(i % 30), SeenAt: timestamppb.Now(),
	}
}

package join_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	accountID = "0123456789abcdef01234567"
	goodKey   = "slw_key1_s3cr3tCANARY"
	otherKey  = "slw_key2_s3cr3tCANARY"
)

// platform keeps runtimes as RuntimeService and AgentService promise. Refresh
// tokens are replaced each time; the one before the last is good once more.
type platform struct {
	platformv1connect.UnimplementedRuntimeServiceHandler
	platformv1connect.UnimplementedAgentServiceHandler
	server *httptest.Server

	mu      sync.Mutex
	changed chan struct{}

	keys       map[string]bool
	life       time.Duration // of access tokens
	next       time.Duration // until the next heartbeat; 0 leaves it to the agent
	skew       time.Duration // of the clock
	refuse     error         // of registrations
	cut        func(procedure string) (before, after bool)
	uninstall  bool
	sendAll    bool
	git        *platformv1.GitSettings
	clusterUID string

	issued            int
	refresh, previous string
	access            map[string]time.Time
	revoked           bool
	registered        []*platformv1.RegisterRuntimeRequest
	renewals, reused  int
	beats             []*platformv1.HeartbeatRequest
	unregistered      int
}

func newPlatform(t *testing.T, serve func(http.Handler) *httptest.Server) *platform {
	t.Helper()
	p := &platform{
		changed: make(chan struct{}), keys: map[string]bool{goodKey: true}, life: time.Hour, access: map[string]time.Time{},
		cut: func(string) (bool, bool) { return false, false },
	}
	mux := http.NewServeMux()
	mux.Handle(platformv1connect.NewRuntimeServiceHandler(p))
	mux.Handle(platformv1connect.NewAgentServiceHandler(p))
	p.server = serve(p.front(mux))
	t.Cleanup(p.server.Close)
	return p
}

// front has a clock of its own, and cuts connections.
func (p *platform) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		procedure := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		p.mu.Lock()
		before, after := p.cut(procedure)
		w.Header().Set("Date", p.now().UTC().Format(http.TimeFormat))
		p.mu.Unlock()
		if before {
			panic(http.ErrAbortHandler)
		}
		if after {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// The methods below need the lock.

func (p *platform) now() time.Time { return time.Now().Add(p.skew) }

func (p *platform) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *platform) credential() *platformv1.Credential {
	p.issued++
	access := fmt.Sprint("access-CANARY-", p.issued)
	p.refresh, p.access[access] = fmt.Sprint("slwr_CANARY_", p.issued), p.now().Add(p.life)
	return &platformv1.Credential{
		AccessToken: access, AccessExpiresAt: timestamppb.New(p.access[access]), RefreshToken: p.refresh,
		PlatformKeys: `{"keys":[]}`, TunnelUrls: []string{"wss://platform.test/tunnel/v1/connect"}, TunnelHost: accountID + "-prod.tunnels.test",
	}
}

func (p *platform) knows(header http.Header) error {
	expires, there := p.access[strings.TrimPrefix(header.Get("Authorization"), "Bearer ")]
	if !there || p.revoked || p.now().After(expires) {
		return connect.NewError(connect.CodeUnauthenticated, errors.New("the access token is not valid"))
	}
	return nil
}

func (p *platform) RegisterRuntime(_ context.Context, request *connect.Request[platformv1.RegisterRuntimeRequest]) (*connect.Response[platformv1.RegisterRuntimeResponse], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	if !p.keys[strings.TrimPrefix(request.Header().Get("Authorization"), "Bearer ")] {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("the key is not known"))
	}
	if p.refuse != nil {
		return nil, p.refuse
	}
	if p.clusterUID != "" && p.clusterUID != request.Msg.GetClusterUid() {
		return nil, connect.NewError(connect.CodeAlreadyExists, errors.New("another cluster has it"))
	}
	p.clusterUID, p.revoked, p.previous = request.Msg.GetClusterUid(), false, ""
	clear(p.access)
	p.registered = append(p.registered, request.Msg)
	return connect.NewResponse(&platformv1.RegisterRuntimeResponse{
		Runtime: &platformv1.Runtime{Id: "runtime-1", Name: request.Msg.GetName()}, AccountId: accountID, Credential: p.credential(),
	}), nil
}

func (p *platform) RenewCredential(_ context.Context, request *connect.Request[platformv1.RenewCredentialRequest]) (*connect.Response[platformv1.RenewCredentialResponse], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	given := request.Msg.GetRefreshToken()
	switch {
	case p.revoked:
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("the credentials were revoked"))
	case given == p.refresh:
		p.previous = given
	case given != "" && given == p.previous:
		// Once more, for a response that was lost.
	default:
		p.reused++
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("the refresh token is not valid"))
	}
	p.renewals++
	return connect.NewResponse(&platformv1.RenewCredentialResponse{Credential: p.credential()}), nil
}

func (p *platform) Heartbeat(_ context.Context, request *connect.Request[platformv1.HeartbeatRequest]) (*connect.Response[platformv1.HeartbeatResponse], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	if err := p.knows(request.Header()); err != nil {
		return nil, err
	}
	p.beats = append(p.beats, proto.CloneOf(request.Msg))
	all := p.sendAll
	p.sendAll = false
	return connect.NewResponse(&platformv1.HeartbeatResponse{
		Next: durationpb.New(p.next), GitSettings: p.git, Uninstall: p.uninstall, CleanSharedRepository: p.uninstall, SendAll: all, ConfigurationRuntime: true,
	}), nil
}

func (p *platform) Unregister(_ context.Context, request *connect.Request[platformv1.UnregisterRequest]) (*connect.Response[platformv1.UnregisterResponse], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	if err := p.knows(request.Header()); err != nil {
		return nil, err
	}
	p.unregistered++
	clear(p.access)
	p.refresh, p.previous = "", ""
	return connect.NewResponse(&platformv1.UnregisterResponse{}), nil
}

// change changes the platform.
func (p *platform) change(how func(*platform)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how(p)
}

// await waits until nothing is missing.
func (p *platform) await(t *testing.T, missing func(*platform) string) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		p.mu.Lock()
		lacks, changed := missing(p), p.changed
		p.mu.Unlock()
		if lacks == "" {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatal(lacks)
		}
	}
}

// awaitBeats waits for more heartbeats.
func (p *platform) awaitBeats(t *testing.T, more int) {
	t.Helper()
	var before int
	p.change(func(p *platform) { before = len(p.beats) })
	p.await(t, func(p *platform) string {
		if len(p.beats) < before+more {
			return fmt.Sprintf("%d heartbeats of %d", len(p.beats)-before, more)
		}
		return ""
	})
}

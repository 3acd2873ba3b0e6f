package runtime

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/agent/join"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// infoPath is what is asked of a runtime to see whether it can be asked.
const infoPath = wire.AppProxyPath + "slipway.runtime.v1.RuntimeService/GetInfo"

// testIsolation: the token of one runtime opens nothing of another: not behind the
// platform, not by the host of its tunnel, and no procedure for people.
func (g *stage) testIsolation(t *testing.T) {
	thief := mustMessage(g.admin.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: "thief", Namespace: "slipway", Cluster: "thief", ClusterUid: "thief", Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	})))(t).GetCredential()
	g.canary("the token of a runtime", thief.GetAccessToken())
	g.canary("the refresh token of a runtime", thief.GetRefreshToken())
	host := fmt.Sprintf("https://%s-east.%s", g.account, tunnelDomain)
	for _, url := range []string{g.url + "/runtimes/east" + infoPath, host + infoPath, host + "/workflows/", g.url + "/slipway.platform.v1.RuntimeService/ListRuntimes"} {
		for token, want := range map[string]int{thief.GetAccessToken(): http.StatusForbidden, "": http.StatusUnauthorized} {
			method := http.MethodPost
			if strings.HasSuffix(url, "/workflows/") {
				method = http.MethodGet
			}
			response := must.Get(g.ask(t, token, method, url, "{}"))(t)
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s with a token of %d characters: %d, not %d", url, len(token), response.StatusCode, want)
			}
		}
	}
	// It never gave a sign of life, so that it can be deleted at once.
	mustMessage(g.admin.runtimes.DeleteRuntime(t.Context(), connect.NewRequest(&platformv1.DeleteRuntimeRequest{Name: "thief"})))(t)
	_, err := g.with(thief.GetAccessToken()).agent.Heartbeat(t.Context(), connect.NewRequest(&platformv1.HeartbeatRequest{Version: "1.0.0"}))
	wantCode(t, "a runtime that is deleted gives a sign of life", err, connect.CodeUnauthenticated)
}

// testAway: while the platform is away, Git is delivered; what happened is reported when
// it is back. Runtimes come back by themselves, and nothing is lost.
func (g *stage) testAway(t *testing.T) {
	before := must.Get(g.east.get(t.Context()))(t)
	g.platform.Stop(t)
	commit := g.git.change(t, "while away")
	g.east.refresh(t, "web")
	programs.Eventually(t, func(ctx context.Context) error {
		found, err := g.east.value(ctx)
		if err == nil && found != "while away" {
			err = fmt.Errorf("the cluster has %q", found)
		}
		return err
	})
	g.startPlatform(t)
	began := time.Now()
	if g.platform.Out.String() != "" {
		t.Errorf("a second start prints %q", g.platform.Out.String())
	}
	for _, m := range []*member{g.east, g.west} {
		m.reached(t)
		t.Logf("%s is reached %v after the platform listens", m.name, time.Since(began).Round(time.Millisecond))
	}
	g.east.awaitListed(t, "web", commit)
	after := g.east.await(t, online)
	if after.GetId() != before.GetId() || !after.GetRegisteredAt().AsTime().Equal(before.GetRegisteredAt().AsTime()) {
		t.Errorf("the runtime was %v and is %v", before, after)
	}
	if list := mustMessage(g.admin.runtimes.ListRuntimes(t.Context(), connect.NewRequest(&platformv1.ListRuntimesRequest{})))(t).GetRuntimes(); len(list) != 2 {
		t.Errorf("the runtimes are %v", list)
	}
	if got := mustMessage(g.admin.git.GetGitSettings(t.Context(), connect.NewRequest(&platformv1.GetGitSettingsRequest{})))(t).GetSettings(); got.GetProvider() != "github" {
		t.Errorf("the Git settings are %v", got)
	}
}

// refresh asks for a look at Git in the cluster itself.
func (m *member) refresh(t *testing.T, name string) {
	t.Helper()
	const patch = `{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`
	must.Get(agentprocess.Applications(m.cluster.Cluster, m.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

// R113: five seconds after a runtime's credentials are revoked no client reaches
// it and it can report nothing; what it delivers stays, and it goes on delivering. One
// that is online is not deleted.
func (g *stage) testRevoke(t *testing.T) {
	m := g.west
	m.apply(t, "own", g.git.folder("small"), inCluster, m.namespace)
	m.awaitListed(t, "own", "")
	mustMessage(g.admin.runtimes.RevokeCredentials(t.Context(), connect.NewRequest(&platformv1.RevokeCredentialsRequest{Name: m.name})))(t)
	began := time.Now()
	programs.Eventually(t, func(ctx context.Context) error {
		response, err := g.ask(t, g.adminKey, http.MethodPost, g.url+"/runtimes/"+m.name+infoPath, "{}")
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable {
			return fmt.Errorf("the runtime is still reached: %s", response.Status)
		}
		return nil
	})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the runtime was cut off after %v", took)
	}
	g.git.change(t, "after the revocation")
	m.refresh(t, "own")
	programs.Eventually(t, func(ctx context.Context) error {
		found, err := m.cluster.Client.CoreV1().ConfigMaps(m.namespace).Get(ctx, "settings", metav1.GetOptions{})
		if err == nil && found.Data["value"] != "after the revocation" {
			err = fmt.Errorf("the cluster has %v", found.Data)
		}
		return err
	})
	g.east.await(t, online)
	g.east.reached(t)
	_, err := g.admin.runtimes.DeleteRuntime(t.Context(), connect.NewRequest(&platformv1.DeleteRuntimeRequest{Name: g.east.name}))
	wantCode(t, "a runtime that is online is deleted", err, connect.CodeFailedPrecondition)
}

// R113: a runtime that has been silent for long enough is deleted; what it delivered
// stays.
func (g *stage) testDelete(t *testing.T) {
	programs.Eventually(t, func(ctx context.Context) error {
		_, err := g.admin.runtimes.DeleteRuntime(ctx, connect.NewRequest(&platformv1.DeleteRuntimeRequest{Name: g.west.name}))
		return err
	})
	_, err := g.west.get(t.Context())
	wantCode(t, "a runtime that is deleted is shown", err, connect.CodeNotFound)
	if _, err := g.west.cluster.Client.CoreV1().ConfigMaps(g.west.namespace).Get(t.Context(), "settings", metav1.GetOptions{}); err != nil {
		t.Errorf("what the runtime delivered: %v", err)
	}
}

// R113: a runtime that is uninstalled takes leave of the platform and forgets its
// credential; the applications of users stay.
func (g *stage) testUninstall(t *testing.T) {
	m := g.east
	answer := mustMessage(g.admin.runtimes.UninstallRuntime(t.Context(), connect.NewRequest(&platformv1.UninstallRuntimeRequest{Name: m.name, CleanSharedRepository: true})))(t)
	if !strings.Contains(answer.GetNextCommand(), "helm uninstall") {
		t.Errorf("the next command is %q", answer.GetNextCommand())
	}
	programs.Eventually(t, func(ctx context.Context) error {
		found, err := m.get(ctx)
		if connect.CodeOf(err) == connect.CodeNotFound {
			return nil
		}
		return fmt.Errorf("the runtime is there: %v, %w", found, err)
	})
	if _, err := m.value(t.Context()); err != nil {
		t.Errorf("what the runtime delivered: %v", err)
	}
	programs.Eventually(t, func(ctx context.Context) error {
		kept, err := m.cluster.Client.CoreV1().Secrets(m.namespace).Get(ctx, join.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for field, text := range kept.Data {
			if strings.Contains(strings.ToLower(field), "token") && len(text) > 0 {
				return fmt.Errorf("the field %s is still there", field)
			}
		}
		return nil
	})
}

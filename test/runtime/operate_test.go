package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// testOperate: what an application has, how it differs, its logs, events and history
// are seen through the platform, and it is synced there. The data of its Secret is
// not shown.
func (g *stage) testOperate(t *testing.T) {
	services, ref := g.admin.of("east").applications, g.east.ref("web")
	tree := mustMessage(services.GetTree(t.Context(), connect.NewRequest(&runtimev1.GetTreeRequest{Ref: ref})))(t).GetNodes()
	var kinds []string
	for _, node := range tree {
		kinds = append(kinds, node.GetRef().GetKind())
	}
	for _, kind := range []string{"ConfigMap", "Deployment", "ReplicaSet", "Pod", "Secret"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("the tree has no %s: %v", kind, kinds)
		}
	}
	secret := mustMessage(services.GetResource(t.Context(), connect.NewRequest(&runtimev1.GetResourceRequest{
		Ref: ref, Object: &runtimev1.ObjectRef{Version: "v1", Kind: "Secret", Namespace: g.east.target, Name: "web"},
	})))(t)
	if !strings.Contains(string(secret.GetLive()), "password") {
		t.Errorf("the Secret is %s", secret.GetLive())
	}
	g.testLogs(t, ref)

	commit := g.git.change(t, "by hand")
	diff := mustMessage(services.Diff(t.Context(), connect.NewRequest(&runtimev1.DiffRequest{Ref: ref, Revision: commit})))(t)
	changed := slices.IndexFunc(diff.GetObjects(), func(one *runtimev1.ObjectDiff) bool { return one.GetRef().GetKind() == "ConfigMap" })
	if diff.GetRevision() != commit || changed < 0 || !strings.Contains(diff.GetObjects()[changed].GetText(), "by hand") {
		t.Errorf("the difference is %v", diff)
	}
	mustMessage(services.Refresh(t.Context(), connect.NewRequest(&runtimev1.RefreshRequest{Ref: ref})))(t)
	g.east.awaitListed(t, "web", commit)
	mustMessage(services.Sync(t.Context(), connect.NewRequest(&runtimev1.SyncRequest{Ref: ref})))(t)
	programs.Eventually(t, func(ctx context.Context) error {
		history, err := message(services.GetHistory(ctx, connect.NewRequest(&runtimev1.GetHistoryRequest{Ref: ref})))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(history.GetEntries(), func(one *runtimev1.HistoryEntry) bool {
			return !one.GetAutomated() && one.GetInitiatedBy() == adminEmail && one.GetRevision() == commit
		}) {
			return fmt.Errorf("the history is %v", history.GetEntries())
		}
		return nil
	})
	if events := mustMessage(services.ListEvents(t.Context(), connect.NewRequest(&runtimev1.ListEventsRequest{Ref: ref})))(t).GetEvents(); len(events) == 0 {
		t.Error("the application has no events")
	}
	g.east.awaitListed(t, "web", commit)
}

// testLogs follows the log of a Pod until there is a line.
func (g *stage) testLogs(t *testing.T, ref *runtimev1.ApplicationRef) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		stream, err := g.admin.of("east").applications.Logs(ctx, connect.NewRequest(&runtimev1.LogsRequest{
			Ref: ref, Object: &runtimev1.ObjectRef{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: g.east.target, Name: "web"}, TailLines: 10,
		}))
		if err != nil {
			return err
		}
		defer stream.Close()
		if !stream.Receive() || stream.Msg().GetLine() == "" || !strings.HasPrefix(stream.Msg().GetPod(), "web-") {
			return errors.Join(stream.Err(), fmt.Errorf("the log has %v", stream.Msg()))
		}
		return nil
	})
}

// testPush: a push is live through the tunnel: the webhook is signed, goes to the
// host of the tunnel and reaches the runtime, and nothing else notifies it: it polls Git
// once in an hour. What the platform shows follows. The times are logged; a benchmark
// would judge them. A webhook with another signature changes nothing.
func (g *stage) testPush(t *testing.T) {
	rounds := 20
	if long() {
		rounds = 60 // a sender may not say more in a minute
	}
	var took []time.Duration
	for round := range rounds {
		value := fmt.Sprintf("push %d", round)
		began := time.Now()
		g.git.push(t, value)
		told := time.Since(began)
		programs.Eventually(t, func(ctx context.Context) error {
			found, err := g.east.value(ctx)
			if err == nil && found != value {
				err = fmt.Errorf("the cluster has %q, not %q", found, value)
			}
			return err
		})
		took = append(took, time.Since(began))
		if took[round] > 2*time.Second {
			t.Logf("push %d at %s took %v, of which the commit and the webhook were %v", round, began.UTC().Format(time.TimeOnly), took[round], told)
		}
	}
	slices.Sort(took)
	t.Logf("%d pushes were live through the tunnel: p50 %v, p95 %v, max %v", rounds, took[rounds/2], took[rounds*95/100], took[rounds-1])
	g.east.awaitListed(t, "web", g.git.apps.Head(t))

	forged := g.git.provider.Hooks("team/apps")[0]
	forged.Secret = "of somebody else"
	if status := g.git.deliver(t, forged, g.git.apps.Head(t), g.git.apps.Head(t)); status/100 == 2 {
		t.Errorf("a webhook with another signature is answered with %d", status)
	}
}

// R62, R75, R77, R116: a cluster that is added through the platform gets an application;
// it can not be removed while it is used. The platform lists it with the Git Sources
// of the runtime.
func (g *stage) testCluster(t *testing.T) {
	account := g.west.account(t)
	services := g.admin.of("east").clusters
	config := g.suite.west.Config
	answer := mustMessage(services.AddCluster(t.Context(), connect.NewRequest(&runtimev1.AddClusterRequest{
		Name: "far", Server: config.Host, CertificateAuthority: config.CAData, Token: account,
		ServiceAccount: "deployer", ServiceAccountNamespace: g.west.namespace, Labels: map[string]string{"env": "far"},
	})))(t).GetCluster()
	if answer.GetStatus() != "Connected" || !strings.HasPrefix(answer.GetVersion(), "v1.") {
		t.Fatalf("the cluster is %v", answer)
	}
	g.east.apply(t, "far", g.git.folder("small"), config.Host, g.west.target)
	programs.Eventually(t, func(ctx context.Context) error {
		_, err := g.west.value(ctx)
		return err
	})
	g.east.awaitListed(t, "far", "")
	_, err := services.RemoveCluster(t.Context(), connect.NewRequest(&runtimev1.RemoveClusterRequest{Name: "far"}))
	wantCode(t, "a cluster that is used is removed", err, connect.CodeFailedPrecondition)
	g.east.await(t, func(found *platformv1.Runtime) error {
		if len(found.GetClusters()) != 1 || found.GetClusters()[0].GetName() != "far" {
			return fmt.Errorf("the platform has the clusters %v", found.GetClusters())
		}
		if len(found.GetGitSources()) != 1 || slices.Contains(found.GetPendingSteps(), platformv1.CompletionStep_COMPLETION_STEP_GIT_CREDENTIALS) {
			return fmt.Errorf("the platform has Git Sources %v, and %v to do", found.GetGitSources(), found.GetPendingSteps())
		}
		return nil
	})
}

// account makes a service account that may everything, and a token for it.
func (m *member) account(t *testing.T) string {
	t.Helper()
	name := metav1.ObjectMeta{Name: "deployer", Namespace: m.namespace}
	client := m.cluster.Client
	must.Get(client.CoreV1().ServiceAccounts(m.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: name}, metav1.CreateOptions{}))(t)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: m.namespace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name.Name, Namespace: m.namespace}},
	}
	must.Get(client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}))(t)
	expires := int64(600)
	token := must.Get(client.CoreV1().ServiceAccounts(m.namespace).CreateToken(t.Context(), name.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &expires}}, metav1.CreateOptions{}))(t)
	return m.stage.canary("the token of a cluster", token.Status.Token)
}

package clusters_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const patience = time.Minute

func TestMain(m *testing.M) { kubetest.Main(m) }

// scene is two clusters: one that the runtime is in, and one to be added.
type scene struct {
	t         *testing.T
	home, far *kubetest.Cluster
	namespace string
	book      *clusters.Registry
	fleet     *clusters.Fleet
	service   *clusters.Service
	apps      []*v1alpha1.Application
	moved     chan struct{}
}

func newScene(t *testing.T, far *kubetest.Cluster) *scene {
	home := kubetest.Shared(t)
	s := &scene{t: t, home: home, far: far, namespace: home.Namespace(t), moved: make(chan struct{}, 16)}
	log := slog.New(slog.DiscardHandler)
	s.book = clusters.NewRegistry(log)
	s.fleet = clusters.NewFleet(clusters.FleetOptions{
		Registry: s.book, Home: home.Cluster, Namespace: s.namespace, Log: log,
		Changed: func(string, tracking.Key) {}, DestinationsChanged: func() { s.moved <- struct{}{} },
	})
	s.service = clusters.NewService(clusters.ServiceOptions{
		Registry: s.book, Home: home.Cluster, Namespace: s.namespace, Fleet: func() *clusters.Fleet { return s.fleet }, Log: log,
		Applications: func(context.Context) ([]*v1alpha1.Application, error) { return s.apps, nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.fleet.Run(ctx) })
	running.Go(func() { // as the agent follows the Secrets
		_, _ = kube.WaitFor(ctx, home.Client.CoreV1().Secrets(s.namespace), metav1.ListOptions{}, func(found []*corev1.Secret) error {
			s.book.Update(found)
			return errors.New("following goes on")
		})
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// request is what the command line sends after it made a service account.
func (s *scene) request() *runtimev1.AddClusterRequest {
	s.t.Helper()
	ctx := s.t.Context()
	s.far.Apply(s.t, "kube-system", `
apiVersion: v1
kind: ServiceAccount
metadata: {name: slipway-manager, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: slipway-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: slipway-manager, namespace: kube-system}]
`)
	seconds := int64(600) // the least that Kubernetes gives
	made := must.Get(s.far.Client.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "slipway-manager",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{}))(s.t)
	return &runtimev1.AddClusterRequest{
		Name: "far", Server: s.far.Config.Host, CertificateAuthority: s.far.Config.CAData, Token: made.Status.Token,
		ServiceAccount: "slipway-manager", ServiceAccountNamespace: "kube-system", Labels: map[string]string{"env": "prod"},
	}
}

func (s *scene) add(request *runtimev1.AddClusterRequest) error {
	_, err := s.service.AddCluster(s.t.Context(), connect.NewRequest(request))
	return err
}

// secrets waits until the Secrets of clusters fulfil a condition.
func (s *scene) secrets(condition func([]*corev1.Secret) error) {
	s.t.Helper()
	selected := kube.Labelled("argocd.argoproj.io/secret-type=cluster")
	kubetest.WaitFor(s.t, s.home.Client.CoreV1().Secrets(s.namespace), selected, patience, condition)
}

// listed waits for the state of the other cluster as people see it. The fleet does not
// notify when it has checked, so listed polls.
func (s *scene) listed(want func(*runtimev1.ManagedCluster) bool) (last *runtimev1.ManagedCluster) {
	s.t.Helper()
	programs.Eventually(s.t, func(ctx context.Context) error {
		found := s.service.List(ctx)
		if found[0].GetName() != "in-cluster" || found[0].GetStatus() != "Connected" {
			s.t.Fatalf("the own cluster is %v", found[0])
		}
		if last = nil; len(found) > 1 {
			last = found[1]
		}
		if !want(last) {
			return fmt.Errorf("the clusters are %v", found)
		}
		return nil
	})
	return last
}

func TestClusters(t *testing.T) {
	far := kubetest.Start(t, kubetest.WithoutNode())
	t.Run("life", func(t *testing.T) { testLife(t, newScene(t, far)) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, newScene(t, far)) })
}

// R116: a cluster is added after it was checked, its short-lived token is renewed
// without a new connection, and it is removed when no application uses it.
func testLife(t *testing.T, s *scene) {
	request := s.request()
	request.DryRun = true
	must.Do(t, s.add(request))
	s.secrets(func(found []*corev1.Secret) error {
		if len(found) != 0 {
			return fmt.Errorf("a dry run stored %d Secrets", len(found))
		}
		return nil
	})
	request.DryRun = false
	must.Do(t, s.add(request))
	<-s.moved
	if all := s.fleet.All(); len(all) != 1 || all[0].Name != "far" || all[0].Server != request.GetServer() {
		t.Fatalf("the engine gets %v", all)
	}
	<-s.moved // it is known to be another cluster, after the first probe
	if all := s.fleet.All(); len(all) != 1 || !all[0].IsAnother() {
		t.Fatalf("the engine takes it for the runtime's own: %v", all)
	}
	// Ten minutes are less than half a day: it is renewed at once.
	s.secrets(func(found []*corev1.Secret) error {
		var config struct{ BearerToken string }
		if len(found) != 1 || json.Unmarshal(found[0].Data["config"], &config) != nil {
			return errors.New("there is no Secret")
		}
		if config.BearerToken == request.GetToken() {
			return errors.New("the token is the one that was given")
		}
		return nil
	})
	one := s.listed(func(one *runtimev1.ManagedCluster) bool {
		return one.GetStatus() == "Connected" && time.Until(one.GetTokenExpiresAt().AsTime()) > 12*time.Hour
	})
	if !strings.HasPrefix(one.GetVersion(), "v1.") || one.GetLabels()["env"] != "prod" || strings.Contains(one.String(), "eyJ") {
		t.Errorf("the cluster is told as %v", one)
	}
	if err := s.add(request); connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("added twice: %v", err)
	}
	s.remove(t)
}

func (s *scene) remove(t *testing.T) {
	app := &v1alpha1.Application{}
	app.Namespace, app.Name, app.Spec.Destination.Name = "slipway", "web", "far"
	s.apps = []*v1alpha1.Application{app}
	removal := connect.NewRequest(&runtimev1.RemoveClusterRequest{Name: "far"})
	if _, err := s.service.RemoveCluster(t.Context(), removal); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "slipway/web") {
		t.Errorf("removed while it is used: %v", err)
	}
	s.apps = nil
	must.Get(s.service.RemoveCluster(t.Context(), removal))(t)
	s.listed(func(one *runtimev1.ManagedCluster) bool { return one == nil })
	<-s.moved
	if all := s.fleet.All(); len(all) != 0 {
		t.Errorf("the engine still gets %v", all)
	}
	if len(s.moved) > 0 {
		t.Error("the new token made a new connection")
	}
	if _, err := s.service.RemoveCluster(t.Context(), removal); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("removed twice: %v", err)
	}
	own := connect.NewRequest(&runtimev1.RemoveClusterRequest{Name: "in-cluster"})
	if _, err := s.service.RemoveCluster(t.Context(), own); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("the own cluster: %v", err)
	}
}

// Nothing is stored of a cluster that is not what the certificate or the token is
// for, and the error does not show the token.
func testRefusals(t *testing.T, s *scene) {
	good := s.request()
	tests := []struct {
		name   string
		change func(*runtimev1.AddClusterRequest)
		want   string
	}{
		{"authority of another cluster", func(r *runtimev1.AddClusterRequest) { r.CertificateAuthority = s.home.Config.CAData }, "certificate"},
		{"system authorities", func(r *runtimev1.AddClusterRequest) { r.CertificateAuthority = nil }, "certificate"},
		{"token of nobody", func(r *runtimev1.AddClusterRequest) {
			r.Token = strings.TrimSuffix(r.Token, r.Token[len(r.Token)-8:]) + "AAAAAAAA"
		}, "nauthorized"},
		{"no token", func(r *runtimev1.AddClusterRequest) { r.Token = "" }, "token"},
		{"name", func(r *runtimev1.AddClusterRequest) { r.Name = "Far away" }, "no name of a cluster"},
		{"own name", func(r *runtimev1.AddClusterRequest) { r.Name = "in-cluster" }, "which the runtime is in"},
		{"address", func(r *runtimev1.AddClusterRequest) { r.Server = "http://far.example" }, "https://host:port"},
		{"namespace", func(r *runtimev1.AddClusterRequest) { r.Namespaces = []string{"A"} }, "no namespace"},
		{"label", func(r *runtimev1.AddClusterRequest) {
			r.Labels = map[string]string{"argocd.argoproj.io/secret-type": "repository"}
		}, "label"},
	}
	for _, test := range tests {
		request := &runtimev1.AddClusterRequest{
			Name: good.Name, Server: good.Server, CertificateAuthority: good.CertificateAuthority, Token: good.Token,
			ServiceAccount: good.ServiceAccount, ServiceAccountNamespace: good.ServiceAccountNamespace,
		}
		test.change(request)
		err := s.add(request)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
		if err != nil && request.Token != "" && strings.Contains(err.Error(), request.Token) {
			t.Errorf("%s: the error shows the token", test.name)
		}
	}
	s.secrets(func(found []*corev1.Secret) error {
		if len(found) != 0 {
			return fmt.Errorf("%d Secrets were stored", len(found))
		}
		return nil
	})
}

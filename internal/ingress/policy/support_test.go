package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// bcryptLine is the user anna with the password secret.
const bcryptLine = "anna:$2y$05$Nt3MVXHVzX97uPkJNkVu0uG2a9Dq1QqHjLk5Jc9E1xV4b6u0jX5QO"

// world is a cluster in which shop has a Service, a Secret of users and one
// with certificates, and other has a Secret.
type world struct {
	snapshot *snapshot.Snapshot
	source   reference.Source
}

func newWorld(t *testing.T) *world {
	pair := pkitest.SelfSigned(t, pkitest.Certificate{Names: []string{"test"}, Authority: true})
	chain := []byte(pair.Chain)
	s := snapshot.New()
	for _, name := range []string{"auth", "pages", "next"} {
		s.Put(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Port: 8080}}},
		})
	}
	for _, body := range []*snapshot.SecretBody{
		{Namespace: "shop", Name: "users", Data: map[string][]byte{"users": []byte(bcryptLine + "\n# nobody\n")}},
		{Namespace: "shop", Name: "trust", Data: map[string][]byte{"ca.crt": chain}},
		{Namespace: "shop", Name: "pair", Type: "kubernetes.io/tls", Data: map[string][]byte{"tls.crt": chain, "tls.key": []byte(pair.Key)}},
		{Namespace: "shop", Name: "junk", Data: map[string][]byte{"ca.crt": []byte("junk"), "tls.crt": chain, "tls.key": []byte("junk")}},
		{Namespace: "other", Name: "users", Data: map[string][]byte{"auth": []byte(bcryptLine)}},
	} {
		s.Put(body)
	}
	s.SetKind(snapshot.Middleware, snapshot.KindKnown)
	return &world{snapshot: s, source: reference.Source{View: s.View(), Namespace: "shop"}}
}

// object makes an object of a spec in YAML.
func object(t *testing.T, kind snapshot.Kind, name, spec string) *snapshot.Resource {
	t.Helper()
	fields := must.Get(parseSpec(spec))(t)
	return &snapshot.Resource{Kind: kind, Namespace: "shop", Name: name, Spec: fields}
}

func parseSpec(spec string) (map[string]any, error) {
	value, err := declare.ParseYAML(spec)
	fields, _ := value.(map[string]any)
	return fields, err
}

func (w *world) put(t *testing.T, name, spec string) *snapshot.Resource {
	t.Helper()
	made := object(t, snapshot.Middleware, name, spec)
	w.snapshot.Put(made)
	return made
}

// wantFault fails unless there is one fault, with what is wanted of it.
func wantFault(t *testing.T, faults []refusal.Refusal, field string, reason refusal.Reason, says string) {
	t.Helper()
	if !slices.ContainsFunc(faults, func(f refusal.Refusal) bool {
		return f.Field == field && f.Reason == reason && strings.Contains(f.Message, says)
	}) || len(faults) != 1 {
		t.Errorf("want %s %s %q alone, got %+v", field, reason, says, faults)
	}
}

// valid fails unless a rule with the policies is valid, and the edge takes them.
func valid(t *testing.T, policies []route.Policy) {
	t.Helper()
	rule := route.Rule{ID: route.ID{Name: "x"}, Policies: policies, Response: &route.Response{Status: 503}}
	if problems := rule.Validate(); len(problems) > 0 {
		t.Error(problems)
	}
	deps := filter.Deps{
		Counters: filter.NewCounters(time.Unix(0, 0)), Encoders: filter.NewEncoders(),
		Backend: func(route.BackendID) filter.SubrequestClient { return nobody{} },
		// Only the edge has the engine of the rules; an error of theirs is its Refusal.
		WAF: func(*route.WAF) (filter.Filter, error) { return nil, nil },
	}
	if _, err := deps.Compile(policies); err != nil {
		t.Error(err)
	}
}

// nobody is a client that gets no request: filters are made here and not run.
type nobody struct{}

func (nobody) Do(*filter.Subrequest) (*filter.Subresponse, error) {
	return nil, errors.New("nobody answers")
}
